"""How committed metadata makes a leader or a follower of a replica, and what late, repeated or partial news do."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.core.metadata.configs import TopicConfig
from replica.core.partition.roles import Follower, Leader, RemoteReplica
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId
from tests.core.partition.bench import LOG, PartitionBench, registration

UNIX_MS = 1_700_000_000_000
DAYS_MS = 30 * 86_400_000


def end_of(bench: PartitionBench, epoch: int) -> EpochEndOffset | None:
    """Ask the leader where an epoch ends."""
    response = bench.answered(
        m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(epoch)), m.OffsetForLeaderEpochResponse
    )
    assert response.error is ErrorCode.NONE
    return response.answer


def test_make_leader_updates_epoch_cache() -> None:
    """A leader that has written nothing knows where its epoch begins, durably and before anything else happens."""
    bench = PartitionBench(log=[(0, 2), (5, 2)])
    bench.metadata(registration(1, 8))
    assert bench.effects == [
        fx.StoreEpochs(
            topic_partition=LOG,
            entries=(EpochEntry(Epoch(0), Offset(0)), EpochEntry(Epoch(5), Offset(2)), EpochEntry(Epoch(8), Offset(4))),
        )
    ]
    assert end_of(bench, 8) == EpochEndOffset(Epoch(8), Offset(4))
    assert end_of(bench, 5) == EpochEndOffset(Epoch(5), Offset(4))


def test_unused_epoch_gives_way_to_the_next() -> None:
    """An epoch in which nothing was written leaves nothing behind."""
    bench = PartitionBench(log=[(4, 2)])
    bench.metadata(registration(1, 5))
    bench.metadata(registration(1, 7))
    assert [entry.epoch for entry in bench.disk.epochs] == [4, 7]


def test_leader_role_begins_at_the_log_end() -> None:
    """What a leader holds when it begins is what its epoch starts from."""
    bench = PartitionBench(log=[(4, 3)])
    bench.metadata(registration(1, 5))
    role = bench.partition.role
    assert isinstance(role, Leader)
    assert (role.epoch_start_offset, set(role.remotes)) == (3, {2, 3})


def test_follower_begins_with_its_whole_log() -> None:
    """A replica that begins to follow keeps all it has: what is above its high watermark may be committed."""
    bench = PartitionBench(log=[(4, 6)], high_watermark=3)
    bench.metadata(registration(2, 5))
    assert (bench.end, bench.high_watermark, bench.effects) == (6, 3, [])
    asked = bench.partition.next_request(bench.now_ms)
    assert isinstance(asked, m.FetchPartition)
    assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (6, 5, 4)


def test_make_follower_with_no_leader_id_change() -> None:
    """A missed epoch begins anew under the same leader, comparing logs first (KAFKA-7164)."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(2, 5))
    assert isinstance(bench.partition.role, Follower)
    bench.partition.role = Follower(leader_id=ReplicaId(2), agrees=True)
    bench.metadata(registration(2, 5, partition_epoch=501))
    assert bench.partition.role == Follower(leader_id=ReplicaId(2), agrees=True), "the epoch is the same"
    bench.metadata(registration(2, 7))
    assert bench.partition.role == Follower(leader_id=ReplicaId(2))


def test_partition_without_a_leader() -> None:
    """While nobody leads there is nobody to fetch from, and nobody is answered as if there were."""
    bench = PartitionBench(log=[(4, 2)])
    bench.metadata(registration(1, 5))
    bench.metadata(registration(None, 6, isr=(1,)))
    assert bench.partition.role == Follower(leader_id=None)
    assert bench.partition.next_request(bench.now_ms) is None
    assert bench.produced(bench.produce()).current_leader == m.CurrentLeader(leader_id=None, leader_epoch=Epoch(6))


@pytest.mark.parametrize("leader_id", [1, 2], ids=["leader", "follower"])
def test_ignore_partition_state_change_with_older_partition_epoch(leader_id: int) -> None:
    """A delayed message of the controller changes no role, no epoch and no ISR."""
    bench = PartitionBench(log=[(4, 2)])
    bench.metadata(registration(leader_id, 5, partition_epoch=510))
    before = (bench.partition.role, bench.partition.registration)
    bench.metadata(registration(3 - leader_id, 4, partition_epoch=509, isr=(1,)))
    assert (bench.partition.role, bench.partition.registration) == before


