"""A proxied link on real sockets: it carries, it is cut in one direction or both, it is reset, it heals."""

from __future__ import annotations

import asyncio

import pytest

from nemesis.cluster.holds import CHUNK_BYTES
from nemesis.cluster.links import Links
from nemesis.faults.links import CLIENTS, LinkMode
from tests.cluster.echoes import PATIENCE_S, SILENCE_S, ask, assert_silent, echo_cluster, link, passes, wait_for


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
    """What is sent while both ways are closed arrives whole and in order after they open, on the same connection."""
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


async def test_overlapping_cuts_heal_one_by_one() -> None:
    """A link that two faults cut passes again when both are healed, and other links never notice."""
    links = Links((1, 2, 3))
    sinks = await echo_cluster(links, (1, 2, 3))
    try:
        await links.cut("a", [(1, 2), (2, 1)], LinkMode.BLACKHOLE)
        await links.cut("b", [(1, 2)], LinkMode.BLACKHOLE)
        assert not await passes(links, 1, 2)
        assert await passes(links, 1, 3)
        await links.heal("a")
        assert not await passes(links, 1, 2)
        assert not await passes(links, 2, 1), "its answers flow from 1 to 2"
        await links.heal("b")
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
        await links.cut("a", [(1, 2)], LinkMode.RESET)

        assert not await passes(links, 1, 2)
        assert await passes(links, 2, 1)
        assert await passes(links, CLIENTS, 2)
        await links.heal_all()
        assert await passes(links, 1, 2)
    finally:
        await links.close()
        for sink in sinks.values():
            await sink.close()


async def test_a_link_that_does_not_exist_cannot_be_cut() -> None:
    """Cutting between unknown nodes is refused with the nodes that there are."""
    with pytest.raises(ValueError, match=r"no links \[\(1, 9\)\] among nodes \(1, 2, 3\)"):
        await Links((1, 2, 3)).cut("a", [(1, 9)], LinkMode.BLACKHOLE)
