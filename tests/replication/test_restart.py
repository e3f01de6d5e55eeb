"""What a restart finds and makes of it: Kafka's LogRecoveryTest and LogLoaderTest, on a whole cluster."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from nemesis.simulator.disk import DATA
from replica.core.config import ControllerConfig
from replica.ids import Epoch, EpochEntry, Offset, TopicPartition
from replica.records import parse_batches
from replica.storage.checkpoints import write_epochs
from tests.depth import seeds
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_BROKER
from tests.replication.tampering import (
    EPOCHS,
    HIGH_WATERMARKS,
    checkpoint,
    cut_log,
    files_of,
    forget,
    log_bytes,
    segments,
    write_log,
)

WITHOUT_ELR = ControllerConfig(broker_session_timeout_ms=1500, auto_leader_rebalance_enable=False, elr_enable=False)
"""A broker that was alone in the ISR leads again, whatever it has lost."""
PUPPET = 9
CHECKPOINT_MS = 5500
"""Long enough for high watermarks to be stored."""


def test_hw_checkpoint_no_failures_single_log_segment() -> None:
    """After a clean stop each replica has stored what was committed."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for number in range(20):
        cluster.produce(topic, b"%d" % number)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.stop(2)
    cluster.produce(topic, b"alone")
    cluster.stop(1)

    assert checkpoint(cluster, 2, HIGH_WATERMARKS)[topic] == 20
    assert checkpoint(cluster, 1, HIGH_WATERMARKS)[topic] == 21


def test_checkpoint_hw_on_shutdown() -> None:
    """A broker that leaves stores its high watermarks as they are then, though they were stored just now."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1,))
    cluster.pass_ms(CHECKPOINT_MS)
    before = checkpoint(cluster, 1, HIGH_WATERMARKS)[topic]
    cluster.produce(topic, b"v")
    assert before == checkpoint(cluster, 1, HIGH_WATERMARKS)[topic] == 0
    cluster.stop(1)
    assert checkpoint(cluster, 1, HIGH_WATERMARKS)[topic] == 1


def test_hw_checkpoint_with_failures_single_log_segment() -> None:
    """High watermarks survive the death of leaders, and are stored again by whoever leads next."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"0")
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.pass_ms(CHECKPOINT_MS)
    cluster.kill(1)
    assert checkpoint(cluster, 1, HIGH_WATERMARKS)[topic] == 1
    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 leads")
    for number in range(1, 30):
        cluster.produce(topic, b"%d" % number)
    cluster.start(1)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.pass_ms(CHECKPOINT_MS)
    cluster.kill(2)
    assert checkpoint(cluster, 2, HIGH_WATERMARKS)[topic] == 30

    cluster.wait(lambda: cluster.registration(topic).leader_id == 1, "1 leads")
    assert len(cluster.values(topic)) == 30


def test_high_watermark_persistence_single_partition() -> None:
    """What is stored of a high watermark comes after it, at an interval, and is never above it."""
    cluster = Cluster(1, puppets=(PUPPET,), broker=replace(FAST_BROKER, replica_lag_time_max_ms=60_000))
    puppet = Puppet(cluster, PUPPET)
    topic = cluster.create("topic", (1, PUPPET))
    for _ in range(5):
        cluster.produce(topic, b"v", acks=1)
    stored = [checkpoint(cluster, 1, HIGH_WATERMARKS).get(topic, 0)]
    for high_watermark in (0, 3, 5):
        if high_watermark:
            puppet.fetch(topic, high_watermark)
        stored.append(checkpoint(cluster, 1, HIGH_WATERMARKS).get(topic, 0))
        cluster.pass_ms(CHECKPOINT_MS)
        stored.append(checkpoint(cluster, 1, HIGH_WATERMARKS)[topic])
    assert stored == [0, 0, 0, 0, 3, 3, 5]


@pytest.mark.parametrize("seed", seeds(3))
def test_corrupt_log(seed: int) -> None:
    """Whatever became of the unflushed end of a log, its replica keeps a valid part and fetches the rest again."""
    cluster = Cluster(3, is_judged=False)
    topic = cluster.create("topic", (1, 2))
    for number in range(60):
        cluster.produce(topic, b"%d" % number)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.kill(2)
    random = Random(seed)
    path = random.choice(segments(cluster, 2, topic))
    content = files_of(cluster, 2).content(path)
    position = random.randrange(len(content))
    files_of(cluster, 2).overwrite(path, content[:position] + random.randbytes(random.randint(1, 50)))
    forget(cluster, 2, topic)
    cluster.produce(topic, b"60")
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)

    assert cluster.values(topic, at=2) == [b"%d" % number for number in range(61)]


def test_log_recovers_to_correct_offset() -> None:
    """A log that was flushed is whole after any death of its process, whatever its checkpoints missed."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    for number in range(60):
        cluster.produce(topic, b"%d" % number)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.lose_power(1)
    cluster.start(1)
    cluster.wait_for_isr(topic, 1, 2)
    assert cluster.values(topic, at=1) == [b"%d" % number for number in range(60)]


def alone(records: int) -> tuple[Cluster, TopicPartition]:
    """Broker 1 is the only replica of a partition; others keep the metadata."""
    cluster = Cluster(3, controller=WITHOUT_ELR, is_judged=False)
    topic = cluster.create("topic", (1,))
    for number in range(records):
        cluster.produce(topic, b"%d" % number)
    return cluster, topic


def test_log_recovers_for_leader_epoch() -> None:
    """Epochs that are missing in the file are found again in the batches."""
    cluster, topic = alone(0)
    for _ in range(4):
        cluster.bounce(1)
    cluster.stop(1)
    write_log(cluster, 1, topic, (1, 1), (2, 2), (3, 1))
    write_epochs(files_of(cluster, 1), DATA / str(topic) / EPOCHS, [EpochEntry(Epoch(1), Offset(0))])
    cluster.start(1)
    assert cluster.leader(topic) == 1
    assert cluster.cache(1, topic)[:3] == [(1, 0), (2, 1), (3, 3)]
    assert cluster.cache(1, topic)[3][1] == 4


def test_log_end_less_than_start_after_reopen() -> None:
    """A log that ends below where it begins is emptied, and begins where it did: nothing that is deleted comes back."""
    cluster, topic = alone(5)
    assert cluster.delete_records(topic, 4).low_watermark == 4
    cluster.stop(1)
    cut_log(cluster, 1, topic, len(log_bytes(cluster, 1, topic)) * 2 // 5)
    cluster.start(1)
    assert cluster.leader(topic) == 1
    log = cluster.replica(1, topic).log
    assert (log.log_start_offset, log.log_end_offset, cluster.replica(1, topic).high_watermark) == (4, 4, 4)
    assert cluster.produce(topic, b"next") == 4
    assert [batch.base_offset for batch in parse_batches(cluster.fetch(topic, 4).records)] == [4]
