"""Snapshots: when they are taken, what they are of, and how a machine begins with one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from replica.bounds import INT32_MAX
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.core.quorum.snapshot_header import split_snapshot
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, SnapshotId
from replica.machines import (
    Answered,
    AppliedLog,
    CommittedBatch,
    EncodedState,
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
    SessionLimits,
    Snapshot,
)
from replica.machines import encode_entry as encoded
from replica.machines.counter import Counter
from replica.machines.key_value import KeyValueMachine, commands, encode_command
from tests.core.group.bench import (
    STALE,
    GroupBench,
    add,
    apply,
    ask,
    counting,
    hosting,
    leading_bench,
    replies_of,
)
from tests.core.harness import CONFIG, header_of, leader, stored, voters_of
from tests.core.scenarios import answer_fetch, fetch_answer, lead, reply_of

BY_SIZE = GroupConfig(snapshot_max_record_bytes_between=400, tick_interval_ms=INT32_MAX)
RARELY = GroupConfig(snapshot_max_interval_ms=100_000, tick_interval_ms=INT32_MAX)
BY_TIME = GroupConfig(snapshot_max_interval_ms=1000, tick_interval_ms=INT32_MAX)
KEPT = header_of(voters_of(0, 1, 2))
"""What stands before a machine's bytes in every snapshot that is kept or sent."""


def count_to(bench: GroupBench, number: int) -> None:
    """Add 1 so many times, each committed and applied."""
    for _ in range(number):
        bench.call(add(1))
        bench.commit_all()


def snapshot_of(
    total: int,
    *,
    end_offset: int = 10,
    epoch: int = 4,
    name: str = "counter",
    limits: SessionLimits | None = None,
) -> Snapshot:
    """The snapshot that a leader has of a log which counts to ``total``, the last record of this epoch."""
    folded = AppliedLog(Counter(), name=name, limits=limits)
    entries = tuple(encoded(PlainCommand(command=b"%d" % (total if n == 0 else 0))) for n in range(end_offset))
    batch = CommittedBatch(
        base_offset=Offset(0), end_offset=Offset(end_offset), epoch=Epoch(epoch), timestamp_ms=7, entries=entries
    )
    folded.apply(batch)
    return folded.snapshot()


# --- taking them ----------------------------------------------------------------------------------------------------


def test_a_snapshot_is_taken_after_so_many_bytes() -> None:
    """Applied records are counted in bytes; the snapshot ends where the machine is, in the epoch of the last record."""
    bench = leading_bench(group=BY_SIZE)
    while not bench.disk.storing:
        count_to(bench, 1)
    (effect,) = bench.disk.storing
    assert effect.snapshot_id == SnapshotId(bench.group.applied_offset, Epoch(6))
    assert sum(batch.size_bytes for batch in bench.disk.batches) - bench.disk.batches[-1].size_bytes < 400


def test_no_other_is_taken_while_one_is_on_its_way() -> None:
    """The next begins to count when the last was taken, and waits until that is stored."""
    bench = leading_bench(group=BY_SIZE)
    count_to(bench, 30)
    assert len(bench.disk.storing) == 1
    bench.store_all()
    assert len(bench.disk.snapshots) == 2


def test_the_log_begins_at_the_snapshot_before_the_last() -> None:
    """Two are kept, and the log begins where the older one ends."""
    bench = leading_bench(group=BY_SIZE)
    for _ in range(30):
        count_to(bench, 1)
        bench.store_all()
    assert len(bench.disk.snapshots) == 2
    assert bench.disk.start == min(bench.disk.snapshots).end_offset > 0


def test_a_snapshot_is_taken_after_so_long() -> None:
    """If anything was applied since the last, and not otherwise."""
    bench = leading_bench(group=BY_TIME)
    bench.elapse(1000)
    bench.store_all()
    assert max(bench.disk.snapshots) == SnapshotId(Offset(3), Epoch(6))
    bench.echo(0)
    bench.elapse(1500)
    assert not bench.disk.storing
    count_to(bench, 1)
    assert [effect.snapshot_id for effect in bench.disk.storing] == [SnapshotId(Offset(4), Epoch(6))]
    bench.store_all()
    count_to(bench, 1)
    bench.elapse(999)
    assert not bench.disk.storing
    bench.elapse(1)
    assert [effect.snapshot_id for effect in bench.disk.storing] == [SnapshotId(Offset(5), Epoch(6))]


