"""A leader and its followers, by requests: Kafka's PartitionTest, ReplicaManagerTest and DelayedFetchTest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.simulator.disk import CLUSTER_ID
from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.core.metadata.image import BrokerRegistration
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.records import parse_batches
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_BROKER

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
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


# --- who may fetch --------------------------------------------------------------------------------------------------


def test_replica_fetch_to_follower() -> None:
    """A replica needs the leader; a consumer that knows the epoch may read from a follower."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2, 3))
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2, 3)
    registered = cluster.image.brokers[ReplicaId(3)]
    part = m.FetchPartition(
        topic_partition=topic,
        fetch_offset=Offset(0),
        current_leader_epoch=Epoch(0),
        last_fetched_epoch=None,
        log_start_offset=Offset(0),
    )
    request = fetch_of(registered, part)

    (answer,) = cluster.ask(2, request, m.FetchResponse).partitions
    assert answer.error is NOT_LEADER
    assert cluster.values(topic, at=2) == [b"a"]
    assert count(cluster.fetch(topic, at=2, epoch=0)) == 1


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(None, NOT_LEADER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)],
    ids=["without_epoch", "with_epoch"],
)
def test_fetch_from_unrecognized_follower(epoch: int | None, error: ErrorCode) -> None:
    """A broker that is no replica is refused; if it names an epoch, it may know more than the leader."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    part = m.FetchPartition(
        topic_partition=topic,
        fetch_offset=Offset(0),
        current_leader_epoch=None if epoch is None else Epoch(epoch),
        log_start_offset=Offset(0),
    )
    registered = cluster.image.brokers[ReplicaId(3)]

    request = fetch_of(registered, part)
    (answer,) = cluster.ask(1, request, m.FetchResponse).partitions

    assert answer.error is error


def fetch_of(broker: BrokerRegistration, part: m.FetchPartition) -> m.FetchRequest:
    """Fetch as this broker."""
    return m.FetchRequest(
        partitions=(part,),
        cluster_id=CLUSTER_ID,
        replica_id=broker.broker_id,
        replica_directory_id=broker.directory_id,
        broker_epoch=broker.broker_epoch,
    )


def test_fence_follower_fetch_with_stale_broker_epoch() -> None:
    """A fetch of an incarnation that has been replaced is refused, and acknowledges nothing (KIP-903)."""
    cluster, topic, puppet = a_leader(records=3)
    old = puppet.broker_epoch
    assert old is not None
    assert puppet.fetch(topic, 0, last=None).error is ErrorCode.NONE
    puppet.fall_silent()
    puppet.come_back("second")

    assert puppet.fetch(topic, 3, broker_epoch=old).error is NOT_LEADER
    assert cluster.registration(topic).isr == (1,)
    assert puppet.fetch(topic, 3).error is ErrorCode.NONE
    cluster.wait_for_isr(topic, 1, PUPPET)


@pytest.mark.parametrize(
    ("epoch", "offset", "error"),
    [
        pytest.param(1, 3, ErrorCode.UNKNOWN_LEADER_EPOCH, id="unknown_epoch"),
        pytest.param(None, 99, ErrorCode.NONE, id="diverged"),
        pytest.param(None, -1, ErrorCode.OFFSET_OUT_OF_RANGE, id="out_of_range"),
    ],
)
def test_follower_state_not_updated_if_log_read_fails(epoch: int | None, offset: int, error: ErrorCode) -> None:
    """A fetch that is refused, or told where the logs part, acknowledges nothing (KAFKA-13141)."""
    cluster, topic, puppet = a_leader(records=3)

    answer = puppet.fetch(topic, offset, epoch=epoch)

    assert answer.error is error
    assert (answer.diverging_epoch is not None) == (error is ErrorCode.NONE)
    assert cluster.fetch(topic).high_watermark == 0


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [3, 2, -2])
def test_illegal_required_acks(acks: int) -> None:
    """A write that wants so many acknowledgements is refused before anything is appended."""
    cluster = Cluster(1)
    topic = cluster.create("topic", (1,))

    answer = cluster.send(topic, b"a", acks=acks)

    assert (answer.error, answer.not_appended) == (ErrorCode.INVALID_REQUIRED_ACKS, True)
    assert cluster.replica(1, topic).log.log_end_offset == 0


def at_minimum() -> tuple[Cluster, TopicPartition]:
    """Brokers 1 and 2, which both must be in sync, with one record."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2), min_insync_replicas="2")
    cluster.produce(topic, b"at the minimum")
    cluster.wait_for_same_logs(topic, 1, 2)
    return cluster, topic


