"""What one connection may hold of a server: answers, the size of a request, and the lines of what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import grpc
import grpc.aio
import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import capture_logs

from replica.bounds import PLACE_BYTES, REQUEST_BYTES_MAX
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId
from replica.rpc.channels import CHANNEL_CALLS_MAX, CONNECTION_CALLS_MAX
from replica.rpc.codec import FETCH, FETCH_SNAPSHOT, PRODUCE
from replica.rpc.transport import NOT_APPLIED_KEY, GrpcTransport
from replica.server.budgets import AnswerBudget, OverBudgetError
from replica.server.refusal_lines import LINES_PER_SECOND_MAX, RefusalLines
from replica.server.refusal_pace import PAUSE_S, RefusalPace
from replica.server.request_metrics import RequestCounts
from replica.server.service import ReplicaService, ServiceLimits
from tests.server.driver_fakes import LOG
from tests.server.served import served

MIB = 1 << 20
FETCH_ALL = m.FetchRequest(
    partitions=(m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(0)),), max_wait_ms=1000, max_bytes=16 * MIB
)

Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


def serving(
    answer: Callable[[m.Request], Awaitable[m.Response]],
    limits: ServiceLimits,
    *,
    counts: RequestCounts | None = None,
    pace: RefusalPace | None = None,
) -> AbstractAsyncContextManager[str]:
    """Serve ``answer`` on loopback."""
    logger = structlog.get_logger()
    return served(ReplicaService(call=answer, addresses={}, logger=logger, limits=limits, counts=counts, pace=pace))


async def refuse_nothing(_: m.Request) -> m.Response:
    return m.FetchResponse()


def test_a_fetch_sets_aside_a_fraction_of_what_is_left() -> None:
    """Nobody takes all: the first of a connection gets half, and so on, down to a place that each call has."""
    budget = AnswerBudget(connection_bytes_max=8 * MIB, all_bytes_max=1 << 40)
    sizes = [budget.admit("a", wants_bytes=16 * MIB).size_bytes for _ in range(5)]
    assert sizes == [4 * MIB, 2 * MIB, MIB, MIB // 2, PLACE_BYTES]
    assert budget.admit("b", wants_bytes=16 * MIB).size_bytes == 4 * MIB


def test_what_wants_little_takes_a_place_at_least() -> None:
    """Fetches of one byte cannot be without number: each has a place of a fixed size, until there is none."""
    budget = AnswerBudget(connection_bytes_max=3 * PLACE_BYTES, all_bytes_max=1 << 40)
    places = [budget.admit("a", wants_bytes=1) for _ in range(3)]
    with pytest.raises(OverBudgetError, match="wait for this connection, the most there may be; read them"):
        budget.admit("a", wants_bytes=1)
    budget.give_back(places[0])
    assert budget.admit("a", wants_bytes=1).size_bytes == PLACE_BYTES


def test_all_connections_together_have_a_budget_too() -> None:
    """Who comes by many connections is refused by what they hold together."""
    budget = AnswerBudget(connection_bytes_max=8 * MIB, all_bytes_max=2 * PLACE_BYTES)
    for name in ("a", "b"):
        budget.admit(name, wants_bytes=1)
    with pytest.raises(OverBudgetError, match="wait for all connections"):
        budget.admit("c", wants_bytes=1)


def test_what_was_given_back_is_forgotten() -> None:
    """A connection that holds nothing leaves nothing behind, and a place that is given back twice counts once."""
    budget = AnswerBudget(connection_bytes_max=8 * MIB, all_bytes_max=8 * MIB)
    place = budget.admit("a", wants_bytes=1)
    budget.resize(place, 3 * MIB)
    assert budget.held_bytes == 3 * MIB
    budget.give_back(place)
    budget.give_back(place)
    assert (budget.held_bytes, budget._held) == (0, {})


async def test_fetches_of_one_connection_that_wait_keep_no_other_out() -> None:
    """One connection's fetches are refused beyond its places, as not applied; another connection is served."""
    counts = RequestCounts()
    release = asyncio.Event()

    async def wait(_: m.Request) -> m.Response:
        await release.wait()
        return m.FetchResponse()

    limits = ServiceLimits(connection_answer_bytes_max=4 * PLACE_BYTES)
    request = FETCH.request.encode(replace(FETCH_ALL, max_bytes=1))
    async with (
        serving(wait, limits, counts=counts) as address,
        grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as greedy,
        grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as modest,
    ):
        calls = [asyncio.ensure_future(call(greedy, request)) for _ in range(10)]
        waiting, done = set(calls), set[asyncio.Task[tuple[str, bool]]]()
        while len(done) < 6:
            more, waiting = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert {task.result() for task in done} == {("RESOURCE_EXHAUSTED", True)}
        other = asyncio.ensure_future(call(modest, request))
        release.set()
        assert await other == ("OK", False)
        assert {await task for task in waiting} == {("OK", False)}
    assert counts.over_budget == {"connection_answer_bytes_max": 6}


async def test_a_piece_of_a_snapshot_is_bounded_as_a_fetch_is() -> None:
    """A client that makes a back-up is read no more than its answer may hold."""
    seen: list[int] = []

    async def answer(request: m.Request) -> m.Response:
        assert isinstance(request, m.FetchSnapshotRequest)
        seen.append(request.max_bytes)
        return m.FetchSnapshotResponse(error=ErrorCode.SNAPSHOT_NOT_FOUND)

    request = m.FetchSnapshotRequest(
        topic_partition=LOG,
        snapshot_end_offset=Offset(1),
        snapshot_epoch=Epoch(0),
        position=0,
        max_bytes=16 * MIB,
        current_leader_epoch=Epoch(1),
    )
    limits = ServiceLimits(connection_answer_bytes_max=8 * MIB)
    async with serving(answer, limits) as address, grpc.aio.insecure_channel(address) as channel:
        encoded = FETCH_SNAPSHOT.request.encode(request)
        assert await call(channel, encoded, FETCH_SNAPSHOT.full_name) == ("OK", False)
    assert seen == [4 * MIB]


