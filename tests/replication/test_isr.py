"""Who is in sync, as a follower brings it about that fetches what it likes, when it likes: Kafka's PartitionTest.

What the controller's refusals do to a proposal is told of a partition alone; here the real controller decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nemesis.simulator.disk import CLUSTER_ID
from replica.core import messages as m
from replica.core.partition.roles import Leader, PendingShrink
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from replica.records import encode_batch
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_BROKER, FAST_CONTROLLER

PUPPET = 9
LAG_MS = FAST_BROKER.replica_lag_time_max_ms
SLOW = 200
"""A disk so slow that what the controller decides stays undecided for a while."""


def in_sync(records: int = 0) -> tuple[Cluster, TopicPartition, Puppet]:
    """Broker 1, which leads a partition with so many records that puppet 9 has acknowledged."""
    cluster = Cluster(1, puppets=(PUPPET,))
    puppet = Puppet(cluster, PUPPET)
    topic = cluster.create("topic", (1, PUPPET))
    append(cluster, topic, records)
    if records:
        puppet.fetch(topic, records)
    return cluster, topic, puppet


def append(cluster: Cluster, topic: TopicPartition, records: int) -> None:
    """Append records and wait until the leader has flushed them."""
    for _ in range(records):
        cluster.produce(topic, b"v", acks=1)
    cluster.pass_ms(10)


def out_of_sync(records: int = 0) -> tuple[Cluster, TopicPartition, Puppet]:
    """The same, but the puppet was away and has left the ISR."""
    cluster, topic, puppet = in_sync(records)
    puppet.fall_silent()
    cluster.wait_for_isr(topic, 1)
    puppet.come_back("second")
    return cluster, topic, puppet


def isrs(cluster: Cluster, topic: TopicPartition) -> tuple[set[int], set[int]]:
    """The leader's committed and maximal ISR."""
    leader = cluster.replica(1, topic)
    return set(leader.in_sync_replicas), set(leader.maximal_isr)


def is_pending(cluster: Cluster, topic: TopicPartition) -> bool:
    """Whether the leader has proposed that somebody leaves, and that is not decided."""
    role = cluster.replica(1, topic).role
    assert isinstance(role, Leader), role
    return isinstance(role.isr_state, PendingShrink)


# --- coming in ------------------------------------------------------------------------------------------------------


def test_isr_expansion() -> None:
    """A follower that has less than the leader stays out; one that has all counts at once, and is in sync once that
    is committed."""
    cluster, topic, puppet = out_of_sync(records=5)
    append(cluster, topic, 3)
    puppet.fetch(topic, 6)
    assert isrs(cluster, topic) == ({1}, {1})

    cluster.node(1).disk.slow_factor = SLOW
    puppet.fetch(topic, 8)
    assert isrs(cluster, topic) == ({1}, {1, PUPPET})

    cluster.wait_for_isr(topic, 1, PUPPET)
    assert isrs(cluster, topic) == ({1, PUPPET}, {1, PUPPET})
    assert cluster.registration(topic).leader_epoch == 0


def gone(leaves: Callable[[Puppet], None]) -> tuple[Cluster, TopicPartition, Puppet]:
    """A leader that is alone in sync, and its puppet, which is dead or leaving and fetches all there is."""
    cluster, topic, puppet = in_sync(records=5)
    leaves(puppet)
    cluster.wait_for_isr(topic, 1)
    puppet.fetch(topic, 5)
    cluster.pass_ms(500)
    return cluster, topic, puppet


def test_isr_not_expanded_if_replica_is_fenced_or_shutdown() -> None:
    """A broker that the controller holds dead does not join, whatever it fetches, until it is back (KIP-841)."""
    cluster, topic, puppet = gone(Puppet.fall_silent)
    assert isrs(cluster, topic) == ({1}, {1})
    puppet.come_back("second")
    puppet.fetch(topic, 5)
    cluster.wait_for_isr(topic, 1, PUPPET)


def test_isr_not_expanded_if_replica_is_in_controlled_shutdown() -> None:
    """A broker that is leaving does not join, whatever it fetches (KIP-841)."""
    cluster, topic, _ = gone(Puppet.shut_down)
    assert isrs(cluster, topic) == ({1}, {1})


def cut_off() -> tuple[Cluster, TopicPartition, Puppet, int, int]:
    """A leader beside the controller, an empty partition, and its puppet; the last two are leader and controller."""
    broker = replace(FAST_BROKER, controller_request_timeout_ms=200)
    patient = replace(FAST_CONTROLLER, broker_session_timeout_ms=6 * LAG_MS)
    cluster = Cluster(3, puppets=(PUPPET,), broker=broker, controller=patient)
    puppet = Puppet(cluster, PUPPET)
    controller = cluster.controller_id
    leader = 1 if controller != 1 else 2
    return cluster, cluster.create("topic", (leader, PUPPET)), puppet, leader, controller


