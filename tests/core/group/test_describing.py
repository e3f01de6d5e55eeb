"""A log says which machine it is of: written by its first leader, and no replica goes on with another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from replica.bounds import INT32_MAX
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
from replica.machines import (
    AppliedLog,
    DescribeMachine,
    Entry,
    MalformedEntry,
    PlainCommand,
    SessionLimits,
    committed_batch,
    decode_entry,
)
from replica.machines.counter import Counter
from replica.machines.lock import LockMachine
from tests.core.group.bench import GroupBench, add, apply, counting, leading_bench, outcome_of, replies_of
from tests.core.group.cluster import GroupCluster
from tests.core.harness import stored
from tests.core.scenarios import commit, lead, reply_of
from tests.core.test_raft_transfer import transfer
from tests.machines.test_description import NextCounter

BY_SIZE = GroupConfig(snapshot_max_record_bytes_between=400, tick_interval_ms=INT32_MAX)
WORDS = "; start it with the machine, the options and the release that the other replicas of log have"


@dataclass(frozen=True)
class Other:
    """What a replica may be started with by mistake, and what it says of that."""

    make: Callable[[], AppliedLog]
    words: str


OTHERS = {
    "machine": Other(lambda: AppliedLog(LockMachine(), name="lock"), "this replica was started with lock"),
    "version": Other(lambda: AppliedLog(NextCounter(), name="counter"), "with version 1, here it has version 2"),
    "limits": Other(
        lambda: AppliedLog(Counter(), name="counter", limits=SessionLimits(window=4)),
        "with sessions.window 8192, here it has sessions.window 4",
    ),
}


def entries_of(bench: GroupBench) -> list[Entry | MalformedEntry]:
    """What the records of the log say that are not its own."""
    return [decode_entry(entry) for batch in bench.disk.batches for entry in committed_batch(batch).entries]


DESCRIPTION = DescribeMachine(machine=counting().description)


def test_a_leader_describes_its_machine_before_anything_else() -> None:
    """It does as soon as the machine leads; a command of the same moment stands behind."""
    bench = GroupBench(quorum_state=stored(5))
    lead(bench)
    bench.commit_all()
    call_id = bench.call(add(5))
    assert entries_of(bench) == [DESCRIPTION, PlainCommand(command=b"5")]
    bench.commit_all()
    assert replies_of(reply_of(bench, call_id)) == [b"5"]


def test_a_log_is_described_once() -> None:
    """Whoever leads next finds it, in the log or in a snapshot."""
    bench = leading_bench(group=BY_SIZE)
    for _ in range(30):
        bench.call(add(1))
        bench.commit_all()
        bench.store_all()
    assert bench.disk.start > 3
    bench.restart()
    lead(bench)
    bench.commit_all()
    bench.call(add(1))
    bench.commit_all()
    assert (bench.group.machine_leads, bench.total()) == (True, 31)
    assert DESCRIPTION not in entries_of(bench)


def test_a_description_that_is_not_committed_is_written_again_by_who_does_not_have_it() -> None:
    """Until then nobody was answered anything."""
    bench = GroupBench(quorum_state=stored(5))
    lead(bench)
    bench.commit_all()
    bench.disk.owed.clear()
    bench.disk.cut(Offset(2))
    bench.restart()
    lead(bench)
    bench.commit_all()
    assert entries_of(bench) == [DESCRIPTION]


def test_while_the_log_is_handed_over_nothing_is_described() -> None:
    """Nor anything else written; when that comes to nothing, the description is the first again."""
    bench = GroupBench(quorum_state=stored(5))
    lead(bench)
    bench.flush_all()
    bench.call(transfer(1, timeout_ms=500))
    commit(bench, 2)
    bench.apply_all()
    assert (bench.group.machine_leads, entries_of(bench)) == (True, [])
    bench.elapse(501)
    bench.call(add(5))
    assert entries_of(bench) == [DESCRIPTION, PlainCommand(command=b"5")]


def test_a_command_that_comes_when_a_transfer_has_just_ended_stands_behind_the_description() -> None:
    """The end of a transfer may be noticed after the group has looked what to write."""
    bench = GroupBench(quorum_state=stored(5))
    lead(bench)
    bench.flush_all()
    bench.call(transfer(1, timeout_ms=500))
    commit(bench, 2)
    bench.apply_all()
    bench.now_ms += 501
    bench.log.begin_read_round(bench.now_ms)
    assert not bench.log.is_handing_over
    bench.group.on_request(CallId(1000), add(5), bench.now_ms)
    bench.step(ev.Ticked())
    assert entries_of(bench) == [DESCRIPTION, PlainCommand(command=b"5")]


def test_a_log_from_before_is_described_by_its_next_leader() -> None:
    """What stands in it is applied by the machine that it is started with; what comes is held to the description."""
    bench = GroupBench(quorum_state=stored(5), log=[(2, 3)])
    lead(bench)
    bench.commit_all()
    bench.commit_all()
    assert entries_of(bench)[2:] == [DESCRIPTION]
    assert bench.group.applied_offset == bench.disk.end == 5


@pytest.mark.parametrize("kind", OTHERS)
def test_a_replica_with_another_machine_halts_before_it_applies_or_leads(bench: GroupBench, kind: str) -> None:
    """It may be elected, and has then written that it leads: no description, no command."""
    bench.call(add(5))
    bench.commit_all()
    before = entries_of(bench)
    bench._machine = OTHERS[kind].make
    bench.restart()
    lead(bench)
    refused = reply_of(bench, bench.call(add(1)))
    assert (refused.error, refused.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    bench.commit_all()
    assert bench.halted is not None
    assert bench.halted.startswith("log-0: the log is not for this replica: it is of state machine counter")
    assert OTHERS[kind].words in bench.halted
    assert bench.halted.endswith(WORDS)
    assert (bench.group.machine_leads, bench.group.applied_offset, entries_of(bench)) == (False, 2, before)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_replica_with_another_machine_halts_at_its_snapshot(kind: str) -> None:
    """The log behind it does not say any more which machine it is of; the snapshot does."""
    bench = leading_bench(group=BY_SIZE)
    while not bench.disk.snapshots:
        bench.call(add(1))
        bench.commit_all()
        bench.store_all()
    bench._machine = OTHERS[kind].make
    bench.restart()
    assert bench.halted is not None
    assert bench.halted.startswith(f"log-0: the snapshot at {max(bench.disk.snapshots).end_offset} is not for this")
    assert OTHERS[kind].words in bench.halted
    assert not bench.made(fx.Append)


def test_a_client_cannot_describe_the_log_anew(bench: GroupBench) -> None:
    """An entry of that kind that a client has written is refused like any that is malformed."""
    call_id = bench.call(apply(DescribeMachine(machine=OTHERS["version"].make().description)))
    bench.commit_all()
    assert "INVALID_ENTRY" in str(outcome_of(reply_of(bench, call_id)))
    assert bench.halted is None
    bench.restart()
    lead(bench)
    bench.commit_all()
    assert (bench.halted, bench.group.machine_leads) == (None, True)


def test_one_that_is_started_wrongly_disturbs_nobody() -> None:
    """Two of three serve on, and the third comes back with the right machine."""
    cluster = GroupCluster(group=GroupConfig(tick_interval_ms=INT32_MAX))
    leader = cluster.wait_leader()
    assert replies_of(cluster.answer(leader, add(1))) == [b"1"]
    wrong = next(node for node in cluster.running() if node is not leader)
    cluster.crash(wrong)
    cluster._machine = OTHERS["version"].make
    cluster.start(wrong.replica_id)
    cluster._machine = counting
    with pytest.raises(AssertionError, match="halted: log-0: the log is not for this replica"):
        cluster.run()
    cluster.crash(wrong)
    assert replies_of(cluster.answer(cluster.wait_leader(), add(1))) == [b"2"]
    cluster.start(wrong.replica_id)
    end = cluster.wait_leader().disk.end
    assert cluster.run(lambda: wrong.group.applied_offset >= end)