async def test_refusals_of_one_connection_come_one_after_the_other() -> None:
    """Each waits for the one before it, those of another connection do not; who was refused long ago waits for none."""
    now, waited = 0.0, list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    pace = RefusalPace(seconds=lambda: now, sleep=sleep)
    for connection in ("greedy", "greedy", "modest", "greedy"):
        await pace.wait_turn(connection)
    assert waited == pytest.approx([PAUSE_S, 2 * PAUSE_S])
    now = 1.0
    await pace.wait_turn("greedy")
    assert len(waited) == 2


async def test_a_refusal_over_a_budget_waits_for_its_turn() -> None:
    """Ten fetches beyond the places of their connection take as many pauses, while it has no more calls inside."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    pace = RefusalPace(seconds=lambda: 0.0, sleep=sleep)
    limits = ServiceLimits(connection_answer_bytes_max=PLACE_BYTES - 1)
    async with serving(refuse_nothing, limits, pace=pace) as address, grpc.aio.insecure_channel(address) as channel:
        encoded = FETCH.request.encode(FETCH_ALL)
        refused = await asyncio.gather(*(call(channel, encoded) for _ in range(10)))
    assert set(refused) == {("RESOURCE_EXHAUSTED", True)}
    assert waited == pytest.approx([n * PAUSE_S for n in range(1, 10)])


async def call(channel: grpc.aio.Channel, request: bytes, name: str = FETCH.full_name) -> tuple[str, bool]:
    """Call, and return the status, and whether it is marked as not applied."""
    multicallable: Call = channel.unary_unary(name)
    try:
        await multicallable(request, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code().name, any(key == NOT_APPLIED_KEY for key, _ in error.trailing_metadata() or ())
    return "OK", False


async def test_an_answer_counts_until_it_was_taken() -> None:
    """A fetch is asked for no more than its share, and what was answered and read leaves nothing in the account."""
    asked: list[int] = []

    async def answer(request: m.Request) -> m.Response:
        assert isinstance(request, m.FetchRequest)
        asked.append(request.max_bytes)
        part = m.FetchedPartition(topic_partition=LOG, error=ErrorCode.NONE, records=bytes(request.max_bytes))
        return m.FetchResponse(partitions=(part,))

    limits = ServiceLimits(connection_answer_bytes_max=4 * MIB)
    options = [("grpc.max_receive_message_length", -1)]
    async with serving(answer, limits) as address, grpc.aio.insecure_channel(address, options=options) as channel:
        for _ in range(5):
            assert await call(channel, FETCH.request.encode(FETCH_ALL)) == ("OK", False)
    assert asked == [2 * MIB] * 5


async def test_grpc_collects_no_message_above_the_largest_request() -> None:
    """A longer message ends at its first five bytes, so that nothing of it is kept."""
    options = [("grpc.max_send_message_length", -1)]
    async with (
        serving(refuse_nothing, ServiceLimits()) as address,
        grpc.aio.insecure_channel(address, options=options) as channel,
    ):
        assert await call(channel, bytes(REQUEST_BYTES_MAX + 1), PRODUCE.full_name) == ("RESOURCE_EXHAUSTED", False)


@pytest.mark.slow
async def test_a_connection_has_so_many_calls_inside_at_once() -> None:
    """Calls of one client wait for their turn with it, and all are served; whoever does not wait has no more inside."""
    inside = most = 0

    async def answer(_: m.Request) -> m.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.1)
        inside -= 1
        return m.FetchResponse()

    limits = ServiceLimits(connection_answer_bytes_max=1 << 30)
    async with serving(answer, limits) as address:
        transport = GrpcTransport(lambda _: address)
        request = replace(FETCH_ALL, max_bytes=1)
        calls = (transport.call(ReplicaId(1), request, 20_000) for _ in range(2 * CHANNEL_CALLS_MAX))
        assert set(await asyncio.gather(*calls)) == {m.FetchResponse()}
        await transport.close()
        assert most <= CHANNEL_CALLS_MAX
        async with grpc.aio.insecure_channel(address) as channel:
            encoded = FETCH.request.encode(request)
            await asyncio.gather(*(call(channel, encoded) for _ in range(2 * CONNECTION_CALLS_MAX)))
        assert most <= CONNECTION_CALLS_MAX


async def test_a_server_takes_so_many_connections_and_no_more() -> None:
    """One connection too many is closed; those that were there are served."""
    service = ReplicaService(call=refuse_nothing, addresses={}, logger=structlog.get_logger())
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with served(service, connections_max=2) as address, AsyncExitStack() as open_channels:
        channels = [
            await open_channels.enter_async_context(grpc.aio.insecure_channel(address, options=own)) for _ in range(3)
        ]
        ended = [await call(channel, FETCH.request.encode(FETCH_ALL)) for channel in channels]
    assert ended == [("OK", False), ("OK", False), ("UNAVAILABLE", False)]


def test_an_attack_does_not_fill_the_log() -> None:
    """So many lines a second are said of refusals; the next one that is said counts those that were not."""
    now = [1.0]
    lines = RefusalLines(structlog.get_logger(), seconds=lambda: now[0])
    with capture_logs() as said:
        for _ in range(LINES_PER_SECOND_MAX + 7):
            lines.warn(rpc="Fetch")
        now[0] = 2.0
        lines.warn(rpc="Fetch")
    assert len(said) == LINES_PER_SECOND_MAX + 1
    assert said[-1]["unsaid_before"] == 7
