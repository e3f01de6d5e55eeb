"""Logs of many segments on whole replicas: what may be deleted of them, and what is committed at their ends."""

from __future__ import annotations

from dataclasses import replace

from replica.ids import TopicPartition
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_BROKER
from tests.replication.tampering import HIGH_WATERMARKS, checkpoint, segments

PUPPET = 9
CHECK_MS = 500
CHECKPOINT_MS = 5500
LARGE = b"v" * 200


def starts(cluster: Cluster, broker_id: int, topic: TopicPartition) -> list[int]:
    """Where the segments of a log begin."""
    return [int(path.stem) for path in segments(cluster, broker_id, topic)]


def test_cannot_delete_segments_at_or_above_high_watermark() -> None:
    """Retention deletes no record that is not committed, however small the log is to be (KAFKA-5634)."""
    broker = replace(FAST_BROKER, log_retention_check_interval_ms=CHECK_MS, replica_lag_time_max_ms=600_000)
    cluster = Cluster(1, puppets=(PUPPET,), broker=broker)
    puppet = Puppet(cluster, PUPPET)
    topic = cluster.create("topic", (1, PUPPET), retention_bytes="1")
    for _ in range(40):
        cluster.produce(topic, LARGE, acks=1)
    before = starts(cluster, 1, topic)
    log = cluster.replica(1, topic).log
    assert len(before) > 3
    cluster.pass_ms(3 * CHECK_MS)
    assert (starts(cluster, 1, topic), log.log_start_offset) == (before, 0)

    inside = before[2] + 1
    for high_watermark, first in ((inside, before[2]), (before[3], before[3]), (40, before[-1])):
        puppet.fetch(topic, high_watermark)
        cluster.pass_ms(3 * CHECK_MS)
        assert cluster.replica(1, topic).high_watermark == high_watermark
        assert (log.log_start_offset, starts(cluster, 1, topic)[0]) == (first, first)


def test_should_truncate_leader_epochs_when_deleting_segments() -> None:
    """Epochs whose records are all in deleted segments are forgotten; the one at the new start begins there."""
    cluster = Cluster(1, broker=replace(FAST_BROKER, log_retention_check_interval_ms=CHECK_MS))
    topic = cluster.create("topic", (1,), retention_bytes="4000")
    begun = [cluster.cache(1, topic)[-1]]
    for _ in range(2):
        for _ in range(10):
            cluster.produce(topic, LARGE)
        cluster.bounce(1)
        begun.append(cluster.cache(1, topic)[-1])
    for _ in range(10):
        cluster.produce(topic, LARGE)
    assert [start for _, start in begun] == [0, 10, 20]
    cluster.pass_ms(3 * CHECK_MS)

    first = starts(cluster, 1, topic)[0]
    assert 10 < first < 20
    assert cluster.cache(1, topic) == [(begun[1][0], first), begun[2]]


def two_replicas() -> tuple[Cluster, TopicPartition]:
    """A partition of 1 and 2 with 30 records, in several segments on both."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for _ in range(30):
        cluster.produce(topic, LARGE)
    cluster.wait_for_same_logs(topic, 1, 2)
    assert min(len(starts(cluster, 1, topic)), len(starts(cluster, 2, topic))) > 3
    return cluster, topic


def test_hw_checkpoint_no_failures_multiple_log_segments() -> None:
    """The stored high watermark is that of the whole log, of which segment ever it lies in."""
    cluster, topic = two_replicas()
    cluster.stop(2)
    cluster.produce(topic, LARGE)
    cluster.stop(1)
    assert (checkpoint(cluster, 2, HIGH_WATERMARKS)[topic], checkpoint(cluster, 1, HIGH_WATERMARKS)[topic]) == (30, 31)


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
