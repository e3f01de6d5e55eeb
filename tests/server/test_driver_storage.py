"""The driver over many logs: reports that come back as events, logs that come and go, and flushes of all of them."""

from __future__ import annotations

import asyncio

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core.messages import ListOffsetsResponse
from replica.errors import ErrorCode
from replica.ids import Offset, TopicId, TopicPartition
from replica.server.flusher import THREADS
from tests.server.driver_fakes import LOG, FakeLog, wait_until
from tests.server.driver_rig import ASK, NOW_MS, Rig, flush, on, running

OTHER = TopicPartition("t", 3)
READ = fx.ReadLog(range=fx.LogRange(topic_partition=LOG, start_offset=Offset(0), end_offset=Offset(5), max_bytes=100))
REPORT = ev.LogRead(topic_partition=LOG, start_offset=Offset(0), records=b"read")
DELETE = fx.DeleteLog(topic_partition=OTHER)
CREATE = fx.CreateLog(topic_partition=OTHER, topic_id=TopicId(9))


def step(rig: Rig, *effects: fx.Effect) -> None:
    """Let the core ask for these effects, and for none afterwards."""
    rig.core.script = on(ev.Ticked, lambda _: effects)
    rig.driver.submit(ev.Ticked())
    rig.core.script = lambda _: ()


async def occupy_the_flusher(rig: Rig) -> list[FakeLog]:
    """Let every thread that flushes wait for one log or another, and return these."""
    logs = [TopicPartition("busy", number) for number in range(THREADS)]
    step(rig, *(fx.CreateLog(topic_partition=log, topic_id=TopicId(8)) for log in logs))
    for log in logs:
        rig.storage.logs[log].flush_may_end = rig.log.flush_may_end
    rig.log.flush_may_end.clear()
    step(rig, *(flush(1, log) for log in logs))
    await wait_until(lambda: all(rig.storage.logs[log].flush_began.is_set() for log in logs), "the flushes before it")
    return [rig.storage.logs[log] for log in logs]


def begin_flush(rig: Rig, log: FakeLog, *effects: fx.Effect) -> None:
    """Perform effects of which one flushes ``log``, which does not end before it may."""
    log.flush_may_end.clear()
    step(rig, *effects)


async def test_a_report_is_the_next_event() -> None:
    """What storage reports is stepped after the step that asked for it."""
    scan = fx.ScanProducers(topic_partition=LOG)
    scanned = ev.ProducersScanned(topic_partition=LOG, producers=())
    async with running(on(ev.Started, lambda _: (scan, fx.StoreHighWatermarks(offsets={})))) as rig:
        rig.storage.reports.append(scanned)
        rig.driver.submit(ev.Ticked())
        assert rig.core.events == [ev.Started(unix_ms=NOW_MS), ev.Ticked()]
        step(rig, scan, fx.StoreHighWatermarks(offsets={}))
        assert rig.core.events[-2:] == rig.observer.steps[-2:] == [ev.Ticked(), scanned]


async def test_reads_of_a_long_log_take_turns_with_all_else() -> None:
    """A replay asks for one read after the other; what comes meanwhile is stepped between two of them."""
    async with running(lambda _: ()) as rig:
        rig.storage.reports += [REPORT] * 3
        begin = ev.Ticked()
        rig.core.script = lambda event: (READ,) if isinstance(event, ev.LogRead) or event is begin else ()
        rig.driver.submit(begin)
        other = ev.Flushed(topic_partition=LOG, end_offset=Offset(1))
        asyncio.get_running_loop().call_soon(rig.driver.submit, other)
        await wait_until(lambda: len(rig.core.seen(ev.LogRead)) == 3, "the reads")
        assert rig.core.events[1:] == [begin, REPORT, other, REPORT, REPORT]


async def test_a_reply_with_an_offset_is_searched_for_as_it_is_made() -> None:
    """ReplyWithOffset is answered with what storage finds."""

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        if not isinstance(event, ev.RequestReceived):
            return ()
        return (
            fx.ReplyWithOffset(
                call_id=event.call_id,
                response=ListOffsetsResponse(error=ErrorCode.NONE),
                topic_partition=LOG,
                timestamp_ms=5,
                end_offset=Offset(8),
            ),
        )

    async with running(script) as rig:
        assert await rig.driver.call(ASK) == ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(8))


