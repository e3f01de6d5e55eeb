"""Who is turned away by a quorum: whoever brings an epoch, a leader or a voter that there cannot be.

**Epochs grow by what elections need.** They end at ``EPOCH_MAX`` and never fall, so what raises them must be scarce.
Anybody can send a request: requests raise the epoch of who hears them by ``EPOCHS_AT_ONCE_MAX`` at once, and by one
every ``EPOCH_INTERVAL_MS`` in the long run. The answers to a replica's own questions, which come from whom it has
dialled, raise it as far as they say. To use up all epochs takes 68 years of requests then, divided by the voters.

This keeps nobody out. 1. A candidate of epoch e + 1 had the promises (pre-votes) of a majority in e. So whatever the
highest epoch of any voter is, a majority of them is at most one below: an election asks for one epoch more of those who
decide it. 2. Who is further behind, after thousands of elections without it, learns the epoch by asking: a follower and
an observer fetch, a voter without a leader asks for pre-votes after an election timeout, and every answer names the
epoch. A leader that makes itself known is asked in any case, as those whom one knows may all be gone. Who cannot ask
cannot follow either, for followers fetch: no vote is lost by it. 3. Who is ahead, because its election came to nothing,
is heard by the others in the same way: those without a leader ask it for pre-votes, and a leader that it asks
for a pre-vote in its later epoch ends its own. 4. A voter whose allowance is used up
has it again after ``EPOCH_INTERVAL_MS``, and learns by its own questions meanwhile. The allowance need not be stored:
who starts anew begins with ``EPOCHS_AT_ONCE_MAX``.
"""

from __future__ import annotations

from replica.core.quorum.state import QuorumLogState
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, Epoch, ReplicaId

EPOCHS_AT_ONCE_MAX = 16
"""By how much requests may raise the epoch of a replica that they have not raised for a while."""

EPOCH_INTERVAL_MS = 1000
"""How long it takes until requests may raise the epoch by one more."""


def ahead_error(q: QuorumLogState, epoch: Epoch, now_ms: int) -> ErrorCode | None:
    """Refuse an epoch that a request brings and that elections cannot have reached since the last."""
    if epoch > EPOCH_MAX:
        return ErrorCode.INVALID_REQUEST
    spent_ms = max(q.epochs_spent_until_ms - now_ms, 0)
    allowed = EPOCHS_AT_ONCE_MAX - -(-spent_ms // EPOCH_INTERVAL_MS)
    return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > q.leader_epoch + allowed else None


def spend_epochs(q: QuorumLogState, epoch: Epoch, now_ms: int) -> None:
    """Note that a request is about to raise the epoch."""
    if epoch > q.leader_epoch:
        spent_until_ms = max(q.epochs_spent_until_ms, now_ms)
        q.epochs_spent_until_ms = spent_until_ms + (epoch - q.leader_epoch) * EPOCH_INTERVAL_MS


def is_contradicted(q: QuorumLogState, leader_id: ReplicaId, leader_epoch: Epoch) -> bool:
    """Tell whether this claim of a leader cannot be: another leads that very epoch.

    Whoever it is may lead. Who votes now this replica may not know yet: the records that say so may be what it lacks.
    """
    return leader_epoch == q.leader_epoch and q.quorum_state.leader_id not in (None, leader_id)


def peer_error(q: QuorumLogState, cluster_id: str | None) -> ErrorCode | None:
    """Refuse a request that another replica of this very cluster cannot have sent: that names the cluster."""
    return None if cluster_id == q.config.cluster_id else ErrorCode.INCONSISTENT_CLUSTER_ID


def wrong_voter(q: QuorumLogState, voter_id: ReplicaId | None, voter_directory_id: str | None) -> ErrorCode | None:
    """Refuse what was meant for another voter, or for the disk that this replica had before.

    A request has to name both: that is by what this replica knows that its vote counts.
    """
    is_meant = voter_id == q.replica_id and voter_directory_id == q.config.directory_id
    return None if is_meant else ErrorCode.INVALID_VOTER_KEY
