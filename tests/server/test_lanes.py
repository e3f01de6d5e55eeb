"""The driver's lanes: what waits for a disk holds up its own log, and the event loop and all other logs go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Epoch, Offset, ReplicaId, SnapshotId, TopicId, TopicPartition
from replica.machines import EncodedState
from replica.server.driver import ReplicaStoppedError
from replica.server.performer import READERS, THREADS
from replica.storage import DamagedLogError
from tests.server.driver_fakes import LOG, wait_until
from tests.server.driver_rig import Rig, batch, flush, on, running

READ = fx.LogRange(topic_partition=LOG, start_offset=Offset(0), end_offset=Offset(5), max_bytes=100)
OTHER = TopicPartition("t", 3)
STATE = fx.QuorumState(leader_epoch=Epoch(2))
STORE = fx.StoreQuorumState(topic_partition=LOG, state=STATE)
ANSWER = m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(7))
CREATE = fx.CreateLog(topic_partition=OTHER, topic_id=TopicId(9))
DELETE = fx.DeleteLog(topic_partition=OTHER)
REPLACE = fx.ReplaceLog(topic_partition=OTHER, topic_id=TopicId(9))
EPOCHS = fx.StoreEpochs(topic_partition=OTHER, entries=())


@asynccontextmanager
async def slow(*kinds: type[fx.Effect]) -> AsyncIterator[Rig]:
    """Run a driver over two logs whose effects of these kinds wait until the disk may go on."""
    async with running(lambda _: ()) as rig:
        step(rig, CREATE)
        rig.storage.slow = kinds
        try:
            yield rig
        finally:
            rig.storage.disk_may_go_on.set()


def step(rig: Rig, *effects: fx.Effect) -> None:
    """Let the core ask for these effects, and for none afterwards."""
    rig.core.script = on(ev.Ticked, lambda _: effects)
    rig.driver.submit(ev.Ticked())
    rig.core.script = lambda _: ()


def append(log: TopicPartition, base_offset: int = 0) -> fx.Append:
    return fx.Append(topic_partition=log, batches=(batch(base_offset),))


def fetch_of(*logs: TopicPartition) -> fx.Send:
    """A fetch that names these logs."""
    parts = tuple(
        m.FetchPartition(
            topic_partition=log, fetch_offset=Offset(0), current_leader_epoch=Epoch(1), last_fetched_epoch=Epoch(0)
        )
        for log in logs
    )
    request = m.FetchRequest(partitions=parts, replica_id=ReplicaId(1))
    return fx.Send(replica_id=ReplicaId(2), correlation_id=CorrelationId(1), request=request, timeout_ms=10_000)


def answering(*before: fx.Effect) -> Callable[[ev.Event], tuple[fx.Effect, ...]]:
    """Answer each request, after these effects."""

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        if not isinstance(event, ev.RequestReceived):
            return ()
        return (*before, fx.Reply(call_id=event.call_id, response=ANSWER))

    return script


async def ask(rig: Rig, log: TopicPartition) -> asyncio.Task[object]:
    """Begin a call about a log."""
    task = asyncio.create_task(rig.driver.call(m.ListOffsetsRequest(topic_partition=log, latest=True)))
    await asyncio.sleep(0)
    return task


async def test_a_reply_waits_for_its_log_and_no_other() -> None:
    """What is told of a log is told after it is on the disk; another log's callers are answered meanwhile."""
    async with slow(fx.StoreQuorumState) as rig:
        rig.core.script = answering(STORE)
        about_it = await ask(rig, LOG)
        rig.core.script = answering(append(OTHER))
        about_other = await ask(rig, OTHER)
        assert await about_other == ANSWER
        assert rig.storage.logs[OTHER].journal == ["append 1"]
        later = await ask(rig, LOG)
        await asyncio.sleep(0.01)
        assert (about_it.done(), later.done(), rig.log.journal) == (False, False, [])
        rig.storage.disk_may_go_on.set()
        assert (await about_it, await later) == (ANSWER, ANSWER)
        assert rig.log.journal == ["quorum-state 2"]


