"""Partitions that move to other brokers while they are written (KIP-455), on production cores and storage.

Beside what each scenario looks at, the promises of the cluster are judged after every step: what is committed is on
every replica that may lead.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nemesis.simulator.violations import BrokenInvariantError
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from tests.replication.bench import Cluster

RECORDS = [b"%d" % number for number in range(20)]


def with_topic(*replicas: int, rules: Callable[[], Rules] = Rules) -> tuple[Cluster, TopicPartition]:
    """A partition on these of five brokers, with records that all of them have."""
    cluster = Cluster(5, rules=rules)
    topic = cluster.create("topic", replicas, min_insync_replicas="2")
    for value in RECORDS:
        cluster.produce(topic, value)
    return cluster, topic


def write_on_the_way(cluster: Cluster, topic: TopicPartition, records: int) -> list[bytes]:
    """Write record by record while the partition moves; return those that were acknowledged."""
    written = []
    for number in range(records):
        value = b"moving-%d" % number
        if cluster.send(topic, value).error is ErrorCode.NONE:
            written.append(value)
    return written


def check_kept(cluster: Cluster, topic: TopicPartition, written: list[bytes]) -> None:
    """What was acknowledged is there, once and in order; what was not may be there as well."""
    acknowledged = [*RECORDS, *written]
    assert [value for value in cluster.values(topic) if value in acknowledged] == acknowledged


@pytest.mark.parametrize(
    "target",
    [
        pytest.param((3, 2), id="the_leader_goes"),
        pytest.param((1, 3), id="a_follower_goes"),
        pytest.param((3, 4), id="all_go"),
        pytest.param((2, 3, 4), id="one_more"),
    ],
)
def test_a_partition_moves_under_writes(target: tuple[int, ...]) -> None:
    """Whoever goes: every acknowledged record is on all of the target, in order, and on nobody else's disk."""
    cluster, topic = with_topic(1, 2)
    assert cluster.reassign(topic, *target).error is ErrorCode.NONE
    written = write_on_the_way(cluster, topic, 20)
    cluster.wait_for_replicas(topic, *target)
    cluster.wait_for_isr(topic, *target)
    cluster.produce(topic, b"last")
    cluster.wait_for_same_logs(topic, *target)
    check_kept(cluster, topic, [*written, b"last"])
    assert cluster.leader(topic) == (1 if 1 in target else target[0])
    cluster.wait(lambda: cluster.hosts(topic) == set(target), "those that went have deleted their logs")


def test_what_was_acknowledged_before_the_move_outlives_the_old_replicas() -> None:
    """With all that the records were first written to lost, the brokers that came have every one."""
    cluster, topic = with_topic(1, 2)
    cluster.reassign(topic, 3, 4)
    cluster.wait_for_replicas(topic, 3, 4)
    cluster.lose_power(1)
    cluster.lose_power(2)
    check_kept(cluster, topic, [])


def test_a_broker_that_comes_and_dies_holds_nothing_up() -> None:
    """Writes go on with the replicas of before; to go back ends the move, and who comes back deletes what it has."""
    cluster, topic = with_topic(1, 2)
    cluster.node(3).disk.slow_factor = 1000
    cluster.reassign(topic, 3, 2)
    cluster.wait(lambda: 3 in cluster.hosts(topic), "3 has begun")
    cluster.kill(3)
    cluster.produce(topic, b"meanwhile")
    assert cluster.registration(topic).replicas == (3, 2, 1)
    assert cluster.cancel_reassignment(topic).error is ErrorCode.NONE
    assert cluster.cancel_reassignment(topic).error is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    cluster.wait_for_replicas(topic, 2, 1)
    cluster.node(3).disk.slow_factor = 1
    cluster.start(3)
    cluster.wait(lambda: cluster.hosts(topic) == {1, 2}, "3 has deleted its log")
    cluster.produce(topic, b"afterwards")
    check_kept(cluster, topic, [b"meanwhile", b"afterwards"])


def test_who_is_removed_while_it_is_away_deletes_its_log() -> None:
    """A broker learns when it starts that it has no replica any more."""
    cluster, topic = with_topic(1, 2, 3)
    cluster.kill(3)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.reassign(topic, 1, 2)
    cluster.wait_for_replicas(topic, 1, 2)
    cluster.start(3)
    cluster.wait(lambda: cluster.hosts(topic) == {1, 2}, "3 has deleted its log")


