"""Logs that have parted come together again on a whole cluster: Kafka's fetcher scenarios, with real leaders."""

from __future__ import annotations

import pytest

from replica.core.config import ControllerConfig
from replica.errors import ErrorCode
from replica.ids import EpochEndOffset, TopicPartition
from replica.records import encode_batch, parse_batches
from tests.replication.bench import Cluster
from tests.replication.stage import FAST_CONTROLLER, Overhearing
from tests.replication.tampering import cut_log, log_bytes, write_batches, write_log

WITHOUT_ELR = ControllerConfig(broker_session_timeout_ms=1500, auto_leader_rebalance_enable=False, elr_enable=False)
Written = tuple[tuple[int, int], ...]


def parted(follower: Written, leader: Written) -> tuple[Cluster, TopicPartition, Overhearing]:
    """Broker 1 leads in an epoch above 5 and 2 is about to follow it, with these logs."""
    overhearing = Overhearing()
    cluster = Cluster(3, controller=WITHOUT_ELR, observers=(overhearing,), is_judged=False)
    topic = cluster.create("topic", (1, 2))
    for _ in range(3):
        cluster.bounce(1)
        cluster.wait_for_isr(topic, 1, 2)
        cluster.bounce(2)
        cluster.wait_for_isr(topic, 1, 2)
    cluster.stop(2)
    cluster.wait_for_isr(topic, 1)
    cluster.stop(1)
    write_log(cluster, 1, topic, *leader)
    write_log(cluster, 2, topic, *follower)
    overhearing.fetched.clear()
    cluster.start(1)
    assert cluster.leader(topic) == 1
    cluster.start(2)
    cluster.wait_for_isr(topic, 1, 2)
    cluster.wait_for_same_logs(topic, 1, 2)
    return cluster, topic, overhearing


def divergences(overhearing: Overhearing, topic: TopicPartition) -> list[EpochEndOffset]:
    """Where the leader said that the logs part, in order."""
    told = overhearing.told(2, topic)
    return [part.diverging_epoch for part in told if part.diverging_epoch is not None]


@pytest.mark.parametrize(
    ("follower", "leader", "rounds"),
    [
        pytest.param(((0, 1), (2, 4)), ((0, 1), (1, 4), (3, 1)), 1, id="several_rounds"),
        pytest.param(((1, 4),), ((1, 2),), 1, id="lost_tail"),
        pytest.param(((1, 2),), ((1, 4),), 0, id="short_of_the_leader"),
    ],
)
def test_parted_logs_converge(follower: Written, leader: Written, rounds: int) -> None:
    """After as many rounds as it takes the follower has the leader's log, byte for byte, and its epochs."""
    assert_converges(follower, leader, rounds)


def test_truncation() -> None:
    """Where no epoch is in both logs the follower gives up one after the other, and has the leader's in the end."""
    assert_converges(((0, 1), (2, 1), (4, 1)), ((1, 1), (3, 1), (5, 1)), 3)


def test_diverging_epochs() -> None:
    """Where only the last epochs differ one answer says so, and the rest of both logs is kept."""
    assert_converges(((0, 1), (2, 1), (4, 1)), ((0, 1), (2, 1), (5, 1)), 1)


def assert_converges(follower: Written, leader: Written, rounds: int) -> None:
    """The follower is told so often where the logs part, and then both have the leader's."""
    cluster, topic, overhearing = parted(follower, leader)
    assert [(batch.leader_epoch, batch.base_offset) for batch in cluster.batches(2, topic)] == [
        (epoch, offset) for offset, epoch in enumerate(epoch for epoch, count in leader for _ in range(count))
    ]
    assert len(divergences(overhearing, topic)) == rounds
    cluster.produce(topic, b"last")
    cluster.wait_for_same_logs(topic, 1, 2)
    assert cluster.cache(1, topic) == cluster.cache(2, topic)


def test_become_follower_when_leader_is_unchanged_but_missed_leader_update() -> None:
    """A follower that missed in which epochs others led compares its log anew, although its leader is the same.

    (KAFKA-7164.) Meanwhile it was fenced, and stopped by its leader's epoch.
    """
    overhearing = Overhearing()
    cluster = Cluster(5, controller=WITHOUT_ELR, observers=(overhearing,), is_judged=False)
    controller = cluster.controller_id
    leader, follower = [broker for broker in (1, 2, 3) if broker != controller][:2]
    topic = cluster.create("topic", (leader, follower))
    for number in range(4):
        cluster.produce(topic, b"%d" % number)
    cluster.wait_for_same_logs(topic, leader, follower)
    cluster.world.network.cut(1, frozenset({(controller, follower), (follower, controller)}))
    cluster.wait_for_isr(topic, leader)
    cluster.kill(leader)
    cut_log(cluster, leader, topic, len(log_bytes(cluster, leader, topic)) // 2)
    cluster.pass_ms(3 * FAST_CONTROLLER.broker_session_timeout_ms)
    cluster.start(leader)
    assert cluster.leader(topic) == leader
    cluster.produce(topic, b"again")
    cluster.pass_ms(500)
    assert cluster.replica(follower, topic).leader_epoch == 0
    assert cluster.replica(follower, topic).log.log_end_offset == 4
    assert overhearing.told(follower, topic)[-1].error is ErrorCode.FENCED_LEADER_EPOCH

    cluster.world.network.heal(1)

    cluster.wait_for_isr(topic, leader, follower)
    cluster.wait_for_same_logs(topic, leader, follower)
    assert cluster.values(topic) == [b"0", b"1", b"again"]


def test_epoch_that_ends_inside_a_followers_batch() -> None:
    """What no honest logs can come to: the follower drops the whole batch, fetches the leader's, and nobody halts."""
    cluster = Cluster(3, controller=WITHOUT_ELR, is_judged=False)
    controller = cluster.controller_id
    leader, follower = [broker for broker in (1, 2, 3) if broker != controller][:2]
    topic = cluster.create("topic", (leader, follower))
    cluster.produce(topic, b"a", b"b")
    cluster.produce(topic, b"c", b"d")
    cluster.wait_for_same_logs(topic, leader, follower)
    cluster.stop(follower)
    cluster.wait_for_isr(topic, leader)
    cluster.stop(leader)
    shared, lost = parse_batches(log_bytes(cluster, leader, topic))
    other = encode_batch([b"c"], base_offset=lost.base_offset, leader_epoch=lost.leader_epoch)
    write_batches(cluster, leader, topic, shared, other)
    cluster.start(leader)
    assert cluster.leader(topic) == leader
    cluster.start(follower)

    cluster.wait_for_isr(topic, leader, follower)
    cluster.produce(topic, b"e")
    cluster.wait_for_same_logs(topic, leader, follower)
    assert cluster.values(topic) == [b"a", b"b", b"c", b"e"]
    assert cluster.node(follower).incarnation == 2
