"""Who is turned away before anything else is looked at.

The order is fixed and the same for every request: another cluster, then an epoch that is not the present one, and only
then "not the leader". Epoch before leadership, because a sender with a wrong epoch must learn that its view of the
world is wrong, whoever it asked (KIP-320; Kafka ``Partition.checkCurrentLeaderEpoch``).
"""

from __future__ import annotations

from replica.core.log.replicated_log import ReplicatedLog
from replica.errors import ErrorCode
from replica.ids import Epoch


def cluster_error(log: ReplicatedLog, cluster_id: str | None) -> ErrorCode | None:
    """Refuse a request meant for another cluster; one that names none is taken."""
    if cluster_id is not None and cluster_id != log.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return None


def epoch_error(log: ReplicatedLog, current_leader_epoch: Epoch | None) -> ErrorCode | None:
    """Refuse a request from an older or a newer epoch than this replica's; one that names none is taken."""
    return log.rules.epoch_error(current_leader_epoch=current_leader_epoch, own_epoch=log.leader_epoch)


def leader_request_error(
    log: ReplicatedLog, *, cluster_id: str | None, current_leader_epoch: Epoch | None
) -> ErrorCode | None:
    """Refuse a request that only the leader of exactly the sender's epoch may answer."""
    error = cluster_error(log, cluster_id) or epoch_error(log, current_leader_epoch)
    if error is None and not log.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error
