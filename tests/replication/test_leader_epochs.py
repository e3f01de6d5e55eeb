"""Leader epochs as clients see them: Kafka's LeaderEpochIntegrationTest and the tests of its OffsetsForLeaderEpoch."""

from __future__ import annotations

import pytest

from nemesis.simulator.disk import DATA
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, TopicPartition
from replica.records import parse_batches
from replica.storage.checkpoints import read_epochs
from tests.replication.bench import Cluster
from tests.replication.tampering import EPOCHS, files_of, write_log

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


def test_should_send_leader_epoch_request_and_get_a_response() -> None:
    """Each leader says where its first epoch ends; whoever does not lead says so, and no offset."""
    cluster = Cluster(3)
    cluster.create("topic", (1, 2), (2, 3), (3, 1))
    names = [TopicPartition("topic", number) for number in range(3)]
    for name, count in zip(names, (10, 20, 30), strict=True):
        for number in range(count):
            cluster.produce(name, b"%d" % number)

    answers = [cluster.epoch_end(cluster.leader(name), name, 0).answer for name in names]
    assert answers == [EpochEndOffset(Epoch(0), Offset(end)) for end in (10, 20, 30)]
    refused = cluster.epoch_end(2, names[0], 0)
    assert (refused.error, refused.answer) == (NOT_LEADER, None)


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


CURRENT = {"absent": None, "older": 0, "newer": 2, "equal": 1}
"""What a client may believe while the leader epoch is 1."""
ON_LEADER = {"absent": NONE, "older": FENCED, "newer": UNKNOWN, "equal": NONE}
ON_FOLLOWER = {"absent": NOT_LEADER, "older": FENCED, "newer": UNKNOWN, "equal": NOT_LEADER}


def _led_by_2() -> tuple[Cluster, TopicPartition]:
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.bounce(1)
    cluster.wait_for_isr(topic, 1, 2)
    assert (cluster.leader(topic), cluster.registration(topic).leader_epoch) == (2, 1)
    return cluster, topic


def test_current_epoch_validation() -> None:
    """An epoch that is not the present one is refused before it is asked who leads."""
    cluster, topic = _led_by_2()

    assert {each: cluster.epoch_end(2, topic, 0, current).error for each, current in CURRENT.items()} == ON_LEADER
    assert {each: cluster.epoch_end(1, topic, 0, current).error for each, current in CURRENT.items()} == ON_FOLLOWER


def _asked_for_epoch_ends(broker_id: int) -> dict[str, ErrorCode]:
    """What a broker says to each belief, asked where an epoch ends."""
    cluster, topic = _led_by_2()
    return {each: cluster.epoch_end(broker_id, topic, 0, current).error for each, current in CURRENT.items()}


def test_offset_for_leader_epoch_validation_for_leader() -> None:
    """A leader tells where epochs end in its own epoch only, or to who names none."""
    assert _asked_for_epoch_ends(2) == ON_LEADER


def test_offset_for_leader_epoch_validation_for_follower() -> None:
    """A follower never tells where epochs end; of another epoch it says first that it is another."""
    assert _asked_for_epoch_ends(1) == ON_FOLLOWER


def _asked_for_offsets(broker_id: int, *, timestamp_ms: int | None) -> dict[str, ErrorCode]:
    """What a broker says to each belief, asked for the latest offset or for that of a time."""
    cluster, topic = _led_by_2()
    cluster.produce(topic, b"b")

    def ask(current: int | None) -> ErrorCode:
        request = m.ListOffsetsRequest(
            topic_partition=topic,
            latest=timestamp_ms is None,
            timestamp_ms=timestamp_ms,
            current_leader_epoch=None if current is None else Epoch(current),
        )
        return cluster.ask(broker_id, request, m.ListOffsetsResponse).error

    return {each: ask(current) for each, current in CURRENT.items()}


def test_fetch_offset_snapshot_epoch_validation_for_leader() -> None:
    """Asking a leader for its latest offset is fenced as asking for epochs is."""
    assert _asked_for_offsets(2, timestamp_ms=None) == ON_LEADER


def test_fetch_offset_snapshot_epoch_validation_for_follower() -> None:
    """A follower does not tell how far the log goes; of another epoch it says first that it is another."""
    assert _asked_for_offsets(1, timestamp_ms=None) == ON_FOLLOWER


def test_fetch_offset_for_timestamp_epoch_validation_for_leader() -> None:
    """Asking a leader for the offset of a time is fenced as asking for epochs is."""
    assert _asked_for_offsets(2, timestamp_ms=0) == ON_LEADER


def test_fetch_offset_for_timestamp_epoch_validation_for_follower() -> None:
    """A follower does not look up times; of another epoch it says first that it is another."""
    assert _asked_for_offsets(1, timestamp_ms=0) == ON_FOLLOWER


def _fetched(broker_id: int) -> dict[str, ErrorCode]:
    """What a broker says to each belief of a consumer that fetches."""
    cluster, topic = _led_by_2()
    return {each: cluster.fetch(topic, at=broker_id, epoch=current).error for each, current in CURRENT.items()}


def test_leader_epoch_validation_on_leader() -> None:
    """A consumer's fetch is fenced by its epoch."""
    assert _fetched(2) == ON_LEADER


def test_leader_epoch_validation_on_follower() -> None:
    """A follower fences a consumer and serves it as the leader does (KIP-392)."""
    assert _fetched(1) == ON_LEADER


def test_make_leader_updates_epoch_cache() -> None:
    """A new leader that has written nothing knows where its epoch begins, and says so (KAFKA-7415)."""
    cluster = Cluster(3, is_judged=False)
    topic = cluster.create("topic", (1, 2))
    for _ in range(4):
        cluster.bounce(1)
        cluster.wait_for_isr(topic, 1, 2)
        cluster.bounce(2)
        cluster.wait_for_isr(topic, 1, 2)
    assert cluster.registration(topic).leader_epoch == 8
    cluster.stop(2)
    cluster.stop(1)
    for broker_id in (1, 2):
        write_log(cluster, broker_id, topic, (0, 2), (5, 2))
    cluster.start(1)
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)

    leader, epoch = cluster.leader(topic), cluster.registration(topic).leader_epoch
    assert epoch > 8
    assert cluster.cache(leader, topic) == [(0, 0), (5, 2), (epoch, 4)]
    assert cluster.epoch_end(leader, topic, epoch).answer == EpochEndOffset(epoch, Offset(4))
    assert cluster.epoch_end(leader, topic, 5).answer == EpochEndOffset(Epoch(5), Offset(4))


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
