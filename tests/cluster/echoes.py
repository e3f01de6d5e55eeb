"""Servers behind links on real sockets that keep what they get and answer it, and whoever asks them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nemesis.cluster.link_proxy import LinkProxy
from nemesis.cluster.links import Links
from nemesis.cluster.ways import Way

PATIENCE_S = 10.0
SILENCE_S = 0.15
"""Long enough for bytes that are not stopped to arrive on loopback."""


class Sink:
    """A server that keeps what it gets, and answers each message of four bytes with the same reversed."""

    def __init__(self) -> None:
        self.received = b""
        self.accepted = 0
        self.ended = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        try:
            while message := await reader.readexactly(4):
                self.received += message
                writer.write(message[::-1])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended += 1
        finally:
            writer.close()

    async def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


class Link:
    """One link with its two ways and the server behind it."""

    def __init__(self) -> None:
        self.forward, self.backward = Way(), Way()
        self.proxy = LinkProxy(forward=self.forward, backward=self.backward)
        self.sink = Sink()
        self.port = 0

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def link() -> AsyncIterator[Link]:
    """A link to a server that answers."""
    made = Link()
    made.proxy.upstream = await made.sink.start()
    made.port = await made.proxy.start()
    try:
        yield made
    finally:
        await made.proxy.close()
        await made.sink.close()


async def ask(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], message: bytes) -> bytes:
    """Send and wait for the answer."""
    reader, writer = connection
    writer.write(message)
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readexactly(len(message))


async def assert_silent(reader: asyncio.StreamReader) -> None:
    """Nothing comes, not even the end of the connection."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SILENCE_S):
            await reader.read(1)


async def wait_for(sink: Sink, received: bytes) -> None:
    """Wait until the server has got just this."""
    async with asyncio.timeout(PATIENCE_S):
        while sink.received != received:
            await asyncio.sleep(0.005)


async def echo_cluster(links: Links, nodes: tuple[int, ...]) -> dict[int, Sink]:
    """A server behind every node of these links."""
    sinks = {node: Sink() for node in nodes}
    await links.start()
    for node, sink in sinks.items():
        links.set_upstream(node, await sink.start())
    return sinks


async def passes(links: Links, source: int, destination: int) -> bool:
    """Whether a question from ``source`` is answered by ``destination``."""
    host, _, port = links.addresses(source)[destination].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(struct.pack(">I", 7))
        async with asyncio.timeout(2 * SILENCE_S):
            return len(await reader.readexactly(4)) == 4
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
        return False
    finally:
        writer.transport.abort()
