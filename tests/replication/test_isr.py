"""Who is in sync, as a follower brings it about that fetches what it likes, when it likes: Kafka's PartitionTest.

What the controller's refusals do to a proposal is told of a partition alone; here the real controller decides.
"""

from __future__ import annotations

from dataclasses import replace

from replica.core import messages as m
from replica.ids import TopicPartition
from replica.records import encode_batch
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_BROKER, FAST_CONTROLLER

PUPPET = 9
LAG_MS = FAST_BROKER.replica_lag_time_max_ms


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
