"""How far the quorum is: each replica's progress, and the high watermark computed from it.

The high watermark is arithmetic over flushed ends: the offset of a voter's last fetch (it flushes before it fetches)
and the leader's own flushed end. Source: Kafka ``LeaderState.updateReplicaState``, ``maybeUpdateHighWatermark``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.messages import FetchRequest
from replica.core.metadata.levels import FIRST_LEVEL
from replica.core.quorum.producing import acknowledge_committed
from replica.core.quorum.roles import Leader, ReplicaProgress, SnapshotFetch
from replica.core.quorum.serving import complete_fetches, is_other_voter
from replica.core.quorum.state import QuorumLogState
from replica.ids import Offset, SnapshotId
from replica.voters import ReplicaKey


def maybe_advance_high_watermark(q: QuorumLogState) -> bool:
    """Recompute the high watermark; if it moved, answer whoever waited for that. Tell whether it did."""
    role = q.role
    assert isinstance(role, Leader), role
    ends = [progress.log_end_offset or Offset(0) for progress in role.voters.values()]
    if q.counts_itself:
        ends.append(q.log.flushed_end_offset)
    high_watermark = q.rules.quorum_high_watermark(
        voter_end_offsets=ends, epoch_start_offset=role.epoch_start_offset, current=role.high_watermark
    )
    if high_watermark is None or high_watermark == role.high_watermark:
        return False
    q.role = replace(role, high_watermark=high_watermark)
    q.log.advance_high_watermark(high_watermark)
    acknowledge_committed(q)
    complete_fetches(q)
    return True


def note_fetch(q: QuorumLogState, key: ReplicaKey, request: FetchRequest, now_ms: int) -> None:
    """Take a valid fetch for what it is: the sender's acknowledgement of everything below its offset.

    And its word that it followed this leader, in this epoch, when it was told of the read round that it echoes.
    """
    (part,), role = request.partitions, q.role
    assert isinstance(role, Leader), role
    before = _known(q, role, key)
    caught_up_ms = None if before is None else before.last_caught_up_ms
    if part.fetch_offset >= q.log.log_end_offset:
        caught_up_ms = now_ms
    progress = ReplicaProgress(
        log_end_offset=part.fetch_offset,
        last_fetch_ms=now_ms,
        last_caught_up_ms=caught_up_ms,
        announce_at_ms=now_ms + q.quorum.fetch_timeout_ms,
        has_fetched=True,
        read_round=max(
            0 if before is None else before.read_round,
            q.rules.read_round_of_fetch(echoed=part.read_round, current=role.read_round),
        ),
        snapshot_fetch=None if before is None else before.snapshot_fetch,
        newest_level=request.newest_feature_level or FIRST_LEVEL,  # A release without levels says nothing.
    )
    _keep(q, role, key, progress)


def _known(q: QuorumLogState, role: Leader, key: ReplicaKey) -> ReplicaProgress | None:
    return role.voters[key.replica_id] if is_other_voter(q, role, key) else role.observers.get(key)


def _keep(q: QuorumLogState, role: Leader, key: ReplicaKey, progress: ReplicaProgress) -> None:
    """Remember how far a replica is; of observers the one that has been silent longest is forgotten, if need be."""
    if is_other_voter(q, role, key):
        q.role = replace(role, voters={**role.voters, key.replica_id: progress})
    else:
        others = {observer: held for observer, held in role.observers.items() if observer != key}
        if len(others) >= q.quorum.observers_max:
            del others[min(others, key=lambda observer: others[observer].last_fetch_ms)]
        q.role = replace(role, observers={**others, key: progress})


def note_fetch_snapshot(q: QuorumLogState, key: ReplicaKey, snapshot_id: SnapshotId, now_ms: int) -> None:
    """Take a request for a piece of a snapshot as the sign of life that it is, and remember who needs what follows.

    It acknowledges nothing: the snapshot is on the sender's disk only when it fetches from its end.
    """
    role = q.role
    assert isinstance(role, Leader), role
    announce_at_ms = now_ms + q.quorum.fetch_timeout_ms
    before = _known(q, role, key) or ReplicaProgress(last_fetch_ms=now_ms, announce_at_ms=announce_at_ms)
    snapshot_fetch = before.snapshot_fetch
    if snapshot_fetch is None or snapshot_fetch.end_offset != snapshot_id.end_offset:
        snapshot_fetch = SnapshotFetch(end_offset=snapshot_id.end_offset, since_ms=now_ms)
    progress = replace(before, last_fetch_ms=now_ms, announce_at_ms=announce_at_ms, snapshot_fetch=snapshot_fetch)
    _keep(q, role, key, progress)
