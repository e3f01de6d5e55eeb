"""Moving partitions to other replicas: begun, taken back, and listed while they are under way.

Owns the refusals. Whether a reassignment is complete is found in every change of the partition (``partition_change``):
it may be at once, where replicas are only taken out or put into another order.

Source: KIP-455; Kafka ``ReplicationControlManager`` (``alterPartitionReassignments``, ``listPartitionReassignments``).
"""

from __future__ import annotations

from replica.bounds import REPLICAS_MAX
from replica.core.controller.partition_change import NOBODY, Wanted
from replica.core.controller.placement import replicas_fault
from replica.core.controller.reassignment import Reassignment, reassignment_of, reassignment_to
from replica.core.controller.state import ControllerState
from replica.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    ReassignablePartition,
    ReassignedPartition,
)
from replica.core.metadata.image import TopicImage
from replica.core.metadata.pages import page_of
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition

Fault = tuple[ErrorCode, str]
"""Why a partition cannot be reassigned as it was asked for, by name and in words."""


def on_alter_reassignments(
    c: ControllerState, request: AlterPartitionReassignmentsRequest, _now_ms: int
) -> AlterPartitionReassignmentsResponse:
    """Decide about each partition on its own, in order. The answer tells that a move is begun, not that it is done."""
    return AlterPartitionReassignmentsResponse(
        error=ErrorCode.NONE, partitions=tuple(_alter(c, wish) for wish in request.partitions)
    )


def _alter(c: ControllerState, wish: ReassignablePartition) -> ReassignedPartition:
    name = wish.topic_partition
    registration = c.image.partition(name)
    if registration is None:
        fault: Fault | None = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} does not exist")
    elif wish.replicas is None:
        fault = _cancel(c, name, registration)
    else:
        fault = _begin(c, name, registration, wish.replicas)
    error, message = fault or (ErrorCode.NONE, "")
    return ReassignedPartition(topic_partition=name, error=error, message=message)


def _begin(
    c: ControllerState, name: TopicPartition, registration: PartitionRegistration, target: tuple[ReplicaId, ...]
) -> Fault | None:
    fault = replicas_fault(target, c.image.brokers)
    if fault is not None:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the target of {name} {fault}"
    reassignment = reassignment_to(registration.replicas, target)
    if len(reassignment.replicas) > 2 * REPLICAS_MAX:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, (
            f"{name} would have {len(reassignment.replicas)} replicas until it has moved; at most {2 * REPLICAS_MAX}, "
            "so let the move that is under way end first"
        )
    c.maybe_change(name, Wanted(reassignment=reassignment))
    return None


def _cancel(c: ControllerState, name: TopicPartition, registration: PartitionRegistration) -> Fault | None:
    """Go back to the replicas of before, of which one must still be in sync: those that came leave with all they have.

    Where the topic prefers a loss to waiting, one that is active will do (KIP-106); with Kafka the first of them is
    taken, active or not.
    """
    if not registration.is_reassigned:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{name} is not being reassigned"
    original = reassignment_of(registration).original
    unclean_allowed = c.topic_config(c.image.topics[name.topic]).unclean_leader_election_enable
    last_resort = c.active_brokers if unclean_allowed else NOBODY
    if set(original).isdisjoint({*registration.isr, *last_resort}):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, (
            f"{name} would go back to {list(original)}, of which none is in sync"
            + (" or active" if unclean_allowed else "; an unclean leader election is not allowed")
        )
    c.maybe_change(name, Wanted(reassignment=Reassignment(replicas=original)))
    return None


def on_list_reassignments(
    c: ControllerState, request: ListPartitionReassignmentsRequest, _now_ms: int
) -> ListPartitionReassignmentsResponse:
    """Tell what is under way, topic by topic in the order of their creation, a page at a time."""
    told, next_cursor = page_of(
        c.image,
        topics=request.topics,
        cursor=request.cursor,
        limit=request.response_partition_limit,
        concerns=lambda registration: registration.is_reassigned,
    )
    return ListPartitionReassignmentsResponse(
        error=ErrorCode.NONE,
        partitions=tuple(_ongoing(topic, number) for topic, number in told),
        next_cursor=next_cursor,
    )


def _ongoing(topic: TopicImage, number: int) -> OngoingPartitionReassignment:
    registration = topic.partitions[number]
    return OngoingPartitionReassignment(
        topic_partition=TopicPartition(topic.name, number),
        replicas=registration.replicas,
        adding_replicas=registration.adding_replicas,
        removing_replicas=registration.removing_replicas,
    )