async def test_flushes_of_many_logs_are_all_reported() -> None:
    """Flushes of several logs that are asked for at once run beside one another, each with its own report."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        rig.log.end_offset, rig.storage.logs[OTHER].end_offset = Offset(4), Offset(6)
        step(rig, flush(4), flush(6, OTHER))
        await wait_until(lambda: len(rig.core.seen(ev.Flushed)) == 2, "both flushes")
        assert reports_of(rig, LOG) == [ev.Flushed(topic_partition=LOG, end_offset=Offset(4))]
        assert reports_of(rig, OTHER) == [ev.Flushed(topic_partition=OTHER, end_offset=Offset(6))]


async def test_a_log_that_is_gone_is_never_reported() -> None:
    """A flush in flight of a log that is deleted is waited for but not reported; one wanted after it is not made."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        gone = rig.storage.logs[OTHER]
        begin_flush(rig, gone, flush(1, OTHER))
        await wait_until(gone.flush_began.is_set, "the flush")
        step(rig, flush(2, OTHER))
        gone.flush_may_end.set()
        step(rig, DELETE)
        step(rig, flush(1))
        await wait_until(lambda: bool(rig.core.seen(ev.Flushed)), "the flush of the other log")
        assert rig.core.seen(ev.Flushed) == [ev.Flushed(topic_partition=LOG, end_offset=Offset(0))]
        assert gone.flushes == 1


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_log_of_the_same_name_does_not_get_the_report_of_the_old_one(has_begun: bool) -> None:
    """A log that is created under the name of a deleted one is reported by its own flushes only."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        old = rig.storage.logs[OTHER]
        old.end_offset = Offset(50)
        if has_begun:
            begin_flush(rig, old, flush(50, OTHER))
            await wait_until(old.flush_began.is_set, "the flush")
        else:
            await occupy_the_flusher(rig)
            step(rig, flush(50, OTHER))
        step(rig, flush(60, OTHER))
        old.flush_may_end.set()
        step(rig, DELETE, CREATE)
        rig.storage.logs[OTHER].end_offset = Offset(2)
        step(rig, flush(2, OTHER))
        rig.log.flush_may_end.set()
        await wait_until(lambda: bool(reports_of(rig, OTHER)), "the new log's report")
        step(rig, flush(7))
        await wait_until(lambda: reports_of(rig, LOG) != [], "a flush after all others")
        assert (old.flushes, rig.storage.logs[OTHER].flushes) == (has_begun, 1)
        assert reports_of(rig, OTHER) == [ev.Flushed(topic_partition=OTHER, end_offset=Offset(2))]


def reports_of(rig: Rig, log: TopicPartition) -> list[ev.Event]:
    """The flushes of one log that the core has heard of."""
    return [
        event for event in rig.core.seen(ev.Flushed) if isinstance(event, ev.Flushed) and event.topic_partition == log
    ]


async def test_a_report_of_a_deleted_log_is_dropped_before_it_is_stepped() -> None:
    """What was read of a log that is deleted in the same step is not said of the next one of that name."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        scanned = ev.ProducersScanned(topic_partition=OTHER, producers=())
        rig.storage.reports += [scanned, REPORT]
        step(rig, fx.ScanProducers(topic_partition=OTHER), READ, DELETE, CREATE)
        await wait_until(lambda: rig.core.events[-1] == REPORT, "the read")
        assert scanned not in rig.core.events


async def test_a_flush_in_flight_says_nothing_of_a_log_that_begins_anew() -> None:
    """A flush that began before StartLogAt does not report what was there before as part of the new log."""
    async with running(lambda _: ()) as rig:
        rig.log.end_offset = Offset(10)
        begin_flush(rig, rig.log, flush(10))
        await wait_until(rig.log.flush_began.is_set, "the flush")
        rig.log.flush_may_end.set()
        step(rig, fx.StartLogAt(topic_partition=LOG, start_offset=Offset(4)), flush(4))
        await wait_until(lambda: bool(rig.core.seen(ev.Flushed)), "the flush's report")
        assert rig.core.seen(ev.Flushed) == [ev.Flushed(topic_partition=LOG, end_offset=Offset(4))]
        assert rig.log.flushes == 2


async def test_a_flush_in_line_of_what_is_cut_is_not_made() -> None:
    """The core awaits none when it cuts a log; one that it asks for later is made."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        other = rig.storage.logs[OTHER]
        other.end_offset = Offset(10)
        await occupy_the_flusher(rig)
        step(rig, flush(10, OTHER))
        step(rig, fx.StartLogAt(topic_partition=OTHER, start_offset=Offset(3)), flush(3, OTHER))
        rig.log.flush_may_end.set()
        await wait_until(lambda: bool(reports_of(rig, OTHER)), "the flush's report")
        assert reports_of(rig, OTHER) == [ev.Flushed(topic_partition=OTHER, end_offset=Offset(3))]
        assert other.flushes == 1


async def test_after_a_failed_flush_nothing_is_reported() -> None:
    """When a flush fails, the core hears of that once, and nothing of the flushes that stood in line behind it."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        for log in await occupy_the_flusher(rig):
            log.failing = "flush"
        step(rig, flush(1, OTHER))
        rig.log.flush_may_end.set()
        await wait_until(lambda: bool(rig.core.seen(ev.StorageFailed)), "the failure")
        await rig.driver.stop()
        assert (len(rig.core.seen(ev.StorageFailed)), reports_of(rig, OTHER)) == (1, [])
