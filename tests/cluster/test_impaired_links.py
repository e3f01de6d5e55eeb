"""Links that work badly, on real sockets: each impairment bites, is counted, and is gone when it is healed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from nemesis.cluster.link_proxy import COPIED_BYTES_MAX
from nemesis.cluster.links import Links
from nemesis.faults.impairments import Bandwidth, Delay, Duplicate, Loss, NetworkFault, ReplyLost, Reset, SlowClose
from nemesis.faults.links import CLIENTS, LinkMode
from nemesis.faults.targets import Role
from tests.cluster.echoes import PATIENCE_S, SILENCE_S, Sink, ask, assert_silent, echo_cluster, passes, wait_for

FOR_EVER_MS = 3_600_000
BOTH_WAYS = frozenset({(1, 2), (2, 1)})
THERE = frozenset({(1, 2)})
ANY = Role.ALL
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Rig:
    """Three nodes that answer, and the links among them."""

    def __init__(self) -> None:
        self.links = Links((1, 2, 3))
        self.sinks: dict[int, Sink] = {}

    async def dial(self, source: int = 1, destination: int = 2) -> Connection:
        host, _, port = self.links.addresses(source)[destination].partition(":")
        return await asyncio.open_connection(host, int(port))

    async def impair(self, fault: NetworkFault, links: frozenset[tuple[int, int]] = BOTH_WAYS) -> None:
        await self.links.impair("0", links, fault, 7)


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """A rig that is taken down."""
    made = Rig()
    made.sinks = await echo_cluster(made.links, (1, 2, 3))
    try:
        yield made
    finally:
        await made.links.close()
        for sink in made.sinks.values():
            await sink.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.002)


async def test_a_delayed_link_answers_later() -> None:
    """A question and its answer take at least the latency of both directions, and those of another link do not."""
    async with rig() as made:
        connection = await made.dial()
        await made.impair(Delay(latency_ms=150, target=ANY))
        began_s = now_s()
        assert await ask(connection, b"abcd") == b"dcba"

        assert now_s() - began_s >= 0.3
        assert made.links.tally("0") == {"bytes": 8}
        other = await made.dial(1, 3)
        await ask(other, b"abcd")
        assert made.links.tally("0") == {"bytes": 8}
        connection[1].close()
        other[1].close()


async def test_jitter_keeps_the_order_of_a_connection() -> None:
    """Bytes that are late by different times arrive in the order in which they were sent, and all of them."""
    async with rig() as made:
        reader, writer = await made.dial()
        await made.impair(Delay(latency_ms=10, jitter_ms=10, target=ANY))
        sent = [b"%04d" % number for number in range(100)]
        for message in sent:
            writer.write(message)
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            answers = await reader.readexactly(400)

        assert answers == b"".join(message[::-1] for message in sent)
        writer.close()


@pytest.mark.parametrize(
    "fault",
    [
        Delay(latency_ms=FOR_EVER_MS, target=ANY),
        Loss(percent=100, retransmit_ms=FOR_EVER_MS, target=ANY),
        Bandwidth(rate_bytes_per_s=1, target=ANY),
    ],
    ids=lambda fault: fault.kind,
)
async def test_what_is_held_goes_when_the_link_heals(fault: NetworkFault) -> None:
    """What would arrive in an hour arrives at once when the link is healed, in order; and then nothing is late."""
    async with rig() as made:
        connection = await made.dial()
        assert await ask(connection, b"0000") == b"0000"
        await made.impair(fault)
        message = b"".join(b"%04d" % number for number in range(100))
        connection[1].write(message)
        await assert_silent(connection[0])
        assert len(made.sinks[2].received) < 100

        await made.links.heal("0")

        async with asyncio.timeout(PATIENCE_S):
            assert len(await connection[0].readexactly(len(message))) == len(message)
        assert made.sinks[2].received == b"0000" + message
        assert await ask(connection, b"abcd") == b"dcba"
        assert made.links.tally("0") == {}
        connection[1].close()


async def test_a_late_connection_that_is_cut_holds_what_was_on_its_way() -> None:
    """A cut stops also what the sender had sent before it and what was not there yet."""
    async with rig() as made:
        connection = await made.dial()
        assert await ask(connection, b"0000") == b"0000"
        await made.impair(Delay(latency_ms=50, target=ANY))
        connection[1].write(b"abcd")
        await until(lambda: made.links.tally("0").get("bytes") == 4)
        await made.links.cut("1", BOTH_WAYS, LinkMode.BLACKHOLE)
        await assert_silent(connection[0])
        assert made.sinks[2].received == b"0000"

        await made.links.heal("1")

        async with asyncio.timeout(PATIENCE_S):
            assert await connection[0].readexactly(4) == b"dcba"
        connection[1].close()


async def test_lost_packets_are_late_and_never_missing() -> None:
    """With half of the packets lost every byte arrives, in order, after a retransmission timeout for each loss."""
    async with rig() as made:
        connection = await made.dial()
        await made.impair(Loss(percent=50, retransmit_ms=5, target=ANY))
        began_s = now_s()
        for number in range(20):
            assert await ask(connection, b"%04d" % number) == (b"%04d" % number)[::-1]

        done = made.links.tally("0")
        assert done["packets"] == 40
        assert 0 < done["lost"] < 150
        assert now_s() - began_s >= 0.005 * done["lost"]
        connection[1].close()


async def test_a_narrow_link_takes_its_time_for_all_connections_together() -> None:
    """Two connections get no more bytes through than one would, in the direction that is narrow."""
    async with rig() as made:
        first, second = await made.dial(), await made.dial()
        await made.impair(Bandwidth(rate_bytes_per_s=4000, target=ANY), THERE)
        began_s = now_s()
        first[1].write(bytes(1000))
        second[1].write(bytes(1000))
        await until(lambda: len(made.sinks[2].received) == 2000)

        assert now_s() - began_s >= 2000 / 4000
        assert made.links.tally("0") == {"bytes": 2000}
        first[1].close()
        second[1].close()


async def test_connections_are_reset_and_new_ones_are_not() -> None:
    """A reset breaks what is open on its link, once, and whoever dials again is answered while the fault lasts."""
    async with rig() as made:
        connection, other = await made.dial(), await made.dial(1, 3)
        assert await ask(connection, b"abcd") == b"dcba"
        await made.impair(Reset(target=ANY))

        with pytest.raises(ConnectionError):
            await ask(connection, b"efgh")
        assert await passes(made.links, 1, 2)
        assert await ask(other, b"abcd") == b"dcba"
        assert made.links.tally("0") == {"connections": 1}
        other[1].close()


async def test_resets_come_again_until_they_are_healed() -> None:
    """Asked for several resets, each new connection is broken in its turn; a healed link breaks none."""
    async with rig() as made:
        await made.impair(Reset(times=1000, every_ms=10, target=ANY))
        for _ in range(3):
            reader, writer = await made.dial()
            with pytest.raises(ConnectionError):
                async with asyncio.timeout(PATIENCE_S):
                    await reader.readexactly(1)
                    raise AssertionError("nothing was asked")
            writer.transport.abort()
        assert made.links.tally("0")["connections"] >= 3

        await made.links.heal("0")

        connection = await made.dial()
        await asyncio.sleep(0.05)
        assert await ask(connection, b"abcd") == b"dcba"
        connection[1].close()


async def test_a_slow_close_is_seen_later() -> None:
    """The end of a connection is not seen while it is held back, data before it is; healing lets it through."""
    async with rig() as made:
        connection = await made.dial()
        await made.impair(SlowClose(delay_ms=FOR_EVER_MS, target=ANY))
        assert await ask(connection, b"abcd") == b"dcba"
        connection[1].close()
        await until(lambda: made.links.tally("0").get("ends") == 1)
        await asyncio.sleep(SILENCE_S)
        assert made.sinks[2].ended == 0

        await made.links.heal("0")

        await until(lambda: made.sinks[2].ended == 1)


async def test_a_lost_reply_was_asked_for_and_given() -> None:
    """The request arrives, its sender sees the connection break instead of an answer, and the other way is spared."""
    async with rig() as made:
        await made.impair(ReplyLost(target=ANY), THERE)
        connection = await made.dial()

        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await ask(connection, b"abcd")
        await wait_for(made.sinks[2], b"abcd")
        assert made.links.tally("0") == {"replies": 1, "lost": 1}
        assert await passes(made.links, 2, 1)

        await made.links.heal("0")
        assert await passes(made.links, 1, 2)


async def test_some_replies_are_lost() -> None:
    """With a share of less than all, some are lost and some arrive, as the dice of the seed say."""
    async with rig() as made:
        await made.impair(ReplyLost(percent=50, target=ANY), THERE)
        answered = [await passes(made.links, 1, 2) for _ in range(30)]

        assert made.links.tally("0") == {"replies": 30, "lost": answered.count(False)}
        assert 0 < answered.count(True) < 30


async def test_a_duplicate_arrives_twice_and_is_answered_once() -> None:
    """Whoever dials while it lasts is heard twice by the destination and gets one answer; afterwards once."""
    async with rig() as made:
        old = await made.dial()
        assert await ask(old, b"0000") == b"0000"
        await made.impair(Duplicate(target=ANY))
        with pytest.raises(ConnectionError):
            await ask(old, b"1111")
        connection = await made.dial()
        assert await ask(connection, b"abab") == b"baba"
        await wait_for(made.sinks[2], b"0000abababab")
        assert made.links.tally("0") == {"conversations": 1, "bytes": 4}
        await assert_silent(connection[0])

        await made.links.heal("0")
        again = await made.dial()
        assert await ask(again, b"efgh") == b"hgfe"
        await wait_for(made.sinks[2], b"0000ababababefgh")
        connection[1].close()
        again[1].close()


async def test_a_late_duplicate_comes_after_the_original() -> None:
    """With a delay the second delivery is at least so much later than the first answer could be."""
    async with rig() as made:
        await made.impair(Duplicate(delay_ms=200, target=ANY))
        connection = await made.dial()
        began_s = now_s()
        assert await ask(connection, b"abcd") == b"dcba"
        await wait_for(made.sinks[2], b"abcdabcd")

        assert now_s() - began_s >= 0.2
        connection[1].close()


async def test_a_cut_link_carries_no_duplicates() -> None:
    """What is to be said again waits like everything else while the link is cut."""
    async with rig() as made:
        await made.impair(Duplicate(delay_ms=50, target=ANY))
        connection = await made.dial()
        assert await ask(connection, b"abcd") == b"dcba"
        await made.links.cut("1", THERE, LinkMode.BLACKHOLE)
        await asyncio.sleep(SILENCE_S)
        assert made.sinks[2].received == b"abcd"

        await made.links.heal("1")

        await wait_for(made.sinks[2], b"abcdabcd")
        connection[1].close()


async def test_a_copy_is_bounded() -> None:
    """Of a conversation that goes on and on, a first part is said again, and the conversation itself goes on."""
    heard = 0

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        while chunk := await reader.read(1 << 16):
            heard += len(chunk)
        writer.close()

    async with rig() as made, await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        made.links.set_upstream(2, server.sockets[0].getsockname()[1])
        await made.impair(Duplicate(target=ANY), THERE)
        _, writer = await made.dial()
        size = COPIED_BYTES_MAX + (1 << 18)
        writer.write(bytes(size))

        await until(lambda: heard == size + COPIED_BYTES_MAX)
        assert made.links.tally("0") == {"conversations": 1, "bytes": COPIED_BYTES_MAX}
        writer.close()
        await made.links.heal("0")


async def test_a_link_that_does_not_exist_cannot_be_impaired() -> None:
    """An impairment of a link that nobody has is refused."""
    with pytest.raises(ValueError, match="no links"):
        await Links((1, 2, 3)).impair("a", [(1, 9)], Delay(latency_ms=1, target=ANY), 0)


async def test_everything_is_taken_back_at_once() -> None:
    """Healing all leaves no impairment, whichever there were."""
    async with rig() as made:
        await made.links.impair("a", BOTH_WAYS, Delay(latency_ms=FOR_EVER_MS, target=ANY), 1)
        await made.links.impair("b", BOTH_WAYS, ReplyLost(target=ANY), 2)
        await made.links.impair("c", BOTH_WAYS, Reset(times=1000, every_ms=5, target=ANY), 3)
        await made.links.impair("d", BOTH_WAYS, Duplicate(target=ANY), 4)
        await made.links.cut("e", BOTH_WAYS, LinkMode.RESET)

        await made.links.heal_all()

        assert (made.links.impaired, made.links.cuts) == (frozenset(), {})
        connection = await made.dial()
        assert await ask(connection, b"abcd") == b"dcba"
        assert made.sinks[2].received == b"abcd"
        connection[1].close()


# --- with gRPC, whose servers speak before they answer ----------------------------------------------------------------


class Calls:
    """A gRPC server that keeps what it is called with, behind node 2."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.server = grpc.aio.server()

    async def start(self) -> int:
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._handle)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Calls", {"Call": handler}),))
        port: int = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        return port

    async def _handle(self, request: bytes, context: object) -> bytes:
        del context
        self.received.append(request)
        return request[::-1]