def test_equal_epochs_do_not_replace_what_is_pending() -> None:
    """A repeated message does not take a proposal back, whose follower may have been let in."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, isr=(1,)))
    bench.fetch(2, 6)
    proposal = bench.proposal()
    bench.metadata(registration(1, 5, isr=(1,)))
    assert (bench.maximal_isr, bench.proposal()) == ({1, 2}, None)
    assert proposal is not None
    bench.altered(proposal)
    assert bench.isr == {1, 2}


def test_newer_metadata_settles_what_is_pending() -> None:
    """Whatever was proposed, the committed ISR is what the controller says."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, isr=(1,)))
    bench.fetch(2, 6)
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1, 3)))
    assert (bench.isr, bench.maximal_isr) == ({1, 3}, {1, 3})


def test_assignment_changes_within_a_leadership() -> None:
    """A replica that is added is unknown, one that is taken away is forgotten, and the others stay as they are."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5))
    bench.fetch(2, 4)
    bench.metadata(registration(1, 5, partition_epoch=501, replicas=(1, 2, 4), isr=(1, 2)))
    role = bench.partition.role
    assert isinstance(role, Leader)
    assert (role.remotes[ReplicaId(2)].log_end_offset, role.remotes[ReplicaId(4)]) == (4, RemoteReplica())
    assert set(role.remotes) == {2, 4}


# --- retention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leader_id", [1, 2], ids=["leader", "follower"])
def test_retention_is_applied_now_and_then(leader_id: int) -> None:
    """Leaders and followers look for what is old enough, below their own high watermark only."""
    bench = PartitionBench(log=[(4, 6)], high_watermark=4, config=BrokerConfig(log_retention_check_interval_ms=1000))
    bench.metadata(registration(leader_id, 5), topic=TopicConfig(retention_ms=5000, retention_bytes=10))
    bench.partition.clock.on_told(UNIX_MS, bench.now_ms)
    bench.elapse(999)
    assert not bench.made(fx.ApplyRetention)
    bench.elapse(1001)
    wanted = [
        fx.ApplyRetention(
            topic_partition=LOG,
            high_watermark=Offset(4),
            unix_ms=UNIX_MS + passed_ms,
            retention_ms=5000,
            retention_bytes=10,
        )
        for passed_ms in (1000, 2000)
    ]
    assert bench.made(fx.ApplyRetention) == wanted


def time_of_check(bench: PartitionBench, elapse_ms: int = 1000) -> int | None:
    """What time it is for the one check of retention within so long."""
    bench.elapse(elapse_ms)
    (check,) = bench.made(fx.ApplyRetention)
    return check.unix_ms


@pytest.mark.parametrize("by_ms", [DAYS_MS, -DAYS_MS])
def test_nothing_is_too_old_by_a_clock_that_jumped(by_ms: int) -> None:
    """A jump of the cluster's time is believed once it has lasted from one check to the next; one's own clock never."""
    bench = PartitionBench(config=BrokerConfig(log_retention_check_interval_ms=1000))
    bench.metadata(registration(1, 5), topic=TopicConfig(retention_ms=5000))
    clock, began_ms = bench.partition.clock, bench.now_ms
    clock.on_read(UNIX_MS, began_ms)
    assert time_of_check(bench) is None
    clock.on_told(UNIX_MS + 1000, bench.now_ms)
    assert time_of_check(bench) == UNIX_MS + 2000
    bench.elapse(500)
    clock.on_told(UNIX_MS + 2500 + by_ms, bench.now_ms)
    assert time_of_check(bench, 500) is None
    bench.elapse(500)
    clock.on_told(UNIX_MS + 3500, bench.now_ms)
    assert time_of_check(bench, 500) is None
    assert time_of_check(bench) == UNIX_MS + 5000


def test_no_retention_without_limits() -> None:
    """A topic without limits keeps everything, and nobody looks."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5), topic=TopicConfig(retention_ms=None))
    bench.elapse(1_000_000)
    assert not bench.made(fx.ApplyRetention)


@pytest.mark.parametrize(("offset", "expected"), [(2, 2), (4, 4), (5, 4), (0, 0)])
def test_log_start_stays_below_the_high_watermark(offset: int, expected: int) -> None:
    """What is not known to be committed is never forgotten (KAFKA-5634)."""
    bench = PartitionBench(log=[(3, 1), (4, 5)], high_watermark=4)
    bench.metadata(registration(2, 5))
    bench.partition.on_log_start_moved(Offset(offset))
    assert (bench.partition.log.log_start_offset, bench.disk.start) == (expected, expected)
    assert bench.disk.epochs[0].start_offset == expected