def test_a_follower_takes_its_own() -> None:
    """Each replica has its own snapshots, at offsets of its own."""
    bench = GroupBench(quorum_state=stored(5, leader_id=1), log=[(5, 3)], group=BY_TIME)
    answer_fetch(
        bench,
        fetch_answer(error=ErrorCode.NONE, high_watermark=Offset(2), current_leader=leader(1, 5)),
    )
    bench.apply_all()
    bench.elapse(1000)
    assert [effect.snapshot_id for effect in bench.disk.storing] == [SnapshotId(Offset(2), Epoch(5))]


def test_a_snapshot_that_is_too_large_is_not_kept() -> None:
    """What no follower could load replaces nothing: the log stays whole."""
    bench = leading_bench(group=BY_SIZE, config=replace(CONFIG, snapshot_max_bytes=10), voters=(0,))
    tried = 0
    for _ in range(30):
        count_to(bench, 1)
        tried += len(bench.disk.storing)
        bench.store_all()
    assert tried > 1
    assert (bench.disk.snapshots, bench.disk.start, bench.halted) == ({}, 0, None)
    bench.restart()
    bench.to_role("leader")
    bench.commit_all()
    assert bench.total() == 30


def test_what_is_applied_while_it_is_on_its_way_is_not_in_it() -> None:
    """It is encoded when it is stored; a replica that begins with it applies the records behind it, once."""
    bench = leading_bench(group=BY_SIZE, voters=(0,))
    count_to(bench, 30)
    (effect,) = bench.disk.storing
    bench.store_all()
    begins = AppliedLog(Counter(), name="counter")
    data = split_snapshot(bench.disk.snapshots[effect.snapshot_id])[1]
    begins.restore(Snapshot(id=effect.snapshot_id, data=data))
    assert begins.query(b"") == Answered(reply=b"%d" % (effect.snapshot_id.end_offset - 3))
    bench.restart()
    bench.to_role("leader")
    bench.commit_all()
    assert bench.total() == 30


def calls_of_a_snapshot(keys: int) -> int:
    """Count the functions, of Python and of C, that are called in the step that takes a snapshot of so many keys."""
    bench = leading_bench(group=RARELY, machine=hosting(KeyValueMachine), voters=(0,))
    puts = [commands.Put(key=b"key%d" % number, value=b"x" * 50) for number in range(keys)]
    for first in range(0, keys, 30):
        bench.call(apply(*(PlainCommand(command=encode_command(put)) for put in puts[first : first + 30])))
        bench.commit_all()
    bench.now_ms += RARELY.snapshot_max_interval_ms
    called = 0

    def on_frame(_frame: FrameType, what: str, _argument: object) -> None:
        nonlocal called
        called += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_frame)
    try:
        effects = bench.replica.step(ev.Ticked(), bench.now_ms)
    finally:
        sys.setprofile(before)
    (taken,) = [effect for effect in effects if isinstance(effect, fx.StoreSnapshot)]
    assert len(taken.state.encode()) > keys * 50
    return called


def test_a_step_that_takes_a_snapshot_costs_the_same_however_large_the_state_is() -> None:
    """It calls as many functions for three thousand keys as for thirty: it refers to them, and writes nothing down."""
    assert calls_of_a_snapshot(3000) == calls_of_a_snapshot(30)


class Unprintable(Counter):
    """A counter that cannot be written down."""

    def view(self) -> EncodedState:
        """Fail."""
        raise RuntimeError("no ink")


def test_a_machine_that_cannot_be_written_down_halts_its_replica() -> None:
    """The sentence says so."""
    bench = leading_bench(group=BY_SIZE, machine=hosting(Unprintable))
    for _ in range(30):
        bench.call(add(1))
        bench.flush_all()
        if bench.halted is None:
            bench.commit_all()
    assert bench.halted is not None
    assert "no ink" in bench.halted


# --- starting with one ----------------------------------------------------------------------------------------------