def test_partition_should_retry_alter_partition_request() -> None:
    """A proposal whose answers are lost counts on, whatever it makes wait, and is made again until one comes.

    The controller may have committed it, and has here: then the follower may be elected, and must have all records.
    """
    cluster, topic, puppet, leader, controller = cut_off()
    replica = cluster.replica(leader, topic)
    cluster.pass_ms(2 * LAG_MS)
    cluster.produce(topic, b"0", acks=1)
    cluster.wait_for_isr(topic, leader)
    cluster.wait(lambda: len(replica.in_sync_replicas) == 1, "the leader is alone")
    cluster.world.network.cut(1, frozenset({(controller, leader)}))

    puppet.fetch(topic, 1, at=leader)
    cluster.wait_for_isr(topic, leader, PUPPET)
    for value in (b"1", b"2"):
        request = m.ProduceRequest(topic_partition=topic, acks=1, timeout_ms=100, records=encode_batch([value]).data)
        cluster.ask(leader, request, m.ProduceResponse)
        cluster.pass_ms(2 * LAG_MS)
    assert (set(replica.in_sync_replicas), set(replica.maximal_isr)) == ({leader}, {leader, PUPPET})
    assert (replica.high_watermark, replica.log.log_end_offset) == (1, 3)
    cluster.world.network.heal(1)

    cluster.wait(lambda: len(replica.in_sync_replicas) == 2, "the leader hears of it")


def test_isr_not_shrunk_if_update_fails() -> None:
    """A follower that is to leave is waited for as long as the controller does not know of it."""
    cluster, topic, puppet, leader, controller = cut_off()
    replica = cluster.replica(leader, topic)
    puppet.fetch(topic, 0, last=None)
    cluster.produce(topic, b"0", acks=1)
    cluster.world.network.cut(1, frozenset({(leader, controller)}))
    cluster.pass_ms(2 * LAG_MS)
    cluster.produce(topic, b"1", acks=1)
    cluster.pass_ms(100)
    assert (set(replica.in_sync_replicas), replica.high_watermark) == ({leader, PUPPET}, 0)
    cluster.world.network.heal(1)

    cluster.wait_for_isr(topic, leader)
    cluster.wait(lambda: replica.high_watermark == 2, "what waited is committed")


# --- going out ------------------------------------------------------------------------------------------------------


def test_maybe_shrink_isr() -> None:
    """A follower that fetches no more is put out after the limit; until that is committed its records are missed."""
    cluster, topic, _ = in_sync(records=5)
    append(cluster, topic, 5)
    cluster.pass_ms(LAG_MS - 500)
    assert isrs(cluster, topic) == ({1, PUPPET}, {1, PUPPET})

    cluster.node(1).disk.slow_factor = SLOW
    cluster.wait(lambda: is_pending(cluster, topic), "a shrink is proposed")
    assert cluster.replica(1, topic).high_watermark == 5
    assert isrs(cluster, topic) == ({1, PUPPET}, {1, PUPPET})
    cluster.wait_for_isr(topic, 1)

    assert isrs(cluster, topic) == ({1}, {1})
    assert cluster.replica(1, topic).high_watermark == 10


def test_should_not_shrink_isr_if_previous_fetch_is_caught_up() -> None:
    """Under constant load a follower is always one fetch behind; it stays as long as it reaches what there was."""
    cluster, topic, puppet = in_sync(records=1)
    for end in range(2, 2 + 3 * LAG_MS // 500):
        append(cluster, topic, 1)
        puppet.fetch(topic, end - 1)
        cluster.pass_ms(500)
    assert cluster.registration(topic).partition_epoch == 0


def test_should_not_shrink_isr_if_follower_caught_up_to_log_end() -> None:
    """Time alone puts nobody out who has everything (KAFKA-7152)."""
    cluster, topic, _ = in_sync(records=5)
    cluster.pass_ms(4 * LAG_MS)
    assert cluster.registration(topic).partition_epoch == 0


# --- what that commits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [Puppet.fall_silent, Puppet.shut_down], ids=["fenced", "shutdown"])
def test_high_watermark_increases_with_fenced_or_shutdown_follower(leaves: Callable[[Puppet], None]) -> None:
    """When the controller takes out a follower that is dead or leaving, what waited for that one is committed."""
    cluster, topic, puppet = in_sync(records=10)
    append(cluster, topic, 10)
    assert cluster.replica(1, topic).high_watermark == 10
    leaves(puppet)
    cluster.wait_for_isr(topic, 1)
    cluster.pass_ms(10)
    assert cluster.replica(1, topic).high_watermark == 20


def test_high_watermark_waits_for_unfenced_follower_within_the_limit() -> None:
    """A follower that is out, alive and not far behind is waited for: it is about to be in sync again."""
    cluster, topic, puppet = in_sync(records=10)
    append(cluster, topic, 10)
    leader = cluster.image.brokers[ReplicaId(1)]
    request = m.AlterPartitionRequest(
        broker_id=ReplicaId(1),
        broker_epoch=leader.broker_epoch,
        incarnation_id=leader.incarnation_id,
        cluster_id=CLUSTER_ID,
        partitions=(puppet.proposal(topic, 1),),
    )
    assert cluster.ask(1, request, m.AlterPartitionResponse).partitions[0].error is ErrorCode.NONE
    cluster.pass_ms(100)

    assert isrs(cluster, topic) == ({1}, {1})
    assert cluster.replica(1, topic).high_watermark == 10
    puppet.fetch(topic, 20)
    cluster.wait_for_isr(topic, 1, PUPPET)
    assert cluster.replica(1, topic).high_watermark == 20
