"""When a leader's records are committed, and what it assumes of the others when its leadership begins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from replica.core.config import BrokerConfig, LogFlush
from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.partition import Partition
from replica.core.partition.roles import Leader, RemoteReplica
from replica.ids import Offset, ReplicaId
from tests.core.partition.bench import PartitionBench, broker, registration

TWO_NEEDED = TopicConfig(min_insync_replicas=2)


def leading(log: int = 0, *, isr: tuple[int, ...] = (1, 2, 3), config: BrokerConfig | None = None) -> PartitionBench:
    """Let broker 1 lead epoch 5 with so many records of epoch 4."""
    bench = PartitionBench(log=[(4, log)], config=config or BrokerConfig())
    bench.metadata(registration(1, 5, isr=isr))
    return bench


def remote(bench: PartitionBench, replica_id: int) -> RemoteReplica:
    """What the leader knows of another replica."""
    role = bench.partition.role
    assert isinstance(role, Leader)
    return role.remotes[ReplicaId(replica_id)]


def test_high_watermark_is_the_minimum_of_the_isr() -> None:
    """Everybody in the ISR must have fetched beyond a record, and the leader must have flushed it."""
    bench = leading()
    bench.fill(3)
    bench.fetch(2, 3)
    assert bench.high_watermark == 0, "broker 3 has not been heard of"
    bench.fetch(3, 2)
    assert bench.high_watermark == 2


def test_replica_outside_the_isr_does_not_count() -> None:
    """A replica that has neither been in sync nor caught up holds nothing back, however far behind it is."""
    bench = leading(10, isr=(1, 2))
    bench.fetch(2, 10)
    bench.fetch(3, 1)
    assert bench.high_watermark == 10


def test_leader_alone_commits_with_its_flush() -> None:
    """With nobody else in sync, the leader's own stable storage is all that counts, and it does count."""
    bench = leading(isr=(1,))
    bench.produce()
    assert bench.high_watermark == 0
    bench.flush()
    assert bench.high_watermark == 1


def test_leader_counts_with_its_flushed_end() -> None:
    """A record that all followers have is not committed before its leader has flushed it."""
    bench = leading()
    bench.produce()
    bench.fetch(2, 1)
    bench.fetch(3, 1)
    assert bench.high_watermark == 0
    bench.flush()
    assert bench.high_watermark == 1


def test_log_flush_by_the_system() -> None:
    """Where the system is trusted to flush, what is appended counts at once."""
    bench = leading(isr=(1,), config=BrokerConfig(log_flush=LogFlush.OS))
    bench.produce()
    assert bench.high_watermark == 1


def test_single_replica_isr_commits_on_becoming_leader() -> None:
    """A leader that is alone in sync commits all that it has when it begins."""
    assert leading(4, isr=(1,)).high_watermark == 4


def test_new_leader_starts_from_its_own_high_watermark() -> None:
    """A new leader knows as much as it knew: not its log's end, and not nothing."""
    bench = PartitionBench(log=[(4, 6)], high_watermark=3)
    bench.metadata(registration(1, 5))
    assert bench.high_watermark == 3


def test_high_watermark_stays_below_min_isr() -> None:
    """With fewer in-sync replicas than demanded nothing is committed, until there are enough."""
    bench = PartitionBench(log=[(4, 4)])
    bench.metadata(registration(1, 5, isr=(1,)), topic=TWO_NEEDED)
    assert (bench.high_watermark, bench.partition.is_under_min_isr) == (0, True)
    bench.metadata(registration(1, 5, isr=(1,)), topic=TopicConfig())
    assert (bench.high_watermark, bench.partition.is_under_min_isr) == (4, False)


def test_min_isr_is_at_most_the_replication_factor() -> None:
    """A topic that demands more replicas than it has is content with all of them."""
    bench = PartitionBench(log=[(4, 4)])
    bench.metadata(registration(1, 5, replicas=(1,)), topic=TopicConfig(min_insync_replicas=3))
    assert bench.high_watermark == 4


def seen_as_the_isr_shrinks(status: Callable[[Partition], bool]) -> list[bool]:
    """What a leader of which two must be in sync says of three, two and one; then what it says as a follower."""
    bench = PartitionBench()
    seen = []
    for number, isr in enumerate([(1, 2, 3), (1, 2), (1,)]):
        bench.metadata(registration(1, 5, partition_epoch=500 + number, isr=isr), topic=TWO_NEEDED)
        seen.append(status(bench.partition))
    bench.metadata(registration(2, 6, isr=(2,)), topic=TWO_NEEDED)
    return [*seen, status(bench.partition)]


