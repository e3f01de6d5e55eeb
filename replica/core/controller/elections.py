"""Looking for leaders: when a broker goes or comes, when an operator asks, and again and again for who has none.

Each goes through the partitions that it may concern and leaves the choice to ``partition_change``.

Source: Kafka ``ReplicationControlManager`` (``generateLeaderAndIsrUpdates``, ``electLeaders``,
``maybeBalancePartitionLeaders``); KIP-460, KIP-106.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from replica.core.controller.partition_change import Election, Wanted
from replica.core.controller.state import ControllerState
from replica.core.messages import ElectionType, ElectLeaderRequest, ElectLeaderResponse
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition

MS_PER_SECOND = 1000


def _change_all(c: ControllerState, concerns: Callable[[PartitionRegistration], bool], wanted: Wanted) -> None:
    """Change every partition that is concerned. The image changes meanwhile, so they are listed first."""
    for topic_partition in [name for name, registration in c.image.partitions() if concerns(registration)]:
        c.maybe_change(topic_partition, wanted)


def remove_broker(c: ControllerState, broker_id: ReplicaId, *, stopped_uncleanly: bool = False) -> None:
    """Take a broker that is not active any more out of every leadership and, where others remain, every ISR.

    One that has ``stopped_uncleanly`` is not eligible to lead any more either.
    """
    assert broker_id not in c.active_brokers, broker_id
    gone = frozenset({broker_id})
    _change_all(
        c,
        lambda registration: broker_id in (*registration.isr, *registration.elr, registration.leader_id),
        Wanted(leaving=gone, stopped_uncleanly=gone if stopped_uncleanly else frozenset()),
    )


def elect_with(c: ControllerState, broker_id: ReplicaId) -> None:
    """Look for leaders where there are none and this broker, which has just become active, is a replica."""
    assert broker_id in c.active_brokers, broker_id
    _change_all(
        c,
        lambda registration: registration.leader_id is None and broker_id in registration.replicas,
        Wanted(),
    )


def elect_for_topic(c: ControllerState, topic: str) -> None:
    """Look for leaders where a topic has none."""
    for partition, registration in c.image.topics[topic].partitions.items():
        if registration.leader_id is None:
            c.maybe_change(TopicPartition(topic, partition), Wanted())


def on_elect_leader(c: ControllerState, request: ElectLeaderRequest) -> ElectLeaderResponse:
    """Hold the election that an operator asks for."""
    registration = c.image.partition(request.topic_partition)
    if registration is None:
        return ElectLeaderResponse(
            error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"{request.topic_partition} does not exist"
        )
    match request.election_type:
        case ElectionType.PREFERRED:
            return _elect_preferred(c, request.topic_partition, registration)
        case ElectionType.UNCLEAN:
            return _elect_uncleanly(c, request.topic_partition, registration)
        case _:
            assert_never(request.election_type)


def _elect_preferred(
    c: ControllerState, topic_partition: TopicPartition, registration: PartitionRegistration
) -> ElectLeaderResponse:
    preferred = registration.replicas[0]
    if registration.leader_id == preferred:
        return ElectLeaderResponse(error=ErrorCode.ELECTION_NOT_NEEDED, message=f"{preferred} leads already")
    after = c.maybe_change(topic_partition, Wanted(election=Election.PREFERRED))
    if after.leader_id == preferred:
        return ElectLeaderResponse(error=ErrorCode.NONE)
    return ElectLeaderResponse(
        error=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        message=f"{preferred} is not active and in sync; the ISR is {list(registration.isr)}",
    )


def _elect_uncleanly(
    c: ControllerState, topic_partition: TopicPartition, registration: PartitionRegistration
) -> ElectLeaderResponse:
    if registration.leader_id is not None:
        return ElectLeaderResponse(
            error=ErrorCode.ELECTION_NOT_NEEDED, message=f"{registration.leader_id} leads already"
        )
    after = c.maybe_change(topic_partition, Wanted(election=Election.UNCLEAN))
    if after.leader_id is not None:
        return ElectLeaderResponse(error=ErrorCode.NONE)
    return ElectLeaderResponse(
        error=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        message=f"none of the replicas {list(registration.replicas)} is active",
    )


# --- by time alone --------------------------------------------------------------------------------------------------


def maybe_elect_leaderless(c: ControllerState, now_ms: int) -> None:
    """Look for leaders where there are none, from time to time; whether they may be unclean is up to the topic."""
    if now_ms < c.unclean_election_at_ms:
        return
    c.unclean_election_at_ms = now_ms + c.config.unclean_leader_election_interval_ms
    _change_all(c, lambda registration: registration.leader_id is None, Wanted())


def maybe_rebalance(c: ControllerState, now_ms: int) -> None:
    """Give every leadership back to its preferred replica where that can take it, from time to time."""
    if not c.config.auto_leader_rebalance_enable or now_ms < c.rebalance_at_ms:
        return
    c.rebalance_at_ms = now_ms + c.config.leader_imbalance_check_interval_seconds * MS_PER_SECOND
    active = c.active_brokers
    _change_all(
        c,
        lambda registration: (
            registration.leader_id != registration.replicas[0]
            and registration.replicas[0] in registration.isr
            and registration.replicas[0] in active
        ),
        Wanted(election=Election.PREFERRED),
    )
