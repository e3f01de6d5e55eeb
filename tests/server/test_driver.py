"""The driver: effects in order, one step at a time, flushes merged, and nothing promised after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import structlog.testing
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Epoch, Offset, ReplicaId
from replica.rpc.transport import TransportError
from replica.server.clocks import MachineClocks, monotonic_ms
from replica.server.driver import CLOCK_READ_INTERVAL_MS, TURN_MS, ReplicaStoppedError
from tests.server.driver_fakes import LOG, NotingObserver, Script, wait_until
from tests.server.driver_rig import ASK, NOW_MS, batch, flush, on, running

ANSWER = m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(7))
TWO = ReplicaId(2)
BEGIN = m.BeginQuorumEpochRequest(topic_partition=LOG, leader_id=ReplicaId(1), leader_epoch=Epoch(3))


def on_request(*effects: Callable[[CallId], fx.Effect]) -> Script:
    def answered(event: ev.Event) -> tuple[fx.Effect, ...]:
        assert isinstance(event, ev.RequestReceived), event
        return tuple(effect(event.call_id) for effect in effects)

    return on(ev.RequestReceived, answered)


def reply(call_id: CallId) -> fx.Effect:
    return fx.Reply(call_id=call_id, response=ANSWER)


def log_range(start_offset: int, end_offset: int) -> fx.LogRange:
    return fx.LogRange(
        topic_partition=LOG, start_offset=Offset(start_offset), end_offset=Offset(end_offset), max_bytes=100
    )


async def test_effects_are_performed_in_order() -> None:
    """What stands before a reply in the effects of a step has been stored when the reply goes out."""
    script = on_request(
        lambda _: fx.StoreQuorumState(topic_partition=LOG, state=fx.QuorumState(leader_epoch=Epoch(4))),
        lambda _: fx.Truncate(topic_partition=LOG, end_offset=Offset(0)),
        lambda _: fx.StoreEpochs(topic_partition=LOG, entries=()),
        lambda _: fx.Append(topic_partition=LOG, batches=(batch(0),)),
        reply,
    )
    async with running(script) as rig:
        assert await rig.driver.call(ASK) == ANSWER
        assert rig.log.journal == ["quorum-state 4", "truncate 0", "epochs 0", "append 1"]


async def test_started_comes_first_and_once() -> None:
    """The first event of a core is Started, and no other event is."""
    async with running(lambda _: ()) as rig:
        rig.driver.submit(ev.Ticked())
        assert rig.core.events == [ev.Started(unix_ms=NOW_MS), ev.Ticked()]


class SetClocks(MachineClocks):
    """Clocks that show what a test says."""

    def __init__(self) -> None:
        self.now_ms = monotonic_ms()
        self.wall_ms = NOW_MS

    def monotonic_ms(self) -> int:
        return self.now_ms

    def unix_ms(self) -> int:
        return self.wall_ms


async def test_the_core_is_told_what_time_of_day_it_is() -> None:
    """A reading of the machine's clock goes before whatever happens a second or more after the last one."""
    clocks = SetClocks()
    async with running(lambda _: (), clocks) as rig:
        clocks.wall_ms += 5000
        clocks.now_ms += CLOCK_READ_INTERVAL_MS - 1
        rig.driver.submit(ev.Ticked())
        clocks.now_ms += 1
        rig.driver.submit(ev.Ticked())
        rig.driver.submit(ev.Ticked())
        read = ev.ClockRead(unix_ms=NOW_MS + 5000)
        assert rig.core.events == [ev.Started(unix_ms=NOW_MS), ev.Ticked(), read, ev.Ticked(), ev.Ticked()]


async def test_an_event_during_a_step_waits_for_its_end() -> None:
    """An event that is submitted while effects are performed is stepped after them, never inside."""
    async with running(on_request(lambda _: fx.Append(topic_partition=LOG, batches=(batch(0),)), reply)) as rig:
        rig.log.on_append = lambda: rig.driver.submit(ev.Ticked())
        await rig.driver.call(ASK)
        assert [type(event) for event in rig.core.events] == [ev.Started, ev.RequestReceived, ev.Ticked]
        assert rig.observer.steps == rig.core.events


