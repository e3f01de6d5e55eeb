"""What a leader notes of each follower: Kafka's PartitionTest and ReplicaTest."""

from __future__ import annotations

import pytest

from replica.core.partition.roles import Leader, RemoteReplica
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.partition.bench import PartitionBench, broker, registration

FOLLOWER = 2


def a_leader(records: int = 6) -> PartitionBench:
    """Broker 1, which leads epoch 5 with so many records."""
    bench = PartitionBench()
    bench.metadata(registration(1, 5))
    bench.fill(records)
    return bench


def leadership(bench: PartitionBench) -> Leader:
    """The leader's role."""
    role = bench.partition.role
    assert isinstance(role, Leader), role
    return role


def noted(bench: PartitionBench) -> RemoteReplica:
    """What is noted of the follower."""
    return leadership(bench).remotes[ReplicaId(FOLLOWER)]


def test_update_follower_fetch_state() -> None:
    """A fetch tells how far the follower is; one at the log's end also that it has caught up just now."""
    bench = a_leader()
    began_ms = bench.now_ms
    bench.elapse(500)
    bench.fetch(FOLLOWER, 0)
    assert (noted(bench).log_end_offset, noted(bench).last_caught_up_ms) == (0, began_ms)
    bench.elapse(500)
    bench.fetch(FOLLOWER, 6)
    assert (noted(bench).log_end_offset, noted(bench).last_caught_up_ms) == (6, began_ms + 1000)
    assert noted(bench).last_fetch_leader_log_end_offset == 6


def test_fence_stale_updates() -> None:
    """A fetch of an incarnation older than one that was heard already changes nothing that is noted (KIP-903)."""
    bench = a_leader()
    bench.metadata(registration(1, 5, partition_epoch=501), changed=[broker(FOLLOWER, epoch=21)])
    bench.fetch(FOLLOWER, 3, broker_epoch=21)
    before = noted(bench)
    bench.elapse(500)

    read = bench.fetch(FOLLOWER, 6, broker_epoch=20)

    assert read.answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert noted(bench) == before


@pytest.mark.parametrize("partition_epoch", [500, 501], ids=["same_metadata", "newer_metadata"])
def test_do_not_update_epoch_start_offset_if_leader_epoch_is_not_bumped(partition_epoch: int) -> None:
    """A leadership begins once: metadata of the same leader epoch does not move its start to the present end."""
    bench = a_leader()
    assert leadership(bench).epoch_start_offset == 0
    bench.metadata(registration(1, 5, partition_epoch=partition_epoch))
    assert leadership(bench).epoch_start_offset == 0
    bench.metadata(registration(1, 6))
    assert leadership(bench).epoch_start_offset == 6


def test_should_apply_epoch_to_message_on_append_if_leader() -> None:
    """What a leader appends bears its epoch; what it appended in an earlier one keeps that."""
    bench = a_leader(2)
    bench.metadata(registration(1, 6))
    bench.fill(1)
    assert [batch.leader_epoch for batch in bench.disk.batches] == [5, 5, 6]
