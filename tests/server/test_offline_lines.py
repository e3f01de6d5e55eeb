"""What an operator sees of damaged logs: one line each, with topic, partition, offset and reason, and a number."""

from __future__ import annotations

from prometheus_client import generate_latest
from structlog.testing import capture_logs

from replica.core.broker.hosting import OfflinePartition
from replica.core.effects import ReplaceLog
from replica.core.events import LogDamaged, Started, Ticked
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


def test_offline_partitions_are_counted() -> None:
    """The page has their number."""
    replica = FakeReplica(offline={A: ROTTEN, B: ROTTEN})
    _, metrics = observer_of_replica(replica)
    assert "replica_offline_replica_count 2.0" in generate_latest(metrics.registry).decode()
