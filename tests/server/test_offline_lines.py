"""What an operator sees of damaged logs: one line each, with topic, partition, offset and reason, and a number."""

from __future__ import annotations

from prometheus_client import generate_latest
from structlog.testing import capture_logs

from replica.core.broker.hosting import OfflinePartition
from replica.core.effects import ReplaceLog
from replica.core.events import LogDamaged, LogDirectoryFailed, Started, Ticked
from replica.core.metadata.records import PartitionRegistration
from replica.ids import Epoch, Offset, PartitionEpoch, TopicId, TopicPartition
from tests.server.observer_fakes import ONE, FakeReplica, observer_of_replica

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)
DECIDED = PartitionRegistration(
    replicas=(ONE,), isr=(ONE,), leader_id=ONE, leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
)
ROTTEN = OfflinePartition(reason="rotten", topic_id=TopicId(7), leader_epoch=Epoch(0), registration=DECIDED)


def test_damage_is_one_line() -> None:
    """log_damaged comes once for each damage, found at a start or later; damaged_log_replaced when it is over."""
    replica = FakeReplica()
    observer, _ = observer_of_replica(replica)
    with capture_logs() as lines:
        replica.offline[A] = ROTTEN
        observer.on_step(Started(), (), 1)
        replica.offline[B] = ROTTEN
        observer.on_step(LogDamaged(topic_partition=B, offset=Offset(5), reason="rotten"), (), 2)
        observer.on_step(Ticked(), (), 3)
        del replica.offline[B]
        observer.on_step(Ticked(), (ReplaceLog(topic_partition=B, topic_id=TopicId(7)),), 4)
        replica.offline[B] = ROTTEN
        observer.on_step(LogDamaged(topic_partition=B, offset=Offset(6), reason="rotten"), (), 5)
    told = [line for line in lines if line["event"] in {"log_damaged", "damaged_log_replaced"}]
    assert [(line["event"], line["topic"], line["partition"], line.get("offset")) for line in told] == [
        ("log_damaged", "topic", 0, None),
        ("log_damaged", "topic", 1, 5),
        ("damaged_log_replaced", "topic", 1, None),
        ("log_damaged", "topic", 1, 6),
    ]
    assert told[0]["reason"] == "rotten"
    assert told[0]["log_level"] == "error"


def test_failed_directory_is_one_line() -> None:
    """It has all the partitions in it, which have none of their own; told again it says nothing new."""
    replica = FakeReplica()
    observer, _ = observer_of_replica(replica)
    failed = LogDirectoryFailed(directory="/disk1", logs=(A, B), reason="no space")
    with capture_logs() as lines:
        replica.offline |= {A: ROTTEN, B: ROTTEN}
        for now_ms in (1, 2):
            observer.on_step(failed, (), now_ms)
    (line,) = (line for line in lines if line["event"] in {"log_damaged", "log_directory_failed"})
    assert (line["directory"], line["logs"], line["reason"]) == ("/disk1", ["topic-0", "topic-1"], "no space")
    assert line["log_level"] == "error"


def test_offline_partitions_and_directories_are_counted() -> None:
    """The page has their numbers."""
    replica = FakeReplica(offline={A: ROTTEN, B: ROTTEN}, failed_directories={"/disk1": "no space"})
    _, metrics = observer_of_replica(replica)
    page = generate_latest(metrics.registry).decode()
    assert "replica_offline_replica_count 2.0" in page
    assert "replica_offline_log_directory_count 1.0" in page
