"""Logs of many segments on whole replicas: what may be deleted of them, and what is committed at their ends."""

from __future__ import annotations

from replica.ids import TopicPartition
from tests.replication.bench import Cluster
from tests.replication.tampering import HIGH_WATERMARKS, checkpoint, segments

CHECKPOINT_MS = 5500
LARGE = b"v" * 200


def starts(cluster: Cluster, broker_id: int, topic: TopicPartition) -> list[int]:
    """Where the segments of a log begin."""
    return [int(path.stem) for path in segments(cluster, broker_id, topic)]


def two_replicas() -> tuple[Cluster, TopicPartition]:
    """A partition of 1 and 2 with 30 records, in several segments on both."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for _ in range(30):
        cluster.produce(topic, LARGE)
    cluster.wait_for_same_logs(topic, 1, 2)
    assert min(len(starts(cluster, 1, topic)), len(starts(cluster, 2, topic))) > 3
    return cluster, topic


def test_hw_checkpoint_with_failures_multiple_log_segments() -> None:
    """After the death of one leader and then the other, both have stored all that was committed under either."""
    cluster, topic = two_replicas()
    cluster.pass_ms(CHECKPOINT_MS)
    cluster.kill(1)
    assert checkpoint(cluster, 1, HIGH_WATERMARKS)[topic] == 30
    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 leads")
    for _ in range(30):
        cluster.produce(topic, LARGE)
    cluster.start(1)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.pass_ms(CHECKPOINT_MS)
    cluster.kill(2)
    assert checkpoint(cluster, 2, HIGH_WATERMARKS)[topic] == 60

    cluster.wait(lambda: cluster.registration(topic).leader_id == 1, "1 leads")
    assert cluster.replica(1, topic).high_watermark == 60
    cluster.stop(1)
    assert checkpoint(cluster, 1, HIGH_WATERMARKS)[topic] == 60
