"""Looking for leaders: when a broker goes or comes, when an operator asks, and again and again for who has none.

Each goes through the partitions that it may concern and leaves the choice to ``partition_change``.

Source: Kafka ``ReplicationControlManager`` (``generateLeaderAndIsrUpdates``, ``electLeaders``,
``maybeBalancePartitionLeaders``); KIP-460, KIP-106.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from typing import assert_never

from replica.core.controller.partition_change import NOBODY, Election, Wanted
from replica.core.controller.state import MS_PER_SECOND, ControllerState
from replica.core.messages import (
    OFFLINE_REPORTED_MAX,
    ElectionType,
    ElectLeaderRequest,
    ElectLeaderResponse,
    OfflineReplica,
)
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition


def _change_all(c: ControllerState, concerns: Callable[[PartitionRegistration], bool], wanted: Wanted) -> None:
    """Change every partition that is concerned."""
    c.change_all((name for name, registration in c.image.partitions() if concerns(registration)), wanted)


class Lost(StrEnum):
    """What a broker that leaves may have lost of what it has acknowledged."""

    NOTHING = "nothing"
    TAIL = "tail"
    EVERYTHING = "everything"


def remove_broker(c: ControllerState, broker_id: ReplicaId, *, lost: Lost = Lost.NOTHING) -> None:
    """Take a broker that is not active any more out of every leadership and, where others remain, every ISR.

    One that has lost anything is not eligible to lead any more either, and one that has lost everything is nowhere
    remembered: not as the last of an ISR, nor as who led last.
    """
    assert broker_id not in c.active_brokers, broker_id
    gone = frozenset({broker_id})

    def concerns(registration: PartitionRegistration) -> bool:
        counted_on = (*registration.isr, *registration.elr, registration.leader_id)
        return broker_id in counted_on or (lost is Lost.EVERYTHING and broker_id == registration.last_known_leader)

    _change_all(
        c,
        concerns,
        Wanted(
            leaving=gone,
            stopped_uncleanly=NOBODY if lost is Lost.NOTHING else gone,
            emptied=gone if lost is Lost.EVERYTHING else NOBODY,
        ),
    )


def give_up_damaged(c: ControllerState, broker_id: ReplicaId, offline: Iterable[OfflineReplica]) -> None:
    """Count on replicas no more whose logs are damaged, where somebody else holds what they held.

    Otherwise nobody leads, and the replica is remembered: such a partition waits, and so do its clients. A report of an
    earlier leader epoch has come before, or too late.
    """
    damaged = frozenset({broker_id})
    for replica in islice(offline, OFFLINE_REPORTED_MAX):
        name = TopicPartition(c.image.topic_names.get(replica.topic_id, ""), replica.partition)
        registration = c.image.partition(name)
        if registration is None or registration.leader_epoch != replica.leader_epoch:
            continue
        if broker_id in registration.replicas and {*registration.isr, *registration.elr} - {broker_id}:
            c.maybe_change(
                name,
                Wanted(
                    leaving=damaged,
                    stopped_uncleanly=damaged,
                    emptied=damaged,
                    touch=True,
                    ends_epoch=c.rules.damage_begins_new_epoch(),
                ),
            )
        elif registration.leader_id == broker_id:
            c.maybe_change(name, Wanted(leaving=damaged))


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
    partitions = c.image.topics[topic].partitions.items()
    leaderless = (number for number, registration in partitions if registration.leader_id is None)
    c.change_all((TopicPartition(topic, number) for number in leaderless), Wanted())


def on_elect_leader(c: ControllerState, request: ElectLeaderRequest, _now_ms: int) -> ElectLeaderResponse:
    """Hold the election that an operator asks for."""
    registration = c.image.partition(request.topic_partition)
    if registration is None:
        return ElectLeaderResponse(
            error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"{request.topic_partition} does not exist"
        )
    match request.election_type:
        case ElectionType.PREFERRED:
            return _elect_preferred(c, request, registration)
        case ElectionType.UNCLEAN:
            return _elect_uncleanly(c, request, registration)
        case _:
            assert_never(request.election_type)


def _elect_preferred(
    c: ControllerState, request: ElectLeaderRequest, registration: PartitionRegistration
) -> ElectLeaderResponse:
    preferred = registration.replicas[0]
    if request.leader_id not in (None, preferred):
        return ElectLeaderResponse(error=ErrorCode.INVALID_REQUEST, message=f"the preferred leader is {preferred}")
    if registration.leader_id == preferred:
        return ElectLeaderResponse(error=ErrorCode.ELECTION_NOT_NEEDED, message=f"{preferred} leads already")
    after = c.maybe_change(request.topic_partition, Wanted(election=Election.PREFERRED))
    if after.leader_id == preferred:
        return ElectLeaderResponse(error=ErrorCode.NONE)
    return ElectLeaderResponse(
        error=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        message=f"{preferred} is not active and in sync; the ISR is {list(registration.isr)}",
    )


def _elect_uncleanly(
    c: ControllerState, request: ElectLeaderRequest, registration: PartitionRegistration
) -> ElectLeaderResponse:
    """Let the one lead that an operator names, if it is alive: what only others have is lost.

    Nobody is taken because it is there: right after an outage that may be the one that has nothing.
    """
    if registration.leader_id is not None:
        return ElectLeaderResponse(
            error=ErrorCode.ELECTION_NOT_NEEDED, message=f"{registration.leader_id} leads already"
        )
    topic_id = c.image.topics[request.topic_partition.topic].topic_id
    electable = c.electable(topic_id, request.topic_partition.partition)
    active = [replica for replica in registration.replicas if replica in electable]
    if request.leader_id is None:
        return ElectLeaderResponse(
            error=ErrorCode.INVALID_REQUEST,
            message=f"name the one that is to lead, {active} are active; what only others have is lost",
        )
    if request.leader_id not in active:
        return ElectLeaderResponse(
            error=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            message=f"of the replicas {list(registration.replicas)} only {active} are active and have a log to use",
        )
    wanted = Wanted(election=Election.UNCLEAN, leader_id=request.leader_id)
    assert c.maybe_change(request.topic_partition, wanted).leader_id is not None, (request, active)
    return ElectLeaderResponse(error=ErrorCode.NONE)


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