@asynccontextmanager
async def calling() -> AsyncIterator[tuple[Links, Calls, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]]]:
    """A client of a gRPC server, through the clients' link to node 2."""
    links, calls = Links((1, 2)), Calls()
    await links.start()
    links.set_upstream(2, await calls.start())
    options = (("grpc.enable_retries", 0), ("grpc.initial_reconnect_backoff_ms", 100))
    try:
        async with grpc.aio.insecure_channel(links.addresses(CLIENTS)[2], options=options) as channel:
            yield links, calls, channel.unary_unary("/test.Calls/Call")
    finally:
        await links.close()
        await calls.server.stop(None)


CLIENTS_TO_2 = frozenset({(CLIENTS, 2), (2, CLIENTS)})


async def test_the_reply_of_a_call_is_lost() -> None:
    """A call is handled by the server and fails at the client as unavailable; also on a connection opened before."""
    async with calling() as (links, calls, call):
        assert await call(b"before", timeout=PATIENCE_S) == b"erofeb"
        await links.impair("0", CLIENTS_TO_2, ReplyLost(target=ANY), 0)
        for request in (b"first", b"second"):
            while (answer := await answer_of(call, request)) is None and request not in calls.received:
                pass
            assert answer is None
        assert calls.received == [b"before", b"first", b"second"]
        assert links.tally("0") == {"replies": 2, "lost": 2}

        await links.heal("0")

        while (answer := await answer_of(call, b"after")) is None:
            assert b"after" not in calls.received
        assert answer == b"retfa"


