"""What the leader of a partition wants of its ISR, and why it may not have it.

A compare-and-swap on the partition epoch by whoever leads in the present leader epoch. Every check has its error, and
their order is part of the protocol: a leader that is ahead of this controller learns that it asks the wrong one, before
it could learn that it is wrong itself. An ISR with which a reassignment is complete may cost its leader the leadership.

Source: Kafka ``ReplicationControlManager.alterPartition``, ``validateAlterPartitionData``; KIP-455, KIP-497, KIP-841,
KIP-903.
"""

from __future__ import annotations

from replica.core.controller.brokers import is_incarnation
from replica.core.controller.partition_change import Wanted
from replica.core.controller.state import ControllerState
from replica.core.messages import AlteredPartition, AlterPartition, AlterPartitionRequest, AlterPartitionResponse
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition


def on_alter_partition(c: ControllerState, request: AlterPartitionRequest, _now_ms: int) -> AlterPartitionResponse:
    """Decide about each proposal on its own, in order."""
    registered = c.image.brokers.get(request.broker_id)
    if registered is None or not is_incarnation(registered, request):
        return AlterPartitionResponse(error=ErrorCode.STALE_BROKER_EPOCH)
    return AlterPartitionResponse(
        error=ErrorCode.NONE,
        partitions=tuple(_alter(c, request.broker_id, proposal) for proposal in request.partitions),
    )


def _alter(c: ControllerState, broker_id: ReplicaId, proposal: AlterPartition) -> AlteredPartition:
    topic = c.image.topic_names.get(proposal.topic_id)
    if topic is None:
        return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_ID)
    topic_partition = TopicPartition(topic, proposal.partition)
    registration = c.image.partition(topic_partition)
    if registration is None:
        return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = (
        _epoch_error(broker_id, proposal, registration)
        or _shape_error(proposal, registration)
        or _eligibility_error(c, proposal)
    )
    if error is not None:
        return _refused(proposal, error)
    after = c.maybe_change(
        topic_partition,
        Wanted(
            isr=tuple(member.broker_id for member in proposal.new_isr),
            leader_recovery_state=proposal.leader_recovery_state,
            touch=True,  # Also where nothing changes: copies of an earlier proposal are refused from then on.
        ),
    )
    if after.leader_id != broker_id:
        # The ISR has completed a reassignment that removes its leader. It is committed all the same (KIP-455).
        return _refused(proposal, ErrorCode.NEW_LEADER_ELECTED)
    return AlteredPartition(
        topic_id=proposal.topic_id,
        partition=proposal.partition,
        error=ErrorCode.NONE,
        leader_id=after.leader_id,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
        isr=after.isr,
        leader_recovery_state=after.leader_recovery_state,
    )


def _refused(proposal: AlterPartition, error: ErrorCode) -> AlteredPartition:
    return AlteredPartition(topic_id=proposal.topic_id, partition=proposal.partition, error=error)


def _epoch_error(
    broker_id: ReplicaId, proposal: AlterPartition, registration: PartitionRegistration
) -> ErrorCode | None:
    """Refuse who is ahead of this controller (it is not the active one), who is behind, and who does not lead."""
    if proposal.leader_epoch > registration.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.partition_epoch > registration.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < registration.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != registration.leader_id:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < registration.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return None


def _shape_error(proposal: AlterPartition, registration: PartitionRegistration) -> ErrorCode | None:
    """Refuse what cannot be an ISR of this partition.

    A leader that was elected uncleanly is alone in its ISR until it has recovered, and nobody begins to recover of
    itself (KIP-704).
    """
    members = [member.broker_id for member in proposal.new_isr]
    is_recovering = proposal.leader_recovery_state is LeaderRecoveryState.RECOVERING
    malformed = (
        len(set(members)) != len(members)
        or not set(members) <= set(registration.replicas)
        or registration.leader_id not in members
        or (is_recovering and len(members) > 1)
        or (is_recovering and registration.leader_recovery_state is LeaderRecoveryState.RECOVERED)
    )
    return ErrorCode.INVALID_REQUEST if malformed else None


def _eligibility_error(c: ControllerState, proposal: AlterPartition) -> ErrorCode | None:
    eligible = all(
        c.rules.eligible_for_isr(registration=c.image.brokers.get(member.broker_id), broker_epoch=member.broker_epoch)
        for member in proposal.new_isr
    )
    return None if eligible else ErrorCode.INELIGIBLE_REPLICA
