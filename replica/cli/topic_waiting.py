"""What ``replica topic describe`` asks the replicas of partitions that wait for an operator, or lack replicas in sync.

Owns the words. A replica's log is told as it says itself: the epoch of its last record, and where it ends. Whose epoch
is the highest, and of those whose log is the longest, lacks nothing that any of the others has of what is committed.

Source: KIP-966, unclean recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replica.client.admin import Admin
    from replica.core.messages import DescribeReplicaResponse
    from replica.core.metadata.image import TopicImage
    from replica.core.metadata.records import PartitionRegistration
    from replica.ids import ReplicaId

ReplicaEnds = dict[int, list[dict[str, Any]]]
"""By partition, one row for each replica that answers."""


async def replica_ends(admin: Admin, image: TopicImage, timeout_ms: int) -> ReplicaEnds:
    """Ask the replicas of each partition that waits where their logs end."""
    import asyncio

    from replica.ids import TopicPartition

    waiting = {number: of.replicas for number, of in sorted(image.partitions.items()) if of.waits_for_operator}
    described = await asyncio.gather(
        *(
            admin.describe_replicas(TopicPartition(image.name, number), replicas, timeout_ms=timeout_ms)
            for number, replicas in waiting.items()
        )
    )
    return {number: _rows(found) for number, found in zip(waiting, described, strict=True)}


async def offline_replicas(admin: Admin, image: TopicImage, timeout_ms: int) -> dict[int, list[int]]:
    """Name the replicas that are not in sync because their logs cannot be used, by partition, by their own word."""
    import asyncio

    from replica.errors import ErrorCode
    from replica.ids import TopicPartition

    lacking = {
        number: missing
        for number, of in sorted(image.partitions.items())
        if (missing := [replica for replica in of.replicas if of.leader_id is None or replica not in of.isr])
    }
    described = await asyncio.gather(
        *(
            admin.describe_replicas(TopicPartition(image.name, number), replicas, timeout_ms=timeout_ms)
            for number, replicas in lacking.items()
        )
    )
    found = {
        number: [int(replica) for replica, told in each.items() if told.error is ErrorCode.KAFKA_STORAGE_ERROR]
        for number, each in zip(lacking, described, strict=True)
    }
    return {number: replicas for number, replicas in found.items() if replicas}


def offline_line(name: str, number: int, replicas: list[int]) -> str:
    """Say where the log of a partition cannot be used."""
    where = ", ".join(map(str, replicas))
    return f"{name}-{number} is offline on {where}: its log there is damaged, or its log directory has failed"


def _rows(described: Mapping[ReplicaId, DescribeReplicaResponse]) -> list[dict[str, Any]]:
    return [
        {"replica_id": replica_id, "last_epoch": _last_epoch(replica), "log_end_offset": replica.log_end_offset}
        for replica_id, replica in described.items()
        if replica.log_end_offset is not None
    ]


def _last_epoch(replica: DescribeReplicaResponse) -> int | None:
    """The epoch of the last record: one that began at the end of the log has none yet."""
    end_offset = replica.log_end_offset or 0
    return max((entry.epoch for entry in replica.epochs if entry.start_offset < end_offset), default=None)


def waiting_lines(name: str, number: int, registration: PartitionRegistration, ends: ReplicaEnds) -> list[str]:
    """Say that a partition waits, what its replicas have, and with which command one of them is chosen."""
    told = {row["replica_id"]: row for row in ends[number]}
    return [
        f"{name}-{number} waits for you: no replica is known to have all that was acknowledged.",
        *(f"  replica {replica_id} {_told(told.get(replica_id))}" for replica_id in registration.replicas),
        "  Name the one whose log is the newest and longest; what it lacks is given up. An old disk that is whole can",
        "  be brought back first:",
        f"  replica partition elect-leader {name} {number} --type unclean --leader ID",
    ]


def _told(row: dict[str, Any] | None) -> str:
    if row is None:
        return "does not answer"
    last = "is empty" if row["last_epoch"] is None else f"has its last record in epoch {row['last_epoch']}"
    return f"{last}, and ends at offset {row['log_end_offset']}"
