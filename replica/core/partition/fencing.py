"""Who is turned away before anything else is looked at.

The order is fixed: another cluster or topic, then an epoch that is not the present one, and only then "not the leader".
Epoch before leadership, because a sender with a wrong epoch must learn that its view of the world is wrong, whoever it
asked (KIP-320). After that, what only a replica's fetch must satisfy.

Source: Kafka ``Partition.checkCurrentLeaderEpoch``, ``Partition.followerReplicaOrThrow``; KIP-903.
"""

from __future__ import annotations

from replica.core.messages import FetchPartition
from replica.core.partition.roles import Leader, Unassigned
from replica.core.partition.state import PartitionState
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, ReplicaId


def cluster_error(p: PartitionState, cluster_id: str | None) -> ErrorCode | None:
    """Refuse a request meant for another cluster; one that names none is taken."""
    if cluster_id is not None and cluster_id != p.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return None


def epoch_error(p: PartitionState, current_leader_epoch: Epoch | None) -> ErrorCode | None:
    """Refuse a request from an older or a newer epoch than this replica's; one that names none is taken."""
    return p.rules.epoch_error(current_leader_epoch=current_leader_epoch, own_epoch=p.leader_epoch)


def leader_request_error(
    p: PartitionState, *, cluster_id: str | None, current_leader_epoch: Epoch | None
) -> ErrorCode | None:
    """Refuse a request that only the leader of exactly the sender's epoch may answer."""
    error = cluster_error(p, cluster_id) or epoch_error(p, current_leader_epoch)
    if error is None and not p.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error


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