@pytest.mark.parametrize("is_away", [True, False])
def test_who_is_removed_and_comes_again_has_everything(is_away: bool) -> None:
    """With its log of before, or a new one that is empty: it is in sync when it has all, and can lead alone."""
    cluster, topic = with_topic(1, 2, 3)
    if is_away:
        cluster.kill(3)
        cluster.wait_for_isr(topic, 1, 2)
    cluster.reassign(topic, 1, 2)
    cluster.produce(topic, b"without")
    cluster.reassign(topic, 3, 1, 2)
    if is_away:
        cluster.start(3)
    cluster.wait_for_replicas(topic, 3, 1, 2)
    cluster.produce(topic, b"with")
    cluster.wait_for_same_logs(topic, 1, 2, 3)
    cluster.kill(1)
    cluster.kill(2)
    cluster.wait(lambda: cluster.registration(topic).leader_id == 3, "3 leads")
    cluster.wait(lambda: cluster.fetch(topic).error is ErrorCode.NONE, "3 knows the end of its log")
    check_kept(cluster, topic, [b"without", b"with"])


def test_another_target_while_one_is_under_way() -> None:
    """The later target counts; whoever came for the earlier one goes again."""
    cluster, topic = with_topic(1, 2)
    cluster.node(3).disk.slow_factor = 1000
    cluster.reassign(topic, 3, 2)
    cluster.wait(lambda: 3 in cluster.hosts(topic), "3 has begun")
    assert cluster.registration(topic).is_reassigned
    cluster.reassign(topic, 2, 4)
    written = write_on_the_way(cluster, topic, 5)
    cluster.wait_for_replicas(topic, 2, 4)
    cluster.wait(lambda: cluster.hosts(topic) == {2, 4}, "1 and 3 have deleted their logs")
    check_kept(cluster, topic, written)


def test_the_move_goes_on_under_the_next_controller() -> None:
    """What was begun is completed by whoever is the controller by then."""
    cluster, topic = with_topic(1, 2)
    controller_id = cluster.controller_id
    target = next(broker for broker in (3, 4, 5) if broker != controller_id)
    cluster.node(target).disk.slow_factor = 1000
    cluster.reassign(topic, target, 2 if controller_id != 2 else 1)
    cluster.kill(controller_id)
    cluster.node(target).disk.slow_factor = 1
    cluster.wait(lambda: not cluster.registration(topic).is_reassigned, "the move is complete")
    assert cluster.leader(topic) in cluster.registration(topic).replicas
    check_kept(cluster, topic, [])


class Hasty(Rules):
    """Those that go are not waited with until those that come are in sync."""

    def reassignment_is_complete(self, *, target: tuple[ReplicaId, ...], isr: tuple[ReplicaId, ...]) -> bool:
        """Wrong: a move is complete when it begins."""
        del target, isr
        return True


def test_a_move_that_does_not_wait_loses_what_was_acknowledged() -> None:
    """The records are gone with the replicas that had them."""
    cluster, topic = with_topic(1, 2, rules=Hasty)
    cluster.reassign(topic, 3, 4)
    cluster.wait(lambda: cluster.hosts(topic) == {3, 4}, "1 and 2 have deleted their logs")
    assert {broker: cluster.batches(broker, topic) for broker in (3, 4)} == {3: (), 4: ()}


class Trusting(Rules):
    """Whoever fetches is in sync."""

    def may_join_isr(self, *, end_offset: Offset, high_watermark: Offset, epoch_start_offset: Offset) -> bool:
        """Wrong: a follower is proposed whatever it has."""
        del end_offset, high_watermark, epoch_start_offset
        return True


def test_a_move_to_who_has_nothing_yet_is_convicted() -> None:
    """A leader that comes with the move, and lacks what was acknowledged, is no last resort that may lose it."""
    cluster, topic = with_topic(1, 2, rules=Trusting)
    cluster.node(3).disk.slow_factor = 1000
    cluster.reassign(topic, 3)
    with pytest.raises(BrokenInvariantError, match="replica 3 may be elected for topic-0 and has"):
        cluster.wait_for_replicas(topic, 3)
