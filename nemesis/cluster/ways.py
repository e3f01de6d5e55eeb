"""One direction of a link, and what is on its way there: bytes are held back as long as the link's faults say.

Owns the order of the bytes of one connection, and the bound on what is held. A way belongs to a *direction of bytes*,
not to a connection: a one-way cut from A to B stops the requests on connections that A dialled and the answers on
connections that B dialled. What is held goes at once when nothing holds it any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from nemesis.cluster.holds import CHUNK_BYTES, Hold

HELD_BYTES_MAX = 1 << 18
"""So much is on its way in one direction of one connection; then nothing is read any more."""


class Way:
    """A direction that bytes may pass or not, at once or later."""

    def __init__(self) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._holds: dict[str, Hold] = {}
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether bytes pass."""
        return self._is_open.is_set()

    def set_open(self, is_open: bool) -> None:
        """Open or close."""
        if is_open:
            self._is_open.set()
        else:
            self._is_open.clear()

    async def wait_open(self) -> None:
        """Return as soon as bytes may pass."""
        await self._is_open.wait()

    def hold(self, key: str, hold: Hold) -> None:
        """Hold bytes back from now on, until ``release(key)``."""
        self._holds[key] = hold

    def release(self, key: str) -> None:
        """Hold nothing back any more because of this key; what nothing else holds goes at once."""
        if self._holds.pop(key, None) is not None:
            self._changed.set()
            self._changed = asyncio.Event()

    @property
    def is_swift(self) -> bool:
        """Whether nothing is held back."""
        return not self._holds

    @property
    def chunk_bytes_max(self) -> int:
        """How much to read at a time."""
        return min((hold.chunk_bytes_max for hold in self._holds.values()), default=CHUNK_BYTES)

    def due_s(self, size: int) -> float:
        """When so many bytes that come now may go on, by the event loop's clock."""
        now_s = asyncio.get_running_loop().time()
        return now_s + sum(hold.bytes_s(size, now_s) for hold in self._holds.values())

    def passed(self, chunk: bytes) -> bytes:
        """What becomes of a chunk that passes."""
        for hold in self._holds.values():
            chunk = hold.passed(chunk)
        return chunk

    async def wait_due(self, due_s: float) -> None:
        """Wait until then, or until nothing is held back."""
        while self._holds and (left_s := due_s - asyncio.get_running_loop().time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    async def wait_end(self) -> None:
        """Wait as long as the end of a connection that ends now is held back."""
        await self.wait_due(asyncio.get_running_loop().time() + sum(hold.end_s() for hold in self._holds.values()))


class Line:
    """What is on its way in one direction of one connection, in order."""

    def __init__(self, way: Way, destination: asyncio.StreamWriter) -> None:
        self._way = way
        self._destination = destination
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._last_due_s = 0.0
        self._carrier: asyncio.Task[None] | None = None
        self._carried = asyncio.Event()

    async def carry(self, chunk: bytes) -> None:
        """Let a chunk go: at once, or when it is its time and what came before is gone. Raises OSError.

        Returns when there is room for another one.
        """
        if not self._held and self._way.is_swift:
            self._destination.write(chunk)
            await self._destination.drain()
            return
        chunk = self._way.passed(chunk)
        self._last_due_s = max(self._last_due_s, self._way.due_s(len(chunk)))
        self._held.append((self._last_due_s, chunk))
        self._held_bytes += len(chunk)
        if self._carrier is None or self._carrier.done():
            await self._see_carried()
            self._carrier = asyncio.create_task(self._deliver())
        while self._held_bytes > HELD_BYTES_MAX and not self._carrier.done():
            self._carried.clear()
            await self._carried.wait()

    async def wait_empty(self) -> None:
        """Wait until everything has gone. Raises OSError where it could not."""
        await self._see_carried()

    def abandon(self) -> None:
        """Carry nothing more."""
        if self._carrier is not None:
            self._carrier.cancel()

    async def _see_carried(self) -> None:
        if self._carrier is not None:
            await self._carrier

    async def _deliver(self) -> None:
        try:
            while self._held:
                due_s, chunk = self._held[0]
                await self._way.wait_due(due_s)
                await self._way.wait_open()
                self._destination.write(chunk)
                await self._destination.drain()
                self._held.popleft()
                self._held_bytes -= len(chunk)
                self._carried.set()
        finally:
            self._carried.set()


async def pump(
    source: asyncio.StreamReader,
    destination: asyncio.StreamWriter,
    way: Way,
    passing: Callable[[bytes], bytes],
    reset: Callable[[asyncio.StreamWriter], None],
) -> None:
    """Carry one direction of one connection until it ends, and then pass on how it ended.

    ``passing`` sees each chunk and returns what of it may go on; less than all of it breaks the connection.
    """
    line = Line(way, destination)
    try:
        while True:
            await way.wait_open()
            chunk = await source.read(way.chunk_bytes_max)
            await way.wait_open()
            if not chunk:
                break
            may_go = passing(chunk)
            if may_go:
                await line.carry(may_go)
            if len(may_go) < len(chunk):
                raise ConnectionResetError("the rest of it is lost")
        await line.wait_empty()
        await way.wait_end()
        await way.wait_open()
        with suppress(OSError, RuntimeError):
            destination.write_eof()
    except OSError:
        with suppress(OSError):
            await line.wait_empty()
        await way.wait_end()
        await way.wait_open()
        reset(destination)
    finally:
        line.abandon()