@pytest.mark.parametrize("step_ms", [1, 3, 2 * TURN_MS])
async def test_the_event_loop_runs_between_turns(step_ms: int) -> None:
    """However many events come at once, steps take so long and no longer until it runs; none is lost or overtaken."""
    clocks, events = SetClocks(), [ev.SendFailed(correlation_id=CorrelationId(at), replica_id=TWO) for at in range(30)]

    def take_long(_: ev.Event) -> tuple[fx.Effect, ...]:
        clocks.now_ms += step_ms
        return ()

    async with running(on(ev.SendFailed, take_long), clocks) as rig:
        for event in events:
            rig.driver.submit(event)
        taken = [len(rig.core.seen(ev.SendFailed))]
        while taken[-1] < len(events):
            await asyncio.sleep(0)
            taken.append(len(rig.core.seen(ev.SendFailed)))
        assert max(after - before for before, after in pairwise([0, *taken])) == -(-TURN_MS // step_ms)
        assert rig.core.seen(ev.SendFailed) == events


FAILED = ev.StorageFailed(reason="the disk refuses")
FLUSHED = ev.Flushed(topic_partition=LOG, end_offset=Offset(10))


@pytest.mark.parametrize(("event", "is_first"), [(FAILED, True), (FLUSHED, False)])
async def test_what_storage_reports_waits_for_no_turn(event: ev.Event, is_first: bool) -> None:
    """It is of the log as it is: behind a cut that waits for its turn a flush would speak for what comes after that."""
    clocks = SetClocks()

    def take_long(_: ev.Event) -> tuple[fx.Effect, ...]:
        clocks.now_ms += TURN_MS
        return ()

    async with running(on(ev.Ticked, take_long), clocks) as rig:
        for _ in range(3):
            rig.driver.submit(ev.Ticked())
        rig.driver.submit(event, is_first=is_first)
        assert rig.core.events == [ev.Started(unix_ms=NOW_MS), ev.Ticked(), event]


async def test_records_of_a_reply_are_read_as_it_is_made() -> None:
    """ReplyWithRecords is answered with the bytes that the log holds in the named range."""
    empty = m.FetchedPartition(topic_partition=LOG, error=ErrorCode.NONE)

    def fetched(call_id: CallId) -> fx.Effect:
        return fx.ReplyWithRecords(
            call_id=call_id, response=m.FetchResponse(partitions=(empty,)), ranges=(log_range(2, 5),), max_bytes=100
        )

    async with running(on_request(fetched)) as rig:
        response = await rig.driver.call(m.FetchRequest(partitions=()))
        assert response == m.FetchResponse(partitions=(replace(empty, records=b"2..5"),))


async def test_flushes_that_wait_become_one() -> None:
    """Flushes asked for while one runs are merged into the next, which speaks for all of them."""
    async with running(on(ev.Ticked, lambda _: ())) as rig:
        rig.log.flush_may_end.clear()
        for end_offset in (1, 2, 3, 4):
            rig.log.end_offset = Offset(end_offset)
            wanted = (flush(end_offset),)
            rig.core.script = on(ev.Ticked, partial(lambda effects, _: effects, wanted))
            rig.driver.submit(ev.Ticked())
            await wait_until(rig.log.flush_began.is_set, "the first flush")
        rig.core.script = lambda _: ()
        rig.log.flush_may_end.set()
        await wait_until(lambda: len(rig.core.seen(ev.Flushed)) == 2, "the merged flush")
        assert rig.log.flushes == 2
        assert rig.core.seen(ev.Flushed) == [
            ev.Flushed(topic_partition=LOG, end_offset=Offset(1)),
            ev.Flushed(topic_partition=LOG, end_offset=Offset(4)),
        ]


async def test_a_flush_in_flight_of_what_is_cut_is_never_reported() -> None:
    """Else it would speak for what was appended in place of the cut part: only a flush asked for later does."""

    def truncate_and_refill(_: ev.Event) -> tuple[fx.Effect, ...]:
        rig.log.flush_may_end.set()
        return (
            fx.Truncate(topic_partition=LOG, end_offset=Offset(5)),
            fx.Append(topic_partition=LOG, batches=(batch(5), batch(6))),
            flush(7),
        )

    async with running(on(ev.Ticked, lambda _: (flush(10),))) as rig:
        rig.log.end_offset = Offset(10)
        rig.log.flush_may_end.clear()
        rig.driver.submit(ev.Ticked())
        await wait_until(rig.log.flush_began.is_set, "the flush")
        rig.core.script = on(ev.Ticked, truncate_and_refill)
        rig.driver.submit(ev.Ticked())
        rig.core.script = lambda _: ()
        await wait_until(lambda: bool(rig.core.seen(ev.Flushed)), "the flush")
        assert (rig.observer.flushed, rig.log.flushes) == ([7], 2)


async def test_a_caller_that_gives_up_harms_nothing() -> None:
    """A cancelled call is not answered and its records are not read; what it began and other calls go on."""
    script = on_request(lambda _: fx.Append(topic_partition=LOG, batches=(batch(0),)))
    async with running(script) as rig:
        gone, stays = asyncio.ensure_future(rig.driver.call(ASK)), asyncio.ensure_future(rig.driver.call(ASK))
        await wait_until(lambda: len(rig.core.seen(ev.RequestReceived)) == 2, "both requests")
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        rig.core.script = on(
            ev.Ticked,
            lambda _: (
                fx.ReplyWithRecords(
                    call_id=CallId(0),
                    response=m.FetchResponse(),
                    ranges=(log_range(0, 1),),
                    max_bytes=1,
                ),
                reply(CallId(1)),
            ),
        )
        rig.driver.submit(ev.Ticked())
        assert await stays == ANSWER
        assert rig.log.journal == ["append 1", "append 1"]


@pytest.mark.parametrize("ends", [reply(CallId(0)), fx.Halt(reason="enough")], ids=["answered", "halted"])
async def test_a_caller_may_give_up_in_the_moment_of_its_answer(ends: fx.Effect) -> None:
    """Its task has not run since it was cancelled, so that the driver still knows the call."""
    async with running(on(ev.Ticked, lambda _: (ends,))) as rig:
        gone = asyncio.ensure_future(rig.driver.call(ASK))
        await wait_until(lambda: len(rig.core.seen(ev.RequestReceived)) == 1, "the request")
        gone.cancel()
        rig.driver.submit(ev.Ticked())
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert rig.observer.halted == ([ends.reason] if isinstance(ends, fx.Halt) else [])


async def test_a_storage_failure_ends_the_step_and_the_replica() -> None:
    """After a failed write no later effect of the step is performed, the core hears of it, and its Halt is final."""

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        match event:
            case ev.RequestReceived(call_id=call_id):
                return (fx.Append(topic_partition=LOG, batches=(batch(0),)), reply(call_id))
            case ev.StorageFailed(reason=reason):
                return (fx.Halt(reason=reason), flush(1))
            case _:
                return ()

    async with running(script) as rig:
        rig.log.failing = "append"
        with pytest.raises(ReplicaStoppedError, match=r"/data/0\.log") as waiting:
            await rig.driver.call(ASK)
        assert not waiting.value.not_applied
        assert rig.driver.halted.is_set()
        assert rig.observer.halted == ["cannot append 1: /data/0.log"]
        assert rig.log.flushes == 0
        with pytest.raises(ReplicaStoppedError) as late:
            await rig.driver.call(ASK)
        assert late.value.not_applied


async def test_a_storage_failure_is_heard_before_anything_else() -> None:
    """An event that already waited when a write failed is stepped after the failure, if at all."""
    async with running(on_request(lambda _: fx.Append(topic_partition=LOG, batches=(batch(0),)))) as rig:
        rig.log.failing = "append"
        rig.log.on_append = lambda: rig.driver.submit(ev.Ticked())
        call = asyncio.ensure_future(rig.driver.call(ASK))
        await wait_until(lambda: bool(rig.core.seen(ev.Ticked)), "the tick")
        assert [type(event) for event in rig.core.events] == [
            ev.Started,
            ev.RequestReceived,
            ev.StorageFailed,
            ev.Ticked,
        ]
        call.cancel()


async def test_a_failed_flush_reaches_the_core_and_is_not_repeated() -> None:
    """A flush that fails becomes StorageFailed, once; flushes that waited behind it are not run."""

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        match event:
            case ev.Ticked():
                return (flush(1), flush(2))
            case ev.StorageFailed(reason=reason):
                return (fx.Halt(reason=reason),)
            case _:
                return ()

    async with running(script) as rig:
        rig.log.failing = "flush"
        rig.driver.submit(ev.Ticked())
        await asyncio.wait_for(rig.driver.halted.wait(), 10)
        assert rig.core.seen(ev.Flushed) == []
        assert rig.driver.halt_reason == "the platter is gone: /data/0.log"
        assert rig.log.flushes == 1


async def test_a_broken_core_stops_the_replica() -> None:
    """A core that raises is not stepped again, and its callers learn that the outcome is unknown."""

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        assert isinstance(event, ev.Started), "epoch went backwards"
        return ()

    async with running(script) as rig:
        with pytest.raises(ReplicaStoppedError, match="epoch went backwards"):
            await rig.driver.call(ASK)
        rig.driver.submit(ev.Ticked())
        assert rig.core.seen(ev.Ticked) == []


def send(timeout_ms: int) -> fx.Send:
    return fx.Send(replica_id=ReplicaId(2), correlation_id=CorrelationId(9), request=BEGIN, timeout_ms=timeout_ms)


async def test_a_peers_answer_comes_back_as_an_event() -> None:
    """The answer to a Send is stepped with its correlation id."""
    async with running(on(ev.Started, lambda _: (send(5000),))) as rig:
        await wait_until(lambda: bool(rig.transport.answers), "the call")
        answer = m.BeginQuorumEpochResponse(error=ErrorCode.NONE)
        rig.transport.answers[0].set_result(answer)
        await wait_until(lambda: len(rig.core.events) == 2, "the answer")
        assert rig.transport.calls == [(2, BEGIN)]
        assert rig.core.events[1] == ev.ResponseReceived(
            correlation_id=CorrelationId(9), replica_id=ReplicaId(2), response=answer
        )


@pytest.mark.parametrize("refused", [True, False])
async def test_no_answer_comes_back_as_an_event(refused: bool) -> None:
    """A Send that fails, and one that nobody answers in time, end as SendFailed."""
    async with running(on(ev.Started, lambda _: (send(5000 if refused else 10),))) as rig:
        await wait_until(lambda: bool(rig.transport.answers), "the call")
        if refused:
            rig.transport.answers[0].set_exception(TransportError("refused"))
        await wait_until(lambda: len(rig.core.events) == 2, "the failure")
        assert rig.core.events[1] == ev.SendFailed(correlation_id=CorrelationId(9), replica_id=ReplicaId(2))
        assert rig.observer.unreachable == [2]


async def test_a_mistake_in_a_send_stops_the_replica() -> None:
    """A Send that ends in a way that nobody foresaw is a bug, and halts: the core would wait for ever."""
    async with running(on(ev.Started, lambda _: (send(5000),))) as rig:
        await wait_until(lambda: bool(rig.transport.answers), "the call")
        rig.transport.answers[0].set_exception(ValueError("Value out of range: 4294967296"))
        await wait_until(rig.driver.halted.is_set, "the halt")
        assert rig.driver.halt_reason == "internal error: ValueError: Value out of range: 4294967296"


async def test_an_observer_that_fails_breaks_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the observer raises, events are stepped, sends have outcomes, flushes come back; it is said once."""

    def fail(*_: object) -> None:
        raise KeyError("no such label")

    for name in ("on_step", "on_flushed", "on_peer_unreachable", "on_halted"):
        monkeypatch.setattr(NotingObserver, name, fail)
    with structlog.testing.capture_logs() as lines:
        async with running(on(ev.Started, lambda _: (flush(1), send(10)))) as rig:
            await wait_until(lambda: len(rig.core.events) == 3, "the flush and the failure")
            assert {type(event) for event in rig.core.events} == {ev.Started, ev.Flushed, ev.SendFailed}
            rig.core.script = lambda _: (fx.Halt(reason="the test says so"),)
            rig.driver.submit(ev.Ticked())
            assert rig.driver.halted.is_set()
    assert [line["event"] for line in lines] == ["observer_failed"]


async def test_a_call_whose_connection_is_taken_away_comes_back_as_an_event() -> None:
    """A call that is cancelled under the driver, because its replica has moved, ends as SendFailed as well."""
    async with running(on(ev.Started, lambda _: (send(5000),))) as rig:
        await wait_until(lambda: bool(rig.transport.answers), "the call")
        rig.transport.answers[0].cancel()
        await wait_until(lambda: len(rig.core.events) == 2, "the failure")
        assert rig.core.events[1] == ev.SendFailed(correlation_id=CorrelationId(9), replica_id=ReplicaId(2))


async def test_the_core_is_ticked_at_its_deadline() -> None:
    """A core that names a deadline is stepped when it is reached, not before, and then at its next one."""
    ticks: list[int] = []

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        if isinstance(event, ev.Ticked):
            ticks.append(monotonic_ms())
            rig.core.deadline_ms = None
        return ()

    async with running(script) as rig:
        rig.core.deadline_ms = deadline_ms = monotonic_ms() + 30
        rig.driver.submit(ev.SendFailed(correlation_id=CorrelationId(0), replica_id=ReplicaId(2)))
        await wait_until(lambda: bool(ticks), "the tick")
        assert ticks[-1] >= deadline_ms - 1


async def test_stopping_fails_the_calls_that_wait() -> None:
    """A call that is still unanswered when the driver stops ends as unknown, and the flush in flight is awaited."""
    async with running(on_request(lambda _: flush(1))) as rig:
        call = asyncio.ensure_future(rig.driver.call(ASK))
        await wait_until(rig.log.flush_began.is_set, "the flush")
        await rig.driver.stop()
        with pytest.raises(ReplicaStoppedError) as stopped:
            await call
        assert not stopped.value.not_applied


async def test_wait_until_sees_what_a_step_changed() -> None:
    """Waiting for a condition ends with the step that makes it true, or with false when time is up."""
    async with running(lambda _: ()) as rig:
        waiting = asyncio.ensure_future(rig.driver.wait_until(lambda: len(rig.core.events) == 3, 10_000))
        rig.driver.submit(ev.Ticked())
        rig.driver.submit(ev.Ticked())
        assert await waiting
        assert not await rig.driver.wait_until(lambda: False, 10)


async def test_whom_the_core_watches_is_watched_from_that_step_on() -> None:
    """The watch is told when they are others, and not at every step; it ends with the driver."""
    watched = [frozenset({ReplicaId(2)}), frozenset({ReplicaId(2), ReplicaId(3)})]
    async with running(on(ev.Started, lambda _: ())) as rig:
        rig.core.watched_peers = watched[0]
        rig.driver.submit(ev.Ticked())
        rig.driver.submit(ev.Ticked())
        rig.core.watched_peers = watched[1]
        rig.driver.submit(ev.Ticked())
        assert rig.watch.watched == watched
    assert rig.watch.is_stopped