def test_at_min_isr() -> None:
    """With just enough in-sync replicas writes are committed, and the leader says that it has none to spare."""
    cluster, topic = at_minimum()
    leader = cluster.replica(1, topic)
    assert (leader.is_at_min_isr, leader.is_under_min_isr) == (True, False)
    assert cluster.values(topic) == [b"at the minimum"]


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


# --- reading --------------------------------------------------------------------------------------------------------


def test_fetch_beyond_high_watermark() -> None:
    """A replica is given the whole log; a consumer nothing above the high watermark, and no error either."""
    cluster, topic, puppet = a_leader(records=10)

    answer = puppet.fetch(topic, 5)
    assert (answer.high_watermark, count(answer)) == (5, 5)
    assert (count(puppet.fetch(topic, 0, last=None)), count(cluster.fetch(topic))) == (10, 5)
    beyond = cluster.fetch(topic, 7)
    assert (beyond.error, count(beyond)) == (ErrorCode.NONE, 0)


def test_read_out_of_range() -> None:
    """At the log's end there is nothing to read; beyond either end is out of range."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for _ in range(5):
        cluster.produce(topic, b"v")
    cluster.delete_records(topic, 2)

    assert {offset: cluster.fetch(topic, offset).error for offset in (1, 2, 5, 6)} == {
        1: ErrorCode.OFFSET_OUT_OF_RANGE,
        2: ErrorCode.NONE,
        5: ErrorCode.NONE,
        6: ErrorCode.OFFSET_OUT_OF_RANGE,
    }
    assert (count(cluster.fetch(topic, 2)), count(cluster.fetch(topic, 5))) == (3, 0)


@pytest.mark.parametrize("is_from_follower", [True, False], ids=["follower", "consumer"])
def test_offset_out_of_range_exception_when_fetch_messages(is_from_follower: bool) -> None:
    """Below the log's start a replica as well as a consumer is given the error and nothing else."""
    cluster, topic, puppet = a_leader(records=5)
    puppet.fetch(topic, 5)
    cluster.delete_records(topic, 2)

    answer = puppet.fetch(topic, 1) if is_from_follower else cluster.fetch(topic, 1)

    assert (answer.error, answer.records) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")
    assert answer.diverging_epoch is None


def test_cannot_increment_log_start_offset_past_high_watermark() -> None:
    """Records that are not committed cannot be deleted (KAFKA-5634); the followers forget what the leader forgot."""
    cluster, topic, puppet = a_leader(records=10)
    puppet.fetch(topic, 5)

    assert cluster.delete_records(topic, 6).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.delete_records(topic, 5).error is ErrorCode.REQUEST_TIMED_OUT, "the follower's log begins at 0"
    assert puppet.fetch(topic, 5).log_start_offset == 5
    assert puppet.fetch(topic, 4).error is ErrorCode.OFFSET_OUT_OF_RANGE


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


def test_fetch_with_fenced_epoch() -> None:
    """A fetch that waits is answered as soon as its epoch is over."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    answers = cluster.begin(1, parked(topic, epoch=0))
    cluster.pass_ms(100)
    assert answers == []

    cluster.stop(1)

    assert answered(answers).error is ErrorCode.FENCED_LEADER_EPOCH


def test_not_leader_or_follower() -> None:
    """A fetch that waits is answered as soon as its partition is gone."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    answers = cluster.begin(1, parked(topic, epoch=None))
    cluster.pass_ms(100)
    assert answers == []

    cluster.ask(cluster.controller_id, m.DeleteTopicRequest(name="topic"), m.DeleteTopicResponse)
    cluster.wait(lambda: bool(answers), "the fetch is answered")

    assert answered(answers).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


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
