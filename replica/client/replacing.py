"""One broker in the place of another: what would be lost by that, and moving all that it has, until it has nothing.

Owns the verdicts, as a pure function of what the cluster says of itself, and the order of the moves. Each move is a
reassignment (``Admin.alter_partition_reassignments``), which takes no replica away before all others have everything;
so it may be broken off at any time, and begun again: what is done is not done twice.

Source: KIP-455; Kafka's ``kafka-reassign-partitions``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from replica.client.admin import Admin
from replica.client.clock import Clock, SystemClock
from replica.client.failures import AdminError
from replica.core.messages import DescribeClusterResponse
from replica.core.metadata.configs import topic_config
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition

LOOK_AGAIN_MS = 500


class Verdict(StrEnum):
    """What becomes of a partition when a broker goes for good before it has been replaced; the worst last."""

    SAFE = "safe"
    BELOW_MIN_ISR = "below min.insync.replicas without it"
    LAST_COPY = "last copy"
    """Nobody else is known to have everything: it must go on running until the move is done."""
    UNREACHABLE = "cannot move: nobody that runs has everything"
    """Bring the broker back that has, or choose another leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """One partition of the broker that goes. ``target`` are its replicas afterwards; absent where that cannot be."""

    topic_partition: TopicPartition
    registration: PartitionRegistration
    min_insync_replicas: int
    verdict: Verdict
    target: tuple[ReplicaId, ...] | None
    is_moving: bool

    @property
    def would_be_lost(self) -> bool:
        """Whether records would be lost if the broker went now."""
        return self.verdict in (Verdict.LAST_COPY, Verdict.UNREACHABLE)


def check_partitions(described: DescribeClusterResponse, old: ReplicaId, new: ReplicaId) -> list[PartitionCheck]:
    """Judge every partition of which ``old`` is a replica, in the order of their names."""
    runs = any(broker.broker_id == old and broker.is_active for broker in described.brokers)
    return [
        _checked(
            TopicPartition(topic.name, number),
            registration,
            topic_config(topic.configs).effective_min_isr(len(registration.replicas)),
            old=old,
            new=new,
            runs=runs,
        )
        for topic in sorted(described.topics, key=lambda topic: topic.name)
        for number, registration in sorted(topic.partitions.items())
        if old in registration.replicas
    ]


def _checked(
    name: TopicPartition,
    registration: PartitionRegistration,
    min_isr: int,
    *,
    old: ReplicaId,
    new: ReplicaId,
    runs: bool,
) -> PartitionCheck:
    goal = tuple(replica for replica in registration.replicas if replica not in registration.removing_replicas)
    is_moving = old not in goal
    target = None if not is_moving and new in goal else tuple(new if each == old else each for each in goal)
    last_known = () if registration.last_known_leader is None else (registration.last_known_leader,)
    holders = {*registration.isr, *registration.elr} or {*last_known}
    others_in_sync = len({*registration.isr} - {old})
    if holders - {old}:
        verdict = Verdict.BELOW_MIN_ISR if others_in_sync < min_isr else Verdict.SAFE
    else:
        verdict = Verdict.LAST_COPY if runs and holders else Verdict.UNREACHABLE
    return PartitionCheck(
        topic_partition=name,
        registration=registration,
        min_insync_replicas=min_isr,
        verdict=verdict,
        target=target,
        is_moving=is_moving,
    )


def faults_of(described: DescribeClusterResponse, old: ReplicaId, new: ReplicaId) -> list[str]:
    """Why one broker cannot take the place of another, a sentence each; none if it can."""
    brokers = {broker.broker_id: broker for broker in described.brokers}
    faults = [] if old in brokers else [f"broker {old} is not registered"]
    if new not in brokers:
        faults.append(f"broker {new} is not registered; start it first")
    elif brokers[new].fenced:
        faults.append(f"broker {new} is fenced; start it, and wait until it is ready")
    elif brokers[new].in_controlled_shutdown:
        faults.append(f"broker {new} is shutting down")
    doubled = [str(row.topic_partition) for row in check_partitions(described, old, new) if row.target is None]
    if doubled:
        faults.append(f"broker {new} has a replica already of {', '.join(doubled)}; move these elsewhere first")
    return faults


async def move_all(
    admin: Admin,
    old: ReplicaId,
    new: ReplicaId,
    *,
    at_once: int,
    say: Callable[[str], None],
    clock: Clock | None = None,
) -> list[PartitionCheck]:
    """Move all partitions to the new broker, at most so many at once; returns those that cannot be moved.

    Then it leads those of which it is the preferred leader. Raises AdminError, ClusterUnreachableError.
    """
    clock, told = clock or SystemClock(), ""
    while True:
        rows = check_partitions(await admin.describe_cluster(), old, new)
        left = [row for row in rows if row.target is not None and row.verdict is not Verdict.UNREACHABLE]
        if not left:
            await _lead(admin, new)
            return rows
        moving = [row for row in left if row.is_moving]
        begun = [row for row in left if not row.is_moving][: max(0, at_once - len(moving))]
        if begun:
            await admin.alter_partition_reassignments({row.topic_partition: row.target for row in begun})
        sentence = f"{len(left)} partitions left on broker {old}, {len(moving) + len(begun)} of them moving"
        if sentence != told:
            say(told := sentence)
        await clock.sleep(LOOK_AGAIN_MS)


async def _lead(admin: Admin, new: ReplicaId) -> None:
    """Let the new broker lead what it should by preference, as the old one did."""
    for topic in (await admin.describe_cluster()).topics:
        for number, registration in topic.partitions.items():
            if registration.replicas[0] != new or registration.leader_id == new:
                continue
            try:
                await admin.elect_leader(TopicPartition(topic.name, number))
            except AdminError as error:
                if error.error not in (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
                    raise