async def test_what_follows_in_a_lane_is_performed_in_order() -> None:
    """Appends, flushes and requests to peers that name the log come after what waits for the disk, one by one."""
    async with slow(fx.StoreQuorumState) as rig:
        step(rig, STORE, append(LOG), fetch_of(LOG), flush(1))
        step(rig, append(LOG, 1), fetch_of(OTHER))
        await wait_until(lambda: len(rig.transport.calls) == 1, "the fetch of the other log")
        assert (rig.log.journal, rig.log.flushes) == ([], 0)
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: bool(rig.core.seen(ev.Flushed)), "the flush")
        assert rig.log.journal == ["quorum-state 2", "append 1", "append 1"]
        fetches = [request for _, request in rig.transport.calls if isinstance(request, m.FetchRequest)]
        assert [len(request.partitions) for request in fetches] == [1, 1]


async def test_a_fetch_of_two_logs_waits_for_both() -> None:
    """It says something of each."""
    async with slow(fx.StoreQuorumState, fx.StoreEpochs) as rig:
        step(rig, STORE, EPOCHS, fetch_of(LOG, OTHER))
        await asyncio.sleep(0.01)
        assert not rig.transport.calls
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: bool(rig.transport.calls), "the fetch")


async def test_a_read_that_waits_for_the_disk_is_answered_when_it_is_done() -> None:
    """Records that are not in memory are read beside the loop, and what is read is what had been appended by then."""

    def script(event: ev.Event) -> tuple[fx.Effect, ...]:
        if not isinstance(event, ev.RequestReceived):
            return ()
        response = m.FetchResponse(partitions=(m.FetchedPartition(topic_partition=LOG, error=ErrorCode.NONE),))
        return (fx.ReplyWithRecords(call_id=event.call_id, response=response, ranges=(READ,), max_bytes=100),)

    async with slow(fx.ReplyWithRecords) as rig:
        rig.core.script = script
        read = await ask(rig, LOG)
        step(rig, append(LOG))
        await asyncio.sleep(0.01)
        assert (read.done(), rig.log.journal) == (False, [])
        rig.storage.disk_may_go_on.set()
        answer = await read
        assert isinstance(answer, m.FetchResponse)
        assert answer.partitions[0].records == b"0..5"
        assert rig.log.journal == ["read 0..5", "append 1"]


async def test_a_flush_before_a_cut_is_not_made_after_the_cut_was_decided() -> None:
    """1. A flush waits in its lane. 2. The core cuts the log and appends anew. 3. The flush would speak for that."""
    async with slow(fx.StoreQuorumState, fx.Truncate) as rig:
        rig.log.end_offset = Offset(10)
        step(rig, STORE, flush(10))
        step(rig, fx.Truncate(topic_partition=LOG, end_offset=Offset(5)), append(LOG, 5), flush(6))
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: bool(rig.core.seen(ev.Flushed)), "the flush")
        assert rig.core.seen(ev.Flushed) == [ev.Flushed(topic_partition=LOG, end_offset=Offset(6))]
        assert rig.log.flushes == 1


async def test_writes_are_refused_while_too_much_waits_for_a_disk() -> None:
    """A disk that hangs must not fill the memory: a write is told so, and certainly not done; reads go on."""
    write = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=b"")
    async with slow(fx.StoreQuorumState) as rig:
        rig.driver.waiting_bytes_max = batch(0).size_bytes
        step(rig, STORE, append(LOG), append(LOG, 1))
        answer = await rig.driver.call(write)
        assert isinstance(answer, m.ProduceResponse)
        assert (answer.error, answer.not_appended) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
        rig.core.script = answering()
        assert await rig.driver.call(m.ListOffsetsRequest(topic_partition=OTHER, latest=True)) == ANSWER
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: len(rig.log.journal) == 3, "the appends")
        assert await rig.driver.call(write) == ANSWER


@pytest.mark.parametrize(
    "effect",
    [
        lambda log: fx.ReadLog(range=replace(READ, topic_partition=log)),
        lambda log: fx.CreateLog(topic_partition=log, topic_id=TopicId(5)),
        append,
    ],
    ids=["read", "created", "written to"],
)
async def test_whatever_many_logs_wait_for_holds_up_no_vote(effect: Callable[[TopicPartition], fx.Effect]) -> None:
    """What is done to more logs than there are threads leaves those alone that store a vote."""
    async with slow(fx.ReadLog, fx.CreateLog, fx.Append, fx.StoreQuorumState) as rig:
        rig.storage.swift = (fx.StoreQuorumState,)
        step(rig, *(effect(TopicPartition("many", number)) for number in range(READERS + THREADS)))
        step(rig, STORE)
        await wait_until(lambda: rig.log.journal == ["quorum-state 2"], "the vote")
        assert rig.observer.halted == [], "the disk had to go on for it"


