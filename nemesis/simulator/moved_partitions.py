"""What has become of a partition's move, by what is decided of it before and after. Decisions that are applied together
count as the one that they come to.
"""

from __future__ import annotations

from collections import Counter

from nemesis.simulator.rare import Rare
from replica.core.metadata.records import PartitionRegistration
from replica.ids import ReplicaId


def count_move(rare: Counter[Rare], was: PartitionRegistration, now: PartitionRegistration) -> None:
    """Count what has happened to it, if anything has."""
    is_cancelled = was.is_reassigned and _members(now) == set(was.replicas) - set(was.adding_replicas)
    if now.is_reassigned and was.is_reassigned:
        rare[Rare.REASSIGNMENT_CHANGED] += _target(was) != _target(now)
    elif now.is_reassigned:
        rare[Rare.REASSIGNMENT_BEGUN] += 1
    elif is_cancelled:
        rare[Rare.REASSIGNMENT_CANCELLED] += 1
    elif was.is_reassigned or was.replicas != now.replicas:
        rare[Rare.REASSIGNMENT_BEGUN] += not was.is_reassigned
        rare[Rare.REASSIGNMENT_COMPLETED] += 1
        rare[Rare.REASSIGNED_LEADER] += was.leader_id not in {None, *_members(now)}


def _members(registration: PartitionRegistration) -> set[ReplicaId]:
    return set(registration.replicas)


def _target(registration: PartitionRegistration) -> tuple[ReplicaId, ...]:
    return tuple(replica for replica in registration.replicas if replica not in registration.removing_replicas)
