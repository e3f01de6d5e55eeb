"""Second connections to a destination, on which all that a source says is said again, and nobody hears the answers.

Owns these connections and their bounds. What is said again is a whole conversation from its first byte: HTTP/2 knows
its streams by their numbers and its headers by those before them, so that bytes from the middle mean nothing on another
connection. The destination hears a copy at the pace of the original. Where that is too fast for its windows it ends the
copy, which harms nobody else.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress

from nemesis.cluster.ways import Way

COPIED_BYTES_MAX = 1 << 20
"""A conversation is copied so far; what is said later is not said again."""
COPIES_MAX = 64
"""So many copies of one fault live on a link; then the eldest is ended."""
_DISCARDED_BYTES = 1 << 16


class Copy:
    """One conversation, said again to ``host:port``, each byte ``delay_s`` later. Lives until ``end``.

    While ``way`` is closed nothing is said.
    """

    def __init__(self, host: str, port: int, way: Way, *, delay_s: float, tally: Counter[str]) -> None:
        self._address = (host, port)
        self._way = way
        self._delay_s = delay_s
        self._tally = tally
        self._said: deque[tuple[float, bytes]] = deque()
        self._bytes_left = COPIED_BYTES_MAX
        self._more = asyncio.Event()
        self._task = asyncio.create_task(self._say_again())

    def on_said(self, chunk: bytes) -> None:
        """The source said this."""
        copied = chunk[: self._bytes_left]
        self._bytes_left -= len(copied)
        if copied:
            self._said.append((asyncio.get_running_loop().time() + self._delay_s, copied))
            self._more.set()

    def end(self) -> asyncio.Task[None]:
        """Say nothing more, and let the connection go; the task that ends with it."""
        self._task.cancel()
        return self._task

    async def _say_again(self) -> None:
        try:
            answers, writer = await asyncio.open_connection(*self._address)
        except OSError:
            return
        self._tally["conversations"] += 1
        discarding = asyncio.create_task(_discard(answers))
        try:
            while True:
                await self._say_next(writer)
        except OSError:
            pass  # The destination has ended it.
        finally:
            discarding.cancel()
            writer.transport.abort()

    async def _say_next(self, writer: asyncio.StreamWriter) -> None:
        while not self._said:
            self._more.clear()
            await self._more.wait()
        due_s, chunk = self._said.popleft()
        await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
        await self._way.wait_open()
        writer.write(chunk)
        await writer.drain()
        self._tally["bytes"] += len(chunk)


class Copies:
    """The copies that one fault makes on one link."""

    def __init__(self, *, delay_s: float, tally: Counter[str]) -> None:
        self._delay_s = delay_s
        self._tally = tally
        self._copies: deque[Copy] = deque()

    def begin(self, host: str, port: int, way: Way) -> Copy:
        """Copy a conversation that begins."""
        if len(self._copies) == COPIES_MAX:
            self._copies.popleft().end()
        self._copies.append(Copy(host, port, way, delay_s=self._delay_s, tally=self._tally))
        return self._copies[-1]

    def end(self) -> list[asyncio.Task[None]]:
        """End them all; the tasks that end with them."""
        return [copy.end() for copy in self._copies]


async def _discard(answers: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await answers.read(_DISCARDED_BYTES):
            pass