async def test_a_caller_that_gives_up_costs_no_read() -> None:
    """An answer that waits for its lane is left out when nobody waits for it any more."""
    async with slow(fx.StoreQuorumState) as rig:
        rig.core.script = answering(STORE)
        call = await ask(rig, LOG)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: rig.log.journal == ["quorum-state 2"], "the store")
        step(rig, append(LOG))
        await wait_until(lambda: rig.log.journal[-1] == "append 1", "the append behind it")


async def test_a_failure_in_a_lane_ends_it() -> None:
    """Nothing behind it is performed, the core hears of it, and a call that waits for it stays unanswered."""
    async with slow(fx.StoreQuorumState) as rig:
        rig.log.failing = "quorum-state"
        rig.core.script = answering(STORE)
        call = await ask(rig, LOG)
        step(rig, append(LOG), append(OTHER))
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: bool(rig.core.seen(ev.StorageFailed)), "the failure")
        assert (rig.log.journal, rig.storage.logs[OTHER].journal) == ([], ["append 1"])
        await rig.driver.stop()
        with pytest.raises(ReplicaStoppedError):
            await call


async def test_a_mistake_in_a_lane_halts() -> None:
    """What is no failure of the disk is a bug, in whichever thread."""
    async with slow(fx.StoreQuorumState) as rig:
        rig.log.memory_is_short = True
        step(rig, STORE)
        rig.storage.disk_may_go_on.set()
        await wait_until(rig.driver.halted.is_set, "the halt")
        assert "MemoryError" in (rig.driver.halt_reason or "")


async def test_damage_in_a_lane_is_about_its_log() -> None:
    """The core hears of it, what follows in the lane is tried, and nobody halts."""
    async with slow(fx.StoreEpochs) as rig:
        rig.storage.logs[OTHER].damage = DamagedLogError(OTHER, "/data/0.log is torn")
        step(rig, EPOCHS, append(LOG))
        rig.storage.disk_may_go_on.set()
        await wait_until(lambda: bool(rig.core.seen(ev.LogDamaged)), "the damage")
        assert rig.log.journal == ["append 1"]
        assert not rig.driver.halted.is_set()


@pytest.mark.parametrize(
    "deletion", [DELETE, fx.ReplaceLog(topic_partition=OTHER, topic_id=TopicId(9))], ids=["delete", "replace"]
)
async def test_a_log_that_waits_to_be_deleted_says_nothing_more(deletion: fx.Effect) -> None:
    """Reports, damage, flushes and snapshots that were asked for before are those of a log that is gone."""
    async with slow(fx.StoreEpochs, fx.ScanProducers, fx.ReadLog) as rig:
        old = rig.storage.logs[OTHER]
        old.damage = DamagedLogError(OTHER, "/data/0.log is torn")
        rig.storage.reports.append(ev.ProducersScanned(topic_partition=OTHER, producers=()))
        kept = fx.StoreSnapshot(
            topic_partition=OTHER, snapshot_id=SnapshotId(Offset(1), Epoch(1)), state=EncodedState(b""), max_bytes=9
        )
        step(rig, EPOCHS, fx.ScanProducers(topic_partition=OTHER), flush(1, OTHER), kept)
        step(rig, deletion)
        rig.storage.slow = ()
        rig.storage.disk_may_go_on.set()
        step(rig, flush(1))
        await wait_until(lambda: bool(rig.core.seen(ev.Flushed)), "the other log's flush")
        await wait_until(lambda: not rig.storage.reports, "the scan")
        assert [type(event) for event in rig.core.events if not isinstance(event, ev.Ticked)][1:] == [ev.Flushed]
        assert not rig.core.seen(ev.SnapshotStored)
        assert old.flushes == 0


async def test_a_stop_waits_for_what_the_disk_does_and_begins_nothing() -> None:
    """What waits behind it is left undone, as by a crash after a prefix of the lane."""
    async with slow(fx.StoreQuorumState) as rig:
        step(rig, STORE, append(LOG))
        stopping = asyncio.create_task(rig.driver.stop())
        await asyncio.sleep(0.01)
        assert not stopping.done()
        rig.storage.disk_may_go_on.set()
        await stopping
        assert rig.log.journal == ["quorum-state 2"]


async def test_an_answer_to_nobody_is_not_awaited() -> None:
    """A reply whose call is unknown says nothing of any log but what it names."""
    async with slow() as rig:
        step(rig, fx.Reply(call_id=CallId(99), response=ANSWER), append(LOG))
        assert rig.log.journal == ["append 1"]
