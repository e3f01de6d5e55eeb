"""A proxied link on real sockets: it carries, it is cut in one direction or both, it is reset, it heals."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nemesis.cluster.link_proxy import CHUNK_BYTES, Gate, LinkProxy
from nemesis.cluster.links import Links
from nemesis.faults.links import CLIENTS, LinkMode

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
    """One link with its two gates and the server behind it."""

    def __init__(self) -> None:
        self.forward, self.backward = Gate(), Gate()
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


async def test_an_open_link_carries_both_ways() -> None:
    """Bytes and answers pass, on several connections, and each end is passed on."""
    async with link() as made:
        first, second = await made.dial(), await made.dial()

        assert await ask(first, b"abcd") == b"dcba"
        assert await ask(second, b"efgh") == b"hgfe"
        first[1].close()
        async with asyncio.timeout(PATIENCE_S):
            assert await first[0].read() == b""
            while made.proxy.connections > 1:
                await asyncio.sleep(0.005)
        assert made.sink.ended == 1
        second[1].close()


async def test_a_blackholed_link_holds_everything_and_delivers_it_late_in_order() -> None:
    """What is sent while both gates are closed arrives whole and in order after they open, on the same connection."""
    async with link() as made:
        connection = await made.dial()
        assert await ask(connection, b"0000") == b"0000"
        made.forward.set_open(False)
        made.backward.set_open(False)
        for number in range(1, 50):
            connection[1].write(b"%04d" % number)
        await assert_silent(connection[0])
        assert len(made.sink.received) == 4

        made.forward.set_open(True)
        made.backward.set_open(True)

        expected = [b"%04d" % number for number in range(1, 50)]
        async with asyncio.timeout(PATIENCE_S):
            answers = await connection[0].readexactly(4 * 49)
        assert answers == b"".join(message[::-1] for message in expected)
        assert made.sink.received == b"0000" + b"".join(expected)
        connection[1].close()


async def test_a_new_connection_to_a_blackholed_link_hangs_until_it_heals() -> None:
    """While the link is cut a dial is accepted and hears nothing; nothing reaches the server before the healing."""
    async with link() as made:
        made.backward.set_open(False)
        connection = await made.dial()
        connection[1].write(b"abcd")
        await assert_silent(connection[0])
        assert made.sink.accepted == 0

        made.backward.set_open(True)

        async with asyncio.timeout(PATIENCE_S):
            assert await connection[0].readexactly(4) == b"dcba"
        connection[1].close()


async def test_a_blackholed_link_hides_the_end_of_a_connection() -> None:
    """A sender that closes while the link is cut is not known to have closed before the healing."""
    async with link() as made:
        connection = await made.dial()
        assert await ask(connection, b"abcd") == b"dcba"
        made.forward.set_open(False)
        connection[1].transport.abort()
        await asyncio.sleep(SILENCE_S)
        assert made.sink.ended == 0

        made.forward.set_open(True)

        async with asyncio.timeout(PATIENCE_S):
            while made.sink.ended == 0:
                await asyncio.sleep(0.005)


async def test_one_way_stops_the_bytes_of_one_direction_only() -> None:
    """With the way back closed requests still arrive and their answers do not."""
    async with link() as made:
        connection = await made.dial()
        assert await ask(connection, b"abcd") == b"dcba"
        made.backward.set_open(False)
        connection[1].write(b"efgh")
        await wait_for(made.sink, b"abcdefgh")
        await assert_silent(connection[0])

        made.backward.set_open(True)

        async with asyncio.timeout(PATIENCE_S):
            assert await connection[0].readexactly(4) == b"hgfe"
        connection[1].close()


async def test_a_reset_link_breaks_connections_and_refuses_new_ones() -> None:
    """Reset aborts what is open and whatever is dialled, until it is taken back."""
    async with link() as made:
        connection = await made.dial()
        assert await ask(connection, b"abcd") == b"dcba"

        made.proxy.set_refusing(True)

        with pytest.raises(ConnectionResetError):
            await ask(connection, b"efgh")
        refused = await made.dial()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await ask(refused, b"ijkl")
        made.proxy.set_refusing(False)
        again = await made.dial()
        assert await ask(again, b"mnop") == b"ponm"
        assert made.sink.received == b"abcdmnop"
        again[1].close()


async def test_a_link_to_a_dead_node_resets() -> None:
    """While the destination is down connections are reset at once, and the link works when it is back elsewhere."""
    async with link() as made:
        port, made.proxy.upstream = made.proxy.upstream, None
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await ask(await made.dial(), b"abcd")

        made.proxy.upstream = port

        connection = await made.dial()
        assert await ask(connection, b"abcd") == b"dcba"
        connection[1].close()


async def test_a_cut_link_keeps_a_bounded_amount() -> None:
    """A sender that goes on into a blackhole is soon stopped: the proxy does not store what it sends."""
    async with link() as made:
        made.forward.set_open(False)
        _, writer = await made.dial()
        writer.transport.set_write_buffer_limits(0)
        sent = 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE_S / 5):
                while sent < 1000 * CHUNK_BYTES:
                    writer.write(bytes(CHUNK_BYTES))
                    sent += CHUNK_BYTES
                    await writer.drain()

        assert sent < 500 * CHUNK_BYTES
        writer.transport.abort()


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


async def test_overlapping_cuts_heal_one_by_one() -> None:
    """A link that two faults cut passes again when both are healed, and other links never notice."""
    links = Links((1, 2, 3))
    sinks = await echo_cluster(links, (1, 2, 3))
    try:
        links.cut("a", [(1, 2), (2, 1)], LinkMode.BLACKHOLE)
        links.cut("b", [(1, 2)], LinkMode.BLACKHOLE)
        assert not await passes(links, 1, 2)
        assert await passes(links, 1, 3)
        links.heal("a")
        assert not await passes(links, 1, 2)
        assert not await passes(links, 2, 1), "its answers flow from 1 to 2"
        links.heal("b")
        assert await passes(links, 1, 2)
        assert await passes(links, 2, 1)
    finally:
        await links.close()
        for sink in sinks.values():
            await sink.close()


async def test_a_reset_concerns_who_dials() -> None:
    """Resetting the link from 1 to 2 leaves the connections that 2 dials to 1 alone, and clients too."""
    links = Links((1, 2, 3))
    sinks = await echo_cluster(links, (1, 2, 3))
    try:
        links.cut("a", [(1, 2)], LinkMode.RESET)

        assert not await passes(links, 1, 2)
        assert await passes(links, 2, 1)
        assert await passes(links, CLIENTS, 2)
        links.heal_all()
        assert await passes(links, 1, 2)
    finally:
        await links.close()
        for sink in sinks.values():
            await sink.close()


def test_a_link_that_does_not_exist_cannot_be_cut() -> None:
    """Cutting between unknown nodes is refused with the nodes that there are."""
    with pytest.raises(ValueError, match=r"no links \[\(1, 9\)\] among nodes \(1, 2, 3\)"):
        Links((1, 2, 3)).cut("a", [(1, 9)], LinkMode.BLACKHOLE)
