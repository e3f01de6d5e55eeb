"""AlterPartition: each rule in turn with its error, in their order. Names as in Kafka."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.metadata.records import LeaderRecoveryState, PartitionRecord
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, PartitionEpoch, ReplicaId, TopicId
from tests.core.controller.bench import CLUSTER, CONFIG, TOPIC, WITHOUT_ELR, Bench

BOTH_WAYS = pytest.mark.parametrize("config", [CONFIG, WITHOUT_ELR], ids=["with_elr", "without_elr"])
RECOVERING = LeaderRecoveryState.RECOVERING


def led_by_one(config: ControllerConfig = CONFIG) -> Bench:
    """Replicas 1, 2 and 3 in sync under leader 1, in leader epoch 2 and partition epoch 2; broker 4 is none of them."""
    bench = Bench(config)
    bench.start(1, 2, 3, 4)
    bench.create((1, 2, 3))
    bench.silence(1)
    bench.come_back(1)
    assert bench.partition().leader_id == 2
    bench.alter_isr(1, 2, 3)
    assert bench.elect(m.ElectionType.PREFERRED) is ErrorCode.NONE
    found = bench.partition()
    assert (found.leader_id, found.isr, found.leader_epoch, found.partition_epoch) == (1, (1, 2, 3), 2, 3)
    return bench


def shifted(proposal: m.AlterPartition, *, leader: int = 0, partition: int = 0) -> m.AlterPartition:
    """A proposal in other epochs."""
    return replace(
        proposal,
        leader_epoch=Epoch(proposal.leader_epoch + leader),
        partition_epoch=PartitionEpoch(proposal.partition_epoch + partition),
    )


def members(proposal: m.AlterPartition, *isr: int) -> m.AlterPartition:
    """A proposal of other members."""
    return replace(proposal, new_isr=tuple(m.IsrMember(broker_id=ReplicaId(replica)) for replica in isr))


# Each row breaks its own rule and every later one that it can, so that the order shows.
FAULTS = [
    pytest.param(
        1, lambda p: replace(members(shifted(p, leader=1), 9), topic_id=TopicId(999)), "UNKNOWN_TOPIC_ID", id="topic"
    ),
    pytest.param(1, lambda p: replace(shifted(p, leader=1), partition=7), "UNKNOWN_TOPIC_OR_PARTITION", id="partition"),
    pytest.param(
        2, lambda p: members(shifted(p, leader=1, partition=-1), 9), "NOT_CONTROLLER", id="newer_leader_epoch"
    ),
    pytest.param(
        2, lambda p: members(shifted(p, leader=-1, partition=1), 9), "NOT_CONTROLLER", id="newer_partition_epoch"
    ),
    pytest.param(
        2, lambda p: members(shifted(p, leader=-1, partition=-1), 9), "FENCED_LEADER_EPOCH", id="older_leader_epoch"
    ),
    pytest.param(2, lambda p: shifted(p, partition=-1), "INVALID_REQUEST", id="not_the_leader"),
    pytest.param(
        1, lambda p: members(shifted(p, partition=-1), 9), "INVALID_UPDATE_VERSION", id="older_partition_epoch"
    ),
    pytest.param(1, lambda p: members(p, 1, 4), "INVALID_REQUEST", id="not_a_replica"),
    pytest.param(1, lambda p: members(p, 1, 2, 2), "INVALID_REQUEST", id="not_a_set"),
    pytest.param(1, lambda p: members(p, 2, 3), "INVALID_REQUEST", id="without_the_leader"),
    pytest.param(1, members, "INVALID_REQUEST", id="nobody"),
    pytest.param(
        1, lambda p: replace(p, leader_recovery_state=RECOVERING), "INVALID_REQUEST", id="recovering_and_not_alone"
    ),
    pytest.param(
        1,
        lambda p: replace(members(p, 1), leader_recovery_state=RECOVERING),
        "INVALID_REQUEST",
        id="begins_to_recover_by_itself",
    ),
]


@BOTH_WAYS
@pytest.mark.parametrize(("sender", "fault", "error"), FAULTS)
def test_invalid_alter_partition_requests(config: ControllerConfig, sender: int, fault: object, error: str) -> None:
    """Each rule refuses with its own error before any later one is looked at, and nothing is written."""
    bench = led_by_one(config)
    assert callable(fault)
    altered = bench.propose(fault(bench.proposal(1, 2)), sender=sender)
    assert (altered.error, altered.isr, altered.leader_id) == (ErrorCode(error), (), None)
    assert bench.records == ()


@pytest.mark.parametrize(
    ("isr", "state"),
    [((1, 2, 2, 3), "RECOVERED"), ((2, 3), "RECOVERED"), ((1, 3), "RECOVERING")],
    ids=["not_a_set", "without_the_leader", "recovering_and_not_alone"],
)
def test_what_can_be_no_isr_is_refused_before_its_members_are_looked_at(isr: tuple[int, ...], state: str) -> None:
    """A leader that asks for nonsense is told so, and not that one of the members is not eligible just now."""
    bench = led_by_one()
    bench.heartbeat(3, want_shut_down=True)
    proposal = replace(members(bench.proposal(1, 2), *isr), leader_recovery_state=LeaderRecoveryState(state))
    assert bench.propose(proposal).error is ErrorCode.INVALID_REQUEST
    assert bench.propose(bench.proposal(1, 2, 3)).error is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize(("broker_id", "epoch_shift"), [(1, -1), (1, 1), (9, 0)])
def test_stale_broker_epoch(broker_id: int, epoch_shift: int) -> None:
    """A request of another incarnation, or of nobody, is refused as a whole before anything in it is looked at."""
    bench = led_by_one()
    request = m.AlterPartitionRequest(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(bench.epoch_of(1) + epoch_shift),
        incarnation_id=bench.incarnation_of(broker_id),
        cluster_id=CLUSTER,
        partitions=(bench.proposal(1, 2),),
    )
    response = bench.ask(request, m.AlterPartitionResponse)
    assert response == m.AlterPartitionResponse(error=ErrorCode.STALE_BROKER_EPOCH)
    assert bench.records == ()


@BOTH_WAYS
def test_shrink_and_expand_isr(config: ControllerConfig) -> None:
    """Each change bumps the partition epoch by one, the leader epoch not at all, and the answer says what stands."""
    bench = led_by_one(config)
    stale = bench.proposal(1, 2)
    for epoch, isr in ((4, (1, 2)), (5, (1,)), (6, (1, 3)), (7, (1, 2, 3))):
        altered = bench.propose(bench.proposal(*isr))
        assert (altered.error, altered.isr, altered.partition_epoch) == (ErrorCode.NONE, isr, epoch)
        assert (altered.leader_id, altered.leader_epoch) == (1, 2)
        assert [type(record) for record in bench.records] == [PartitionRecord]
    assert bench.propose(stale).error is ErrorCode.INVALID_UPDATE_VERSION


def test_same_isr_again() -> None:
    """A proposal of what stands already counts as a change: earlier ones that are still on their way are refused."""
    bench = led_by_one()
    late = bench.proposal(1, 2)
    altered = bench.propose(bench.proposal(3, 2, 1))
    assert (altered.error, altered.isr, altered.partition_epoch) == (ErrorCode.NONE, (1, 2, 3), 4)
    assert bench.propose(late).error is ErrorCode.INVALID_UPDATE_VERSION


@BOTH_WAYS
def test_alter_partition_should_reject_fenced_brokers(config: ControllerConfig) -> None:
    """Nobody is let in while it is fenced, and it is as soon as it is not."""
    bench = led_by_one(config)
    bench.silence(3)
    bench.register(3, "second", previous_broker_epoch=bench.epoch_of(3))
    assert bench.propose(bench.proposal(1, 2, 3)).error is ErrorCode.INELIGIBLE_REPLICA
    bench.heartbeat(3)
    assert bench.propose(bench.proposal(1, 2, 3)).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch_shift", "error"), [(-1, "INELIGIBLE_REPLICA"), (1, "INELIGIBLE_REPLICA"), (0, "NONE"), (None, "NONE")]
)
def test_alter_partition_should_reject_brokers_with_stale_epoch(epoch_shift: int | None, error: str) -> None:
    """A member that has restarted since the leader saw it fetch is refused; a leader that cannot tell is believed."""
    bench = led_by_one()
    bench.alter_isr(1, 2)
    epoch = None if epoch_shift is None else BrokerEpoch(bench.epoch_of(3) + epoch_shift)
    proposal = bench.proposal(1, 2)
    joined = replace(proposal, new_isr=(*proposal.new_isr, m.IsrMember(broker_id=ReplicaId(3), broker_epoch=epoch)))
    assert bench.propose(joined).error is ErrorCode(error)


def test_alter_partition_should_reject_shutting_down_brokers() -> None:
    """A broker that wants to stop is not let in again."""
    bench = led_by_one()
    bench.heartbeat(3, want_shut_down=True)
    assert bench.propose(bench.proposal(1, 2, 3)).error is ErrorCode.INELIGIBLE_REPLICA


def test_alter_partition_should_reject_unregistered_brokers() -> None:
    """A replica that has never registered is in no ISR."""
    bench = Bench()
    bench.start(1)
    bench.create((1,))
    bench.committed = replace(
        bench.committed,
        topics={
            TOPIC: replace(
                bench.committed.topics[TOPIC],
                partitions={0: replace(bench.partition(), replicas=(ReplicaId(1), ReplicaId(8)))},
            )
        },
    )
    bench.restart()
    assert bench.propose(bench.proposal(1, 8)).error is ErrorCode.INELIGIBLE_REPLICA


def test_recovery_is_told_by_the_leader() -> None:
    """An unclean leader is alone until it says that it has recovered; then others may join in the same request."""
    bench = led_by_one()
    bench.alter_topic("unclean.leader.election.enable", "true")
    bench.alter_isr(1)
    bench.silence(2, 3)
    bench.come_back(2, clean=False)
    bench.silence(1)
    assert bench.shape()[:2] == (2, (2,))
    assert bench.partition().leader_recovery_state is RECOVERING
    bench.come_back(3)
    together = replace(bench.proposal(2, 3), leader_recovery_state=RECOVERING)
    assert bench.propose(together).error is ErrorCode.INVALID_REQUEST
    alone = bench.propose(replace(bench.proposal(2), leader_recovery_state=RECOVERING))
    assert (alone.error, alone.leader_recovery_state) == (ErrorCode.NONE, RECOVERING)
    recovered = bench.propose(bench.proposal(2, 3))
    assert (recovered.error, recovered.isr) == (ErrorCode.NONE, (2, 3))
    assert recovered.leader_recovery_state is LeaderRecoveryState.RECOVERED


def test_proposals_of_one_request_are_decided_one_by_one() -> None:
    """A refused proposal does not hold the others up, and each is compared with what stands after the ones before."""
    bench = Bench()
    bench.start(1, 2)
    bench.create((1, 2), (2, 1), (1, 2))
    first, foreign, third = (bench.proposal(1, number=number) for number in range(3))
    request = m.AlterPartitionRequest(
        broker_id=ReplicaId(1),
        broker_epoch=bench.epoch_of(1),
        incarnation_id=bench.incarnation_of(1),
        cluster_id=CLUSTER,
        partitions=(first, foreign, third, first),
    )
    response = bench.ask(request, m.AlterPartitionResponse)
    assert [altered.error for altered in response.partitions] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert len(bench.records) == 2
