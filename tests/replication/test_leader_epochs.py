"""Leader epochs as clients see them: Kafka's LeaderEpochIntegrationTest and the tests of its OffsetsForLeaderEpoch."""

from __future__ import annotations

import pytest

from nemesis.simulator.disk import DATA
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEntry, Offset, TopicPartition
from replica.records import parse_batches
from replica.storage.checkpoints import read_epochs
from tests.replication.bench import Cluster
from tests.replication.tampering import EPOCHS, files_of

NONE, FENCED = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH
UNKNOWN, NOT_LEADER = ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_should_persist_epochs_between_instances() -> None:
    """What a replica knows of epochs it knows after a restart: its file says what its memory said."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.bounce(1)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.produce(topic, b"b")
    cluster.wait_for_same_logs(topic, 1, 2)
    known = cluster.cache(1, topic)
    cluster.stop(1)

    path = DATA / str(topic) / EPOCHS
    assert read_epochs(files_of(cluster, 1), path) == (
        EpochEntry(Epoch(0), Offset(0)),
        EpochEntry(Epoch(1), Offset(1)),
    )
    cluster.start(1)
    assert cluster.cache(1, topic) == known == [(0, 0), (1, 1)]


def test_should_add_current_leader_epoch_to_messages_as_they_are_written_to_leader() -> None:
    """A fetch brings every batch with the epoch in which it was appended."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.bounce(1)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.produce(topic, b"b")
    cluster.bounce(2)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.produce(topic, b"c")

    assert [batch.leader_epoch for batch in parse_batches(cluster.fetch(topic).records)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("broker_id", "name", "error"),
    [
        pytest.param(1, TopicPartition("other", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown_topic"),
        pytest.param(1, TopicPartition("topic", 1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown_partition"),
        pytest.param(2, TopicPartition("topic", 0), NOT_LEADER, id="follower"),
        pytest.param(3, TopicPartition("topic", 0), NOT_LEADER, id="no_replica"),
    ],
)
def test_offsets_for_leader_epoch_error_codes(broker_id: int, name: TopicPartition, error: ErrorCode) -> None:
    """What does not exist is unknown; what somebody else leads is led by somebody else."""
    cluster = Cluster(3)
    cluster.create("topic", (1, 2))

    answer = cluster.epoch_end(broker_id, name, 0)

    assert (answer.error, answer.answer) == (error, None)


def test_should_update_offset_for_leader_epochs_when_deleting_segments() -> None:
    """What is deleted takes its epochs along, on every replica; an epoch that is cut into begins where the log does."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for epoch in range(3):
        for _ in range(2):
            cluster.produce(topic, b"e%d" % epoch)
        if epoch < 2:
            cluster.bounce(1)
            cluster.wait_for_isr(topic, 1, 2)
            cluster.bounce(2)
            cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)
    assert cluster.cache(1, topic) == cluster.cache(2, topic) == [(0, 0), (2, 2), (4, 4)]

    cluster.delete_records(topic, 3)
    cluster.wait(lambda: cluster.replica(2, topic).log.log_start_offset == 3, "the follower has heard of it")

    assert cluster.cache(1, topic) == cluster.cache(2, topic) == [(2, 3), (4, 4)]
    cluster.bounce(2)
    assert cluster.cache(2, topic) == [(2, 3), (4, 4)]
    assert cluster.replica(2, topic).log.log_start_offset == 3
