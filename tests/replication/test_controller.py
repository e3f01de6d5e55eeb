"""The controller by requests, as a leader that proposes what it likes: Kafka's ReplicationControlManagerTest.

Puppet 9 leads a partition whose other replicas are puppet 8 and broker 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.metadata.records import LeaderRecoveryState
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet
from tests.replication.stage import FAST_CONTROLLER

WITHOUT_ELR = dataclasses.replace(FAST_CONTROLLER, elr_enable=False)
LEADER, OTHER = 9, 8


def staged(config: ControllerConfig = FAST_CONTROLLER) -> tuple[Cluster, TopicPartition, Puppet, Puppet]:
    """The partition, its leader, and the other puppet."""
    cluster = Cluster(1, puppets=(OTHER, LEADER), controller=config)
    other, leader = Puppet(cluster, OTHER), Puppet(cluster, LEADER)
    topic = cluster.create("topic", (LEADER, OTHER, 1))
    return cluster, topic, leader, other


def shape(cluster: Cluster, topic: TopicPartition) -> tuple[int | None, tuple[int, ...], int, int]:
    """Leader, ISR, leader epoch and partition epoch."""
    found = cluster.registration(topic)
    return found.leader_id, found.isr, found.leader_epoch, found.partition_epoch


Change = Callable[[m.AlterPartition], m.AlterPartition]

INVALID: list[tuple[str, Change, ErrorCode]] = [
    ("topic", lambda p: replace(p, topic_id=TopicId(99)), ErrorCode.UNKNOWN_TOPIC_ID),
    ("partition", lambda p: replace(p, partition=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("newer_leader_epoch", lambda p: replace(p, leader_epoch=Epoch(2)), ErrorCode.NOT_CONTROLLER),
    ("newer_partition_epoch", lambda p: replace(p, partition_epoch=PartitionEpoch(9)), ErrorCode.NOT_CONTROLLER),
    ("older_leader_epoch", lambda p: replace(p, leader_epoch=Epoch(0)), ErrorCode.FENCED_LEADER_EPOCH),
    (
        "older_partition_epoch",
        lambda p: replace(p, partition_epoch=PartitionEpoch(1)),
        ErrorCode.INVALID_UPDATE_VERSION,
    ),
    (
        "not_a_replica",
        lambda p: replace(p, new_isr=(*p.new_isr, m.IsrMember(broker_id=ReplicaId(7)))),
        ErrorCode.INVALID_REQUEST,
    ),
    ("not_a_set", lambda p: replace(p, new_isr=(*p.new_isr, p.new_isr[0])), ErrorCode.INVALID_REQUEST),
    ("without_the_leader", lambda p: replace(p, new_isr=p.new_isr[1:]), ErrorCode.INVALID_REQUEST),
    (
        "recovers_again",
        lambda p: replace(p, leader_recovery_state=LeaderRecoveryState.RECOVERING),
        ErrorCode.INVALID_REQUEST,
    ),
]


def led_by_other() -> tuple[Cluster, TopicPartition, Puppet, Puppet]:
    """The same after a change of leaders, so that there are older epochs: 8 leads in epoch 1."""
    cluster, topic, former, leader = staged()
    former.fall_silent()
    former.come_back("second")
    assert leader.propose(leader.proposal(topic, OTHER, 1, LEADER)).error is ErrorCode.NONE
    assert shape(cluster, topic) == (OTHER, (LEADER, OTHER, 1), 1, 2)
    return cluster, topic, leader, former


@pytest.mark.parametrize(("change", "error"), [pytest.param(change, error, id=name) for name, change, error in INVALID])
def test_invalid_alter_partition_requests(change: Change, error: ErrorCode) -> None:
    """Each mistake of a proposal has its error, and none changes anything."""
    cluster, topic, leader, _ = led_by_other()
    before = shape(cluster, topic)
    assert leader.propose(change(leader.proposal(topic, OTHER, 1))).error is error
    assert shape(cluster, topic) == before


def test_alter_partition_of_another_broker() -> None:
    """Who does not lead proposes nothing, and neither does an incarnation that has been replaced."""
    cluster, topic, leader, former = led_by_other()
    before = shape(cluster, topic)
    assert former.propose(former.proposal(topic, OTHER, 1)).error is ErrorCode.INVALID_REQUEST
    stale = leader.propose_all(leader.proposal(topic, OTHER, 1), broker_epoch=BrokerEpoch(0))
    assert (stale.error, stale.partitions) == (ErrorCode.STALE_BROKER_EPOCH, ())
    assert shape(cluster, topic) == before


def test_shrink_and_expand_isr() -> None:
    """Each change raises the partition epoch by one and leaves the leader epoch; a proposal counts once."""
    cluster, topic, leader, _ = staged()
    shrink = leader.proposal(topic, LEADER, 1)
    answer = leader.propose(shrink)
    assert (answer.error, answer.isr, answer.partition_epoch, answer.leader_epoch) == (
        ErrorCode.NONE,
        (LEADER, 1),
        1,
        0,
    )
    assert shape(cluster, topic) == (LEADER, (LEADER, 1), 0, 1)
    assert leader.propose(shrink).error is ErrorCode.INVALID_UPDATE_VERSION
    assert leader.propose(leader.proposal(topic, LEADER, OTHER, 1)).error is ErrorCode.NONE
    assert shape(cluster, topic) == (LEADER, (LEADER, OTHER, 1), 0, 2)


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param(Puppet.fall_silent, id="test_alter_partition_should_reject_fenced_brokers"),
        pytest.param(Puppet.shut_down, id="test_alter_partition_should_reject_shutting_down_brokers"),
    ],
)
def test_alter_partition_should_reject_brokers_that_are_not_active(leaves: Callable[[Puppet], None]) -> None:
    """A broker that is dead or leaving does not get into an ISR."""
    cluster, topic, leader, other = staged()
    leaves(other)
    cluster.wait_for_isr(topic, LEADER, 1)
    assert leader.propose(leader.proposal(topic, LEADER, OTHER, 1)).error is ErrorCode.INELIGIBLE_REPLICA
    assert cluster.registration(topic).isr == (LEADER, 1)


def test_alter_partition_should_reject_brokers_with_stale_epoch() -> None:
    """An incarnation that has been replaced does not get into an ISR: the next one may lack what it had (KIP-903)."""
    cluster, topic, leader, other = staged()
    other.fall_silent()
    before = leader.proposal(topic, LEADER, OTHER, 1)
    other.come_back("second")
    cluster.pass_ms(50)
    assert leader.propose(before).error is ErrorCode.INELIGIBLE_REPLICA
    assert leader.propose(leader.proposal(topic, LEADER, OTHER, 1)).error is ErrorCode.NONE


def test_remove_leaderships() -> None:
    """A leader that falls silent leads no more: the next replica in order that is in sync does."""
    cluster, topic, leader, _ = staged()
    leader.fall_silent()
    assert shape(cluster, topic) == (OTHER, (OTHER, 1), 1, 1)


def test_fence_multiple_brokers() -> None:
    """One after the other leaves the ISR; the last member stays in it (without ELR), and nobody leads."""
    cluster = Cluster(1, puppets=(OTHER, LEADER), controller=WITHOUT_ELR)
    other, leader = Puppet(cluster, OTHER), Puppet(cluster, LEADER)
    topic = cluster.create("topic", (LEADER, OTHER))
    leader.silent = other.silent = True
    leader.fall_silent()
    other.fall_silent()
    leader_id, isr, leader_epoch, _ = shape(cluster, topic)
    assert (leader_id, len(isr)) == (None, 1)
    assert leader_epoch in {1, 2}

    last = leader if isr == (LEADER,) else other
    last.come_back("second")
    cluster.pass_ms(50)
    assert shape(cluster, topic)[:3] == (last.broker_id, isr, leader_epoch + 1)


def test_process_expired_broker_heartbeat() -> None:
    """A session ends when nothing was heard for its whole length, and not before."""
    cluster, topic, _, other = staged()
    other.silent = True
    cluster.pass_ms(FAST_CONTROLLER.broker_session_timeout_ms - 300)
    assert cluster.registration(topic).isr == (LEADER, OTHER, 1)
    cluster.pass_ms(600)
    assert cluster.registration(topic).isr == (LEADER, 1)
    assert cluster.image.brokers[other.broker_id].fenced


def test_topic_unclean_leader_election_enable_with_alter_topic_configs() -> None:
    """Allowing unclean elections moves no leader that lives; a partition without one gets one, in time."""
    cluster = Cluster(
        1,
        puppets=(OTHER, LEADER),
        controller=dataclasses.replace(WITHOUT_ELR, unclean_leader_election_interval_ms=1000),
    )
    other, leader = Puppet(cluster, OTHER), Puppet(cluster, LEADER)
    living, orphan = cluster.create("living", (OTHER, LEADER)), cluster.create("orphan", (LEADER, OTHER))
    assert leader.propose(leader.proposal(orphan, LEADER)).error is ErrorCode.NONE
    leader.fall_silent()
    assert shape(cluster, orphan)[:2] == (None, (LEADER,))
    before = shape(cluster, living)

    for name in ("living", "orphan"):
        request = m.AlterTopicRequest(name=name, configs={"unclean.leader.election.enable": "true"})
        assert cluster.ask(1, request, m.AlterTopicResponse).error is ErrorCode.NONE
    cluster.pass_ms(1500)

    assert shape(cluster, living) == before
    assert shape(cluster, orphan)[:2] == (OTHER, (OTHER,))
    assert cluster.registration(orphan).leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert other.propose(other.proposal(orphan, OTHER)).error is ErrorCode.NONE
    assert cluster.registration(orphan).leader_recovery_state is LeaderRecoveryState.RECOVERED
