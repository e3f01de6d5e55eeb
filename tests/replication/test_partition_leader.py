"""A leader and its followers, by requests: Kafka's PartitionTest, ReplicaManagerTest and DelayedFetchTest."""

from __future__ import annotations

from dataclasses import replace

from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, TopicPartition
from replica.records import parse_batches
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_BROKER

PUPPET = 9


def count(answer: m.FetchedPartition) -> int:
    """How many records came."""
    return sum(batch.record_count for batch in parse_batches(answer.records))


def a_leader(records: int = 0, *, broker: BrokerConfig = FAST_BROKER) -> tuple[Cluster, TopicPartition, Puppet]:
    """Broker 1, which leads a partition with so many records that puppet 9 follows and has none of."""
    cluster = Cluster(1, puppets=(PUPPET,), broker=broker)
    puppet = Puppet(cluster, PUPPET)
    topic = cluster.create("topic", (1, PUPPET))
    for _ in range(records):
        cluster.produce(topic, b"v", acks=1)
    return cluster, topic, puppet


# --- writing --------------------------------------------------------------------------------------------------------


def at_minimum() -> tuple[Cluster, TopicPartition]:
    """Brokers 1 and 2, which both must be in sync, with one record."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2), min_insync_replicas="2")
    cluster.produce(topic, b"at the minimum")
    cluster.wait_for_same_logs(topic, 1, 2)
    return cluster, topic


def test_is_under_min_isr() -> None:
    """Below the minimum writes are definitely refused, and weaker ones stay uncommitted until somebody is back."""
    cluster, topic = at_minimum()
    cluster.stop(2)
    cluster.wait_for_isr(topic, 1)
    leader = cluster.replica(1, topic)
    assert (leader.is_at_min_isr, leader.is_under_min_isr) == (False, True)

    refused = cluster.send(topic, b"below")
    assert (refused.error, refused.not_appended) == (ErrorCode.NOT_ENOUGH_REPLICAS, True)
    assert cluster.produce(topic, b"weaker", acks=1) == 1
    cluster.pass_ms(2000)
    assert cluster.fetch(topic).high_watermark == 1
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)
    assert cluster.values(topic) == [b"at the minimum", b"weaker"]


def test_duplicate_appends() -> None:
    """Each of the last five batches of a producer is known again by every leader; older ones and gaps are refused."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for sequence in range(6):
        assert cluster.send_numbered(topic, sequence).base_offset == sequence
    for sequence in range(1, 6):
        assert cluster.send_numbered(topic, sequence).base_offset == sequence
    for sequence in (0, 7):
        refused = cluster.send_numbered(topic, sequence)
        assert (refused.error, refused.not_appended) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True)
    cluster.kill(1)

    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 leads")
    assert cluster.send_numbered(topic, 5).base_offset == 5
    assert cluster.send_numbered(topic, 6).base_offset == 6
    assert cluster.replica(2, topic).log.log_end_offset == 7


def test_old_producer_epoch() -> None:
    """A producer that has been replaced is turned away, also by a leader that only replicated its successor."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.send_numbered(topic, 0, producer_epoch=1)
    assert cluster.send_numbered(topic, 1).error is ErrorCode.INVALID_PRODUCER_EPOCH
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.kill(1)

    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 leads")
    assert cluster.send_numbered(topic, 1).error is ErrorCode.INVALID_PRODUCER_EPOCH


# --- waiting (Kafka's DelayedFetchTest) -----------------------------------------------------------------------------


def parked(topic: TopicPartition, *, epoch: int | None, offset: int = 1) -> m.FetchRequest:
    """A consumer's fetch that waits for long."""
    part = m.FetchPartition(
        topic_partition=topic,
        fetch_offset=Offset(offset),
        current_leader_epoch=None if epoch is None else Epoch(epoch),
    )
    return m.FetchRequest(partitions=(part,), max_wait_ms=20_000)


def answered(answers: list[m.Response | None]) -> m.FetchedPartition:
    """The one answer."""
    (answer,) = answers
    assert isinstance(answer, m.FetchResponse), answer
    return answer.partitions[0]


def test_local_fetch_completion_if_high_watermark_updated() -> None:
    """A consumer that waits at a follower is woken when the follower hears of a higher high watermark."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2)
    answers = cluster.begin(2, parked(topic, epoch=0))
    cluster.pass_ms(1000)
    assert answers == []

    cluster.produce(topic, b"b")
    cluster.wait(lambda: bool(answers), "the fetch is answered")

    assert count(answered(answers)) == 1


def test_use_checkpoint_to_initialize_high_watermark() -> None:
    """After a restart the high watermark is the stored one, not the log's end: the rest may not be committed."""
    cluster, topic, puppet = a_leader(records=5, broker=replace(FAST_BROKER, replica_lag_time_max_ms=60_000))
    puppet.fetch(topic, 3)
    cluster.pass_ms(6000)
    cluster.kill(1)
    cluster.start(1)

    cluster.wait(lambda: cluster.registration(topic).leader_id == PUPPET, "the puppet leads")
    replica = cluster.replica(1, topic)
    assert (replica.high_watermark, replica.log.log_end_offset) == (3, 5)
