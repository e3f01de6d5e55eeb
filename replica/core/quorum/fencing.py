"""Who is turned away before anything else is looked at.

The order is fixed and the same for every request: another cluster, then an epoch that is not the present one, and only
then "not the leader". Epoch before leadership, because a sender with a wrong epoch must learn that its view of the
world is wrong, whoever it asked (KIP-320; Kafka ``Partition.checkCurrentLeaderEpoch``).
"""

from __future__ import annotations

from replica.core.quorum.roles import Leader
from replica.core.quorum.state import QuorumLogState
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, Epoch, ReplicaId

EPOCHS_AHEAD_MAX = 1 << 24
"""How far a request may be ahead of this replica's epoch: half a year of an election every second.

Epochs end at ``EPOCH_MAX`` and never fall. Without a bound one damaged number would use them all up, for ever: no
election could follow. A replica that really is so far behind learns the epoch from the answers to its own questions.
"""


def is_believable_epoch(q: QuorumLogState, epoch: Epoch) -> bool:
    """Tell whether an epoch that a request brings can be the cluster's at all."""
    return epoch <= min(EPOCH_MAX, q.epoch + EPOCHS_AHEAD_MAX)


def may_campaign(q: QuorumLogState, replica_id: ReplicaId) -> bool:
    """Tell whether another replica may ask for votes, and lead: who votes, or anyone where that can change.

    Who votes now this replica may not know yet: the records that say so may be what it lacks.
    """
    return replica_id in q.other_voters if q.config.has_static_voters else replica_id != q.replica_id


def cluster_error(q: QuorumLogState, cluster_id: str | None) -> ErrorCode | None:
    """Refuse a request meant for another cluster; one that names none is taken."""
    if cluster_id is not None and cluster_id != q.config.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    return None


def epoch_error(q: QuorumLogState, current_leader_epoch: Epoch | None) -> ErrorCode | None:
    """Refuse a request from an older or a newer epoch than this replica's; one that names none is taken."""
    return q.rules.epoch_error(current_leader_epoch=current_leader_epoch, own_epoch=q.epoch)


def leader_request_error(
    q: QuorumLogState, *, cluster_id: str | None, current_leader_epoch: Epoch | None
) -> ErrorCode | None:
    """Refuse a request that only the leader of exactly the sender's epoch may answer."""
    error = cluster_error(q, cluster_id) or epoch_error(q, current_leader_epoch)
    if error is None and not isinstance(q.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error
