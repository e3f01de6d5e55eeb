"""On which brokers the replicas of a new topic stand, by count or by the wish of who creates it.

Owns the arithmetic and the refusals. Deterministic: equal images place equally. Racks are not looked at.

Source: Kafka ``StripedReplicaPlacer`` for the idea, ``ReplicationControlManager.validateManualPartitionAssignment``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from replica.bounds import REPLICAS_MAX
from replica.ids import ReplicaId

Assignment = tuple[tuple[ReplicaId, ...], ...]
"""The replicas of each partition, preferred leader first."""


def placed(
    brokers: Sequence[ReplicaId], *, partition_count: int, replication_factor: int, first_partition: int
) -> Assignment:
    """Go round the brokers, one partition after the other, so that each leads and follows about equally often.

    ``first_partition`` counts what was placed before, so that a second topic goes on where the first one ended. Behind
    the leader come its neighbours, from one step further away with every round: when a broker fails, its leaderships
    fall to all the others and not to one.
    """
    assert 0 < replication_factor <= len(brokers), (replication_factor, brokers)
    numbers = range(first_partition, first_partition + partition_count)
    return tuple(_replicas_of(brokers, number)[:replication_factor] for number in numbers)


def _replicas_of(brokers: Sequence[ReplicaId], number: int) -> tuple[ReplicaId, ...]:
    rounds, first = divmod(number, len(brokers))
    others = (*brokers[first + 1 :], *brokers[:first])
    step = rounds % len(others) if others else 0
    return (brokers[first], *others[step:], *others[:step])


def assignment_fault(
    assignment: Assignment, *, registered: Collection[ReplicaId], active: Collection[ReplicaId]
) -> str | None:
    """Say what is wrong with an assignment by hand; nothing if it can be taken."""
    for number, replicas in enumerate(assignment):
        fault = replicas_fault(replicas, registered)
        if fault is not None:
            return f"partition {number} {fault}"
        if len(replicas) != len(assignment[0]):
            return f"partition {number} has {len(replicas)} replicas, partition 0 has {len(assignment[0])}"
        if not any(replica in active for replica in replicas):
            return f"partition {number} has no broker that is active: {list(replicas)}"
    return None


def replicas_fault(replicas: Sequence[ReplicaId], registered: Collection[ReplicaId]) -> str | None:
    """Say what is wrong with the replicas of one partition; nothing if they could be its replicas."""
    if not replicas:
        return "has no replicas"
    if len(replicas) > REPLICAS_MAX:
        return f"has {len(replicas)} replicas, at most {REPLICAS_MAX} are possible"
    if len(set(replicas)) != len(replicas):
        return f"names a broker twice: {list(replicas)}"
    unknown = [replica for replica in replicas if replica not in registered]
    return f"names brokers that are not registered: {unknown}" if unknown else None