def test_at_min_isr() -> None:
    """A leader says so when its committed ISR has no member to spare; a follower never does."""
    assert seen_as_the_isr_shrinks(lambda partition: partition.is_at_min_isr) == [False, True, False, False]


def test_is_under_min_isr() -> None:
    """A leader says so when its committed ISR is too small for a commit; a follower never does."""
    assert seen_as_the_isr_shrinks(lambda partition: partition.is_under_min_isr) == [False, False, True, False]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (broker(2, fenced=True), 20),
        (broker(2, leaving=True), 20),
        (broker(2), 10),
        (broker(2, epoch=21), 20),
    ],
    ids=["fenced", "shutting_down", "alive", "restarted"],
)
def test_high_watermark_increases_with_fenced_or_shutdown_follower(gone: BrokerRegistration, expected: int) -> None:
    """A follower that the controller put out holds the high watermark back only while it may come back at once."""
    bench = PartitionBench()
    bench.metadata(registration(1, 5, replicas=(1, 2)))
    bench.fill(10)
    bench.fetch(2, 10)
    assert bench.high_watermark == 10
    bench.fill(10)
    bench.metadata(registration(1, 5, partition_epoch=501, replicas=(1, 2), isr=(1,)), changed=[gone])
    assert bench.high_watermark == expected


def test_follower_outside_the_isr_is_waited_for_only_within_the_lag_limit() -> None:
    """The high watermark does not wait for ever for a replica that never comes."""
    bench = PartitionBench()
    bench.metadata(registration(1, 5, replicas=(1, 2)))
    bench.fill(10)
    bench.fetch(2, 10)
    bench.fill(10)
    bench.metadata(registration(1, 5, partition_epoch=501, replicas=(1, 2), isr=(1,)))
    bench.elapse(30_001)
    bench.fill(1)
    assert bench.high_watermark == 21


# --- what a new leadership begins with --------------------------------------------------------------------------------


def test_reset_replica_state_when_new_leader_is_elected() -> None:
    """A new leader knows nothing of the others; those in the ISR get the benefit of time."""
    bench = leading(4, isr=(1, 2))
    assert remote(bench, 2) == RemoteReplica(last_caught_up_ms=bench.now_ms)
    assert remote(bench, 3) == RemoteReplica()


def test_reset_replica_state_when_leader_is_reelected() -> None:
    """A leader that leads on knows how far the others are, and gives those in the ISR their time anew."""
    bench = leading(4, isr=(1, 2))
    bench.fetch(2, 4)
    bench.fetch(3, 2)
    bench.elapse(100)
    bench.metadata(registration(1, 6, isr=(1, 2)))
    kept = RemoteReplica(
        log_start_offset=remote(bench, 2).log_start_offset,
        log_end_offset=remote(bench, 2).log_end_offset,
        last_fetch_leader_log_end_offset=bench.partition.log.log_end_offset,
        last_fetch_ms=bench.now_ms,
        last_caught_up_ms=bench.now_ms,
        broker_epoch=remote(bench, 2).broker_epoch,
    )
    assert (kept.log_end_offset, remote(bench, 2)) == (4, kept)
    assert remote(bench, 3) == replace(
        remote(bench, 3), log_end_offset=Offset(2), last_fetch_ms=None, last_caught_up_ms=None
    )


def test_leader_that_missed_an_epoch_knows_nothing_of_the_others() -> None:
    """Another may have led between two leaderships, and a follower may have cut its log for that one."""
    bench = leading(4, isr=(1, 2))
    bench.fetch(2, 4)
    bench.metadata(registration(1, 7, isr=(1, 2)))
    assert remote(bench, 2) == RemoteReplica(last_caught_up_ms=bench.now_ms)


def test_do_not_reset_replica_state_if_leader_epoch_is_not_bumped() -> None:
    """Another ISR in the same leader epoch changes nothing of what is known of the others, nor the epoch's start."""
    bench = leading(4)
    bench.fill(2)
    bench.fetch(2, 5)
    known = remote(bench, 2)
    bench.elapse(10)
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1, 2)))
    role = bench.partition.role
    assert isinstance(role, Leader)
    assert (remote(bench, 2), role.epoch_start_offset) == (known, 4)


def test_follower_has_no_remote_replica_states() -> None:
    """What a leader knew of the others is gone with its leadership."""
    bench = leading(4)
    bench.fetch(2, 4)
    bench.metadata(registration(2, 6))
    bench.metadata(registration(1, 7))
    assert remote(bench, 2).log_end_offset is None