async def answer_of(call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes], request: bytes) -> bytes | None:
    """A call's answer; None where it is unavailable.

    Right after a reply is lost the channel may still send on the connection that has ended: nobody hears that.
    """
    try:
        return await call(request, timeout=PATIENCE_S, wait_for_ready=True)
    except grpc.aio.AioRpcError as failure:
        if failure.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return None


async def test_a_call_is_handled_twice() -> None:
    """Each call on a conversation that is copied reaches the server's handler twice and is answered once."""
    async with calling() as (links, calls, call):
        await links.impair("0", CLIENTS_TO_2, Duplicate(target=ANY), 0)
        requests = [b"%03d" % number for number in range(20)]
        for request in requests:
            assert await call(request, timeout=PATIENCE_S, wait_for_ready=True) == request[::-1]

        await until(lambda: len(calls.received) == 40)
        assert sorted(calls.received) == sorted(requests * 2)
        await links.heal("0")
        assert await call(b"after", timeout=PATIENCE_S, wait_for_ready=True) == b"retfa"
        assert calls.received[40:] == [b"after"]


async def test_large_calls_are_handled_twice() -> None:
    """Copies are heard at the pace of their originals also where they exceed the windows of a young connection."""
    async with calling() as (links, calls, call):
        await links.impair("0", CLIENTS_TO_2, Duplicate(target=ANY), 0)
        for number in range(5):
            await call(bytes([number]) * 150_000, timeout=PATIENCE_S, wait_for_ready=True)

        await until(lambda: len(calls.received) == 10)
