"""Who is turned away before anything else is looked at.

First another topic, then an epoch that is not the present one, and only then "not the leader" (``core.log.fencing``).
After that, what only a replica's fetch must satisfy.

Source: Kafka ``Partition.checkCurrentLeaderEpoch``, ``Partition.followerReplicaOrThrow``; KIP-903.
"""

from __future__ import annotations

from replica.core.log.fencing import epoch_error
from replica.core.messages import FetchPartition
from replica.core.partition.roles import Leader, Unassigned
from replica.core.partition.state import PartitionState
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, ReplicaId


def fetch_error(p: PartitionState, part: FetchPartition, replica_id: ReplicaId | None) -> ErrorCode | None:
    """Refuse a fetch that this replica cannot serve: a replica's needs the leader, a consumer's one that has a role."""
    if part.topic_id is not None and part.topic_id != p.topic_id:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    error = epoch_error(p, part.current_leader_epoch)
    if error is not None:
        return error
    if replica_id is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if isinstance(p.role, Unassigned) else None
    if not isinstance(p.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return _replica_error(p.role, part, replica_id)


def _replica_error(role: Leader, part: FetchPartition, replica_id: ReplicaId) -> ErrorCode | None:
    """Refuse a replica that the leader does not know, or that leaves out what fencing and divergence are seen by.

    One that names an epoch knows of an assignment that is yet to reach the leader. Only an empty log has no last epoch.
    """
    if replica_id not in role.remotes:
        named = part.current_leader_epoch is not None
        return ErrorCode.UNKNOWN_LEADER_EPOCH if named else ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_empty = part.fetch_offset == part.log_start_offset
    if part.current_leader_epoch is None or (part.last_fetched_epoch is None and not is_empty):
        return ErrorCode.INVALID_REQUEST
    return None


def incarnation_error(
    p: PartitionState, replica_id: ReplicaId | None, broker_epoch: BrokerEpoch | None
) -> ErrorCode | None:
    """Refuse a fetch of a replica whose broker has registered anew since it was sent."""
    if replica_id is None or not isinstance(p.role, Leader):
        return None
    registered = p.brokers.get(replica_id)
    stale = p.rules.is_stale_incarnation(
        broker_epoch=broker_epoch,
        registered=None if registered is None else registered.broker_epoch,
        last_seen=p.role.remotes[replica_id].broker_epoch,
    )
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if stale else None