def test_a_restart_goes_on_from_the_newest_snapshot() -> None:
    """Restored and replayed, the machine is where it was, and has applied nothing twice."""
    bench = leading_bench(group=BY_SIZE)
    for _ in range(31):
        count_to(bench, 1)
        bench.store_all()
    before, digest = bench.group.applied_offset, bench.group.digest()
    newest = max(bench.disk.snapshots).end_offset
    assert newest < before
    bench.restart()
    assert bench.group.applied_offset == newest
    lead(bench)
    bench.commit_all()
    assert (bench.total(), bench.group.applied_offset) == (31, before + 1)
    bench.restart()
    bench.apply_all()
    assert bench.group.digest() != digest


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"torn", "is corrupt: the checksum"),
        (snapshot_of(7, name="another").data, "is not for this replica: it is of state machine another"),
        (snapshot_of(7, end_offset=9).data, "is corrupt: SnapshotId(end_offset=10, epoch=4) holds offset 9"),
    ],
    ids=["damaged", "machine", "id"],
)
def test_a_snapshot_that_cannot_be_restored_halts_at_the_start(data: bytes, words: str) -> None:
    """Not the constructor: the first step says why, and where."""
    bench = GroupBench(quorum_state=stored(5), group=BY_SIZE)
    bench.disk.snapshots = {SnapshotId(Offset(10), Epoch(4)): KEPT + data}
    bench.disk.start = Offset(10)
    bench.restart()
    assert bench.halted is not None
    assert bench.halted.startswith("log-0: the snapshot at 10 is ")
    assert words in bench.halted


def test_a_machine_that_cannot_read_its_snapshot_halts_at_the_start() -> None:
    """A bug while restoring is named as such."""

    class Illiterate(Counter):
        """A counter that cannot read."""

        def restore(self, snapshot: bytes) -> None:
            """Fail."""
            raise RuntimeError(f"no glasses for {len(snapshot)}")

    bench = GroupBench(quorum_state=stored(5), machine=lambda: AppliedLog(Illiterate(), name="counter"))
    bench.disk.snapshots = {SnapshotId(Offset(10), Epoch(4)): KEPT + snapshot_of(7).data}
    bench.disk.start = Offset(10)
    bench.restart()
    assert bench.halted is not None
    assert "no glasses" in bench.halted


# --- loading the leader's -------------------------------------------------------------------------------------------


def send_to_snapshot(bench: GroupBench) -> None:
    """Answer the Fetch that is out: what comes next is in the snapshot at 10."""
    answer_fetch(
        bench,
        fetch_answer(error=ErrorCode.NONE, snapshot_id=SnapshotId(Offset(10), Epoch(4)), current_leader=leader(1, 5)),
    )


def behind(machine: Callable[[], AppliedLog] = counting) -> GroupBench:
    """Build a follower of 1 in epoch 5 that has nothing, and is sent to a snapshot at 10."""
    bench = GroupBench(quorum_state=stored(5, leader_id=1), machine=machine)
    send_to_snapshot(bench)
    return bench


def hand_over(bench: GroupBench, data: bytes) -> None:
    """Answer the FetchSnapshot that is out with the whole: the voters, and this."""
    data = KEPT + data
    response = m.FetchSnapshotResponse(
        error=ErrorCode.NONE,
        snapshot_id=SnapshotId(Offset(10), Epoch(4)),
        size_bytes=len(data),
        data=data,
        current_leader=leader(1, 5),
    )
    bench.respond(bench.send_to(1, m.FetchSnapshotRequest), response)


def test_a_received_snapshot_is_restored_and_then_installed() -> None:
    """The machine goes on from it, and the log begins there, in the step in which it came."""
    bench = behind()
    hand_over(bench, snapshot_of(7).data)
    assert [effect.snapshot_id.end_offset for effect in bench.made(fx.InstallSnapshot)] == [10]
    assert (bench.group.applied_offset, bench.total(), bench.disk.start) == (10, 7, 10)


@pytest.mark.parametrize("data", [b"torn", snapshot_of(7, end_offset=9).data], ids=["damaged", "id"])
def test_a_received_snapshot_that_is_corrupt_is_fetched_again(data: bytes) -> None:
    """It changes nothing; after a pause another one is asked for, and the right one is taken."""
    bench = behind()
    hand_over(bench, data)
    assert not bench.made(fx.InstallSnapshot)
    assert (bench.group.applied_offset, bench.halted, bench.disk.start) == (0, None, 0)
    bench.elapse(CONFIG.retry_backoff_ms)
    send_to_snapshot(bench)
    hand_over(bench, snapshot_of(7).data)
    assert (bench.total(), bench.disk.start) == (7, 10)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (snapshot_of(7, name="another").data, "it is of state machine another, this replica was started with counter"),
        (snapshot_of(7, limits=SessionLimits(sessions_max=7)).data, "its sessions have"),
    ],
    ids=["machine", "limits"],
)
def test_a_received_snapshot_of_another_machine_halts_the_replica(data: bytes, words: str) -> None:
    """It is sound and will never fit, however often it is fetched; the sentence says what to do."""
    bench = behind()
    hand_over(bench, data)
    assert bench.halted is not None
    assert words in bench.halted
    assert "start it with the machine, the options and the release" in bench.halted
    assert not bench.made(fx.InstallSnapshot)


