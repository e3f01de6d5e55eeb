"""A TCP proxy on one directed link: source dials destination here, and every byte passes a gate.

Owns the connections of one link. A gate belongs to a *direction of bytes*, not to a connection: a one-way cut from A to
B stops the requests on connections that A dialled and the answers on connections that B dialled.

While a gate is closed nothing is read from the sender beyond one chunk and asyncio's own bounded buffer, nothing is
written, and neither the end nor the breaking of a connection is passed on; a new connection is accepted and hangs. When
the gate opens again, what was held is delivered late but in order, as a network that retransmits would: nothing is lost
from the middle of a stream. A reset link aborts (RST) its connections and every new one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

CHUNK_BYTES = 1 << 16
"""What is held of one direction of one connection is a small multiple of this."""
CONNECTIONS_MAX = 1024
LOOPBACK = "127.0.0.1"
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Gate:
    """A direction that bytes may pass or not."""

    def __init__(self) -> None:
        self._is_open = asyncio.Event()
        self._is_open.set()

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


class LinkProxy:
    """Listens where the source dials, and forwards to wherever the destination listens now.

    ``forward`` is the gate of the bytes from source to destination, ``backward`` that of the answers. ``upstream`` is
    the destination's port, absent while it is down: then connections are reset, as a closed port would.
    """

    def __init__(self, *, forward: Gate, backward: Gate) -> None:
        self.upstream: int | None = None
        self._gates = (forward, backward)
        self._refuses = False
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    async def start(self) -> int:
        """Take a free port and return it. It stays taken until ``close``."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0, limit=CHUNK_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Give the port back and abort every connection."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._connections)
        self._abort_all()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """How many connections are open, hanging ones included."""
        return len(self._connections)

    def set_refusing(self, refuses: bool) -> None:
        """Reset all connections from now on, or let them through again."""
        self._refuses = refuses
        if refuses:
            self._abort_all()

    def _abort_all(self) -> None:
        for writers in self._connections.values():
            for writer in writers:
                _reset(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = [writer]
        try:
            if len(self._connections) <= CONNECTIONS_MAX:
                await self._carry(task, reader, writer)
        finally:
            for open_writer in self._connections.pop(task):
                _reset(open_writer)

    async def _carry(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one connection from its first byte to its end."""
        forward, backward = self._gates
        if not self._refuses:
            # A handshake needs both directions.
            await forward.wait_open()
            await backward.wait_open()
        if self._refuses or self.upstream is None:
            return
        try:
            answers, onward = await asyncio.open_connection(LOOPBACK, self.upstream, limit=CHUNK_BYTES)
        except OSError:
            return
        self._connections[task].append(onward)
        await asyncio.gather(_pump(reader, onward, forward), _pump(answers, writer, backward))
        await _close(writer, onward)


async def _pump(source: asyncio.StreamReader, destination: asyncio.StreamWriter, gate: Gate) -> None:
    """Carry one direction of one connection until it ends, and then pass on how it ended."""
    try:
        while True:
            await gate.wait_open()
            chunk = await source.read(CHUNK_BYTES)
            await gate.wait_open()
            if not chunk:
                break
            destination.write(chunk)
            await destination.drain()
        with suppress(OSError, RuntimeError):
            destination.write_eof()
    except OSError:
        await gate.wait_open()
        _reset(destination)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, with RST rather than FIN."""
    if writer.transport.is_closing():
        return
    raw = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()


async def _close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
