"""Kafka's EpochDrivenReplicationProtocolAcceptanceTest, on a whole cluster: leader epochs keep logs the same."""

from __future__ import annotations

from itertools import pairwise

from replica.core.config import ControllerConfig
from replica.records import decode_records
from tests.replication.bench import Cluster
from tests.replication.tampering import cut_log, log_bytes

WITHOUT_ELR = ControllerConfig(
    broker_session_timeout_ms=1500, auto_leader_rebalance_enable=False, elr_enable=False, min_insync_replicas=1
)
"""The last in-sync replica keeps its place whatever it has lost, as in Kafka before KIP-966."""


def test_should_follow_leader_epoch_basic_workflow() -> None:
    """A leader's cache has its epoch before it has written in it; a follower's has it with the first record."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2)
    assert [batch.leader_epoch for batch in cluster.batches(1, topic)] == [0]
    assert cluster.cache(1, topic) == cluster.cache(2, topic) == [(0, 0)]

    cluster.stop(1)
    assert cluster.leader(topic) == 2
    assert cluster.cache(2, topic) == [(0, 0), (1, 1)]
    cluster.start(1)
    cluster.wait_for_isr(topic, 1, 2)
    assert cluster.cache(1, topic) == [(0, 0)]

    cluster.produce(topic, b"b")
    cluster.wait_for_same_logs(topic, 1, 2)
    assert cluster.cache(1, topic) == cluster.cache(2, topic) == [(0, 0), (1, 1)]

    cluster.stop(2)
    assert cluster.leader(topic) == 1
    assert cluster.cache(1, topic) == [(0, 0), (1, 1), (2, 2)]
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)
    assert cluster.cache(2, topic) == [(0, 0), (1, 1)]
    cluster.produce(topic, b"c")
    cluster.wait_for_same_logs(topic, 1, 2)
    assert cluster.cache(1, topic) == cluster.cache(2, topic) == [(0, 0), (1, 1), (2, 2)]


def test_should_survive_fast_leader_change() -> None:
    """Whoever is bounced, and in whatever order, each record that was sent is in both logs, once."""
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"0")
    for turn in range(1, 6):
        cluster.produce(topic, b"%d" % turn)
        leader = cluster.leader(topic)
        follower = 3 - leader
        cluster.bounce(follower)
        cluster.wait_for_isr(topic, 1, 2)
        cluster.bounce(leader)
        cluster.wait_for_isr(topic, 1, 2)
        cluster.wait_for_same_logs(topic, 1, 2)
        assert cluster.replica(1, topic).log.log_end_offset == turn + 1
    assert cluster.values(topic) == [b"%d" % number for number in range(6)]


def test_should_not_allow_divergent_logs() -> None:
    """A leader that lost its tail writes on; the follower that still has the tail gives it up for what was written."""
    cluster = Cluster(3, controller=WITHOUT_ELR, is_judged=False)
    topic = cluster.create("topic", (1, 2))
    for number in range(10):
        cluster.produce(topic, b"%d" % number)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.stop(2)
    cluster.wait_for_isr(topic, 1)
    cluster.stop(1)
    size = len(log_bytes(cluster, 1, topic))
    cut_log(cluster, 1, topic, size - 5 * size // 10)

    cluster.start(1)
    assert cluster.leader(topic) == 1
    assert cluster.replica(1, topic).log.log_end_offset == 5
    for number in range(9):
        cluster.produce(topic, b"again %d" % number)
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)

    cluster.wait_for_same_logs(topic, 1, 2)
    assert cluster.values(topic) == [b"%d" % n for n in range(5)] + [b"again %d" % n for n in range(9)]
    cluster.stop(2)
    cluster.stop(1)
    assert log_bytes(cluster, 1, topic) == log_bytes(cluster, 2, topic)


def test_offsets_should_not_go_backwards() -> None:
    """Large batches over a lost tail do not make offsets overlap on the follower (before KIP-101 they did)."""
    cluster = Cluster(3, controller=WITHOUT_ELR, is_judged=False)
    topic = cluster.create("topic", (1, 2))
    for number in range(100):
        cluster.produce(topic, b"%d" % number)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.stop(2)
    cluster.wait_for_isr(topic, 1)
    cluster.stop(1)
    cut_log(cluster, 1, topic, len(log_bytes(cluster, 1, topic)) // 2)

    cluster.start(1)
    assert cluster.leader(topic) == 1
    for batch in range(2):
        cluster.produce(topic, *[b"%d" % (77 * batch + number) for number in range(77)])
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.stop(1)

    assert cluster.leader(topic) == 2
    offsets = [record.offset for batch in cluster.batches(2, topic) for record in decode_records(batch)]
    assert offsets == list(range(50 + 2 * 77))
    assert all(before.end_offset == after.base_offset for before, after in pairwise(cluster.batches(2, topic)))
    assert len(log_bytes(cluster, 1, topic)) == len(log_bytes(cluster, 2, topic))