class Picky(Counter):
    """A counter that is void after it has been given something odd."""

    def restore(self, snapshot: bytes) -> None:
        """Take it, if it is even."""
        super().restore(snapshot + (b"0" if int(snapshot) % 2 else b""))


def test_a_machine_that_was_left_void_answers_nothing_until_it_is_restored() -> None:
    """A stale question waits as well: there is nothing to ask."""
    bench = behind(machine=lambda: AppliedLog(Picky(), name="counter"))
    hand_over(bench, snapshot_of(7).data)
    call_id = bench.call(ask(consistency=STALE))
    assert (call_id in bench.open_calls, bench.halted) == (True, None)
    bench.elapse(CONFIG.retry_backoff_ms)
    send_to_snapshot(bench)
    hand_over(bench, snapshot_of(8).data)
    assert reply_of(bench, call_id).applied_offset == 10


def test_a_void_machine_does_not_lead() -> None:
    """A replica that is voted for meanwhile halts: from its disk it begins again as it was."""
    bench = behind(machine=lambda: AppliedLog(Picky(), name="counter"))
    hand_over(bench, snapshot_of(7).data)
    bench.to_role("prospective")
    lead(bench)
    assert bench.halted is not None
    assert "the machine has no state" in bench.halted


def test_a_void_machine_does_not_apply() -> None:
    """What is committed in its log is not applied to nothing: the replica halts, and begins again from its disk."""
    bench = GroupBench(
        quorum_state=stored(5, leader_id=1), log=[(1, 3)], machine=lambda: AppliedLog(Picky(), name="counter")
    )
    send_to_snapshot(bench)
    hand_over(bench, snapshot_of(7).data)
    assert (bench.halted, bench.group.applied_offset) == (None, 0)
    bench.elapse(CONFIG.retry_backoff_ms)
    answer_fetch(bench, fetch_answer(error=ErrorCode.NONE, high_watermark=Offset(2), current_leader=leader(1, 5)))
    assert bench.halted is not None
    assert "the machine has no state" in bench.halted
    assert not bench.reads


def test_a_read_that_was_out_when_a_snapshot_came_is_not_applied() -> None:
    """What was asked for before lies below the snapshot."""
    bench = GroupBench(quorum_state=stored(5, leader_id=1), log=[(1, 3)])
    answer_fetch(bench, fetch_answer(error=ErrorCode.NONE, high_watermark=Offset(2), current_leader=leader(1, 5)))
    (late,) = bench.reads
    send_to_snapshot(bench)
    hand_over(bench, snapshot_of(7).data)
    bench.step(ev.LogRead(topic_partition=late.topic_partition, start_offset=late.start_offset, records=late.records))
    assert (bench.group.applied_offset, bench.total()) == (10, 7)


# --- sessions -------------------------------------------------------------------------------------------------------


def test_a_retried_command_is_applied_once_across_snapshot_and_restart() -> None:
    """The session is in the snapshot: whoever leads after a restart knows what was applied."""
    bench = leading_bench(group=BY_TIME)
    bench.call(apply(OpenSession(ttl_ms=60_000)))
    bench.commit_all()
    command = SessionCommand(session_id=SessionId(3), sequence=0, acknowledged=0, command=b"5")
    bench.call(apply(command))
    bench.commit_all()
    bench.elapse(1000)
    bench.store_all()
    assert max(bench.disk.snapshots) == SnapshotId(Offset(5), Epoch(6))
    bench.restart()
    assert bench.group.applied_offset == 5
    lead(bench)
    bench.commit_all()
    call_id = bench.call(apply(command))
    bench.commit_all()
    assert (replies_of(reply_of(bench, call_id)), bench.total()) == ([b"5"], 5)
