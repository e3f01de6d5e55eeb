"""Lines of standard input for a program with an event loop: those of a terminal or pipe are waited for, not blocked on.

Owns how bytes become lines. Knows nothing of records.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO

CHUNK_BYTES = 1 << 16


async def lines_of(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yield line by line, without line ends; the last one need not have any."""
    rest = b""
    async for chunk in _chunks(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


async def _chunks(stream: BinaryIO) -> AsyncIterator[bytes]:
    try:
        descriptor = stream.fileno()
    except OSError:  # Not a file of the operating system: nothing to wait for.
        yield stream.read()
        return
    while True:
        await _wait_readable(descriptor)
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _wait_readable(descriptor: int) -> None:
    """Wait for input. What cannot be waited for, such as a file, always has some."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
