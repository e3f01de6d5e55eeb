"""Snapshots on the side that has them: keeping a new one, letting the log begin later, handing one out in pieces.

Every replica of a log stores its own. What it is handed is a view of a state: how large the snapshot is, shows when
somebody has encoded it, beside the steps of the log; one that is too large is not stored, and the log stays whole. Two
are kept: the log begins where the older one ends, so that a follower that is a little behind still finds records. A
third is not taken while it would take away what another replica is just loading, or what it needs next; so who loads
more slowly than snapshots are taken gets there all the same. What a snapshot holds is not known here.

Source: KIP-630; Kafka ``KafkaRaftClient.handleFetchSnapshotRequest``, ``KafkaMetadataLog.createNewSnapshot``.
"""

from __future__ import annotations

from replica.core.effects import DropSnapshots, RaiseLogStart, ReplyWithSnapshot, StoreEpochs, StoreSnapshot
from replica.core.log.fencing import leader_request_error
from replica.core.log.recovered import StoredSnapshot
from replica.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from replica.core.quorum.fencing import peer_error
from replica.core.quorum.roles import Leader, ReplicaProgress
from replica.core.quorum.serving import refuse_fetches_below_start
from replica.core.quorum.snapshot_header import HeadedState
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.watermark import note_fetch_snapshot
from replica.errors import ErrorCode
from replica.ids import CallId, Offset, SnapshotId
from replica.machines import SnapshotView
from replica.voters import ReplicaKey, is_directory_name


def store_snapshot(q: QuorumLogState, view: SnapshotView, _now_ms: int) -> None:
    """Have a snapshot kept beside the log, in any role; once ``SnapshotStored`` has come the log begins later.

    It is of what is committed, newer than all there are, not empty, and ``may_store``. Where it turns out to be above
    ``snapshot_max_bytes``, with all that stands before it, nothing is kept and the log stays whole.
    """
    assert q.storing is None, (q.storing, view.id)
    _check_id(q, view.id)
    q.storing = view.id
    q.emit(
        StoreSnapshot(
            topic_partition=q.topic_partition,
            snapshot_id=view.id,
            state=HeadedState(header=q.header_of(view.id), state=view.state),
            max_bytes=q.quorum.snapshot_max_bytes,
        )
    )


def _check_id(q: QuorumLogState, snapshot_id: SnapshotId) -> None:
    """Raise AssertionError unless the id is of something committed, in this log, and newer than all there are."""
    end_offset, log = snapshot_id.end_offset, q.log
    assert log.high_watermark is not None, snapshot_id
    assert log.log_start_offset <= end_offset <= log.high_watermark, (snapshot_id, log.high_watermark)
    assert end_offset > (log.snapshots[-1].id.end_offset if log.snapshots else 0), (snapshot_id, log.snapshots)
    assert log.epoch_below(end_offset) == snapshot_id.epoch, (snapshot_id, log.epochs.entries)


def snapshots_wait_until_ms(q: QuorumLogState) -> int | None:
    """Name until when no snapshot is to be taken, for the sake of those that load one; absent where nobody needs that.

    The next one lets the log begin at the end of the newest that there is now. A replica that has begun to load an
    older one needs that to its end, and then the records, until it stands above; as long as it is heard of, and at the
    longest for ``snapshot_hold_max_ms``: one that is slower than the log grows would need them for ever.
    """
    if not isinstance(q.role, Leader) or not q.log.snapshots:
        return None
    newest = q.log.snapshots[-1].id.end_offset
    held = [_needs_until_ms(q, progress, newest) for progress in (*q.role.voters.values(), *q.role.observers.values())]
    return max((until_ms for until_ms in held if until_ms is not None), default=None)


def _needs_until_ms(q: QuorumLogState, progress: ReplicaProgress, log_start_offset: Offset) -> int | None:
    fetch = progress.snapshot_fetch
    if fetch is None or max(fetch.end_offset, progress.log_end_offset or Offset(0)) >= log_start_offset:
        return None
    return min(progress.last_fetch_ms + q.quorum.fetch_timeout_ms, fetch.since_ms + q.quorum.snapshot_hold_max_ms)


def on_snapshot_stored(q: QuorumLogState, stored: StoredSnapshot) -> None:
    """Count on the snapshot that was being stored, and let go of what it makes needless.

    Or it is one that comes too late: 1. This follower stores a snapshot. 2. It lags, and begins anew at a later one of
    the leader's. 3. Now the first is stored, of what is gone. It must not be counted on; it is removed.
    """
    if q.storing != stored.id:
        _drop_snapshots(q)
        return
    assert 0 < stored.size_bytes <= q.quorum.snapshot_max_bytes, stored
    q.storing, q.snapshot_bytes = None, stored.size_bytes
    log_start_moves = q.log.add_snapshot(stored)
    q.change_voters(q.voter_history.begun_at(stored.id.end_offset))
    if not log_start_moves:
        return
    q.emit(RaiseLogStart(topic_partition=q.topic_partition, log_start_offset=q.log.log_start_offset))
    q.emit(StoreEpochs(topic_partition=q.topic_partition, entries=q.log.epochs.entries))
    _drop_snapshots(q)
    refuse_fetches_below_start(q)


def on_snapshot_too_large(q: QuorumLogState, snapshot_id: SnapshotId, size_bytes: int) -> None:
    """Go on with the whole log: a snapshot that nobody could load replaces nothing."""
    if q.storing == snapshot_id:
        q.storing, q.snapshot_bytes, q.snapshot_wanted = None, size_bytes, Offset(0)


def _drop_snapshots(q: QuorumLogState) -> None:
    q.emit(DropSnapshots(topic_partition=q.topic_partition, end_offset=q.log.log_start_offset))


def on_fetch_snapshot(q: QuorumLogState, call_id: CallId, request: FetchSnapshotRequest, now_ms: int) -> None:
    """Hand out a piece of a snapshot. From a voter that is a sign of life, but no acknowledgement.

    A client gets one that is as new as it needs, or has one taken: who must hear of what, it has asked before.
    """
    found = _found(q, request)
    if isinstance(found, ErrorCode):
        q.reply(call_id, FetchSnapshotResponse(error=found, current_leader=q.current_leader))
        return
    if request.replica_id is not None:
        note_fetch_snapshot(q, ReplicaKey(request.replica_id, request.replica_directory_id), found.id, now_ms)
    response = FetchSnapshotResponse(
        error=ErrorCode.NONE,
        snapshot_id=found.id,
        size_bytes=found.size_bytes,
        position=request.position,
        current_leader=q.current_leader,
    )
    q.emit(
        ReplyWithSnapshot(
            call_id=call_id,
            response=response,
            topic_partition=q.topic_partition,
            snapshot_id=found.id,
            position=request.position,
            max_bytes=min(request.max_bytes, q.quorum.fetch_max_bytes),
        )
    )


def _found(q: QuorumLogState, request: FetchSnapshotRequest) -> StoredSnapshot | ErrorCode:
    """Find what is asked for, or why it is refused; the order of the checks is that of a Fetch."""
    refused = peer_error(q, request.cluster_id)
    is_sound = request.max_bytes > 0 and is_directory_name(request.replica_directory_id)
    if refused is None and (not is_sound or request.replica_id == q.replica_id):
        refused = ErrorCode.INVALID_REQUEST
    refused = refused or leader_request_error(
        q, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch
    )
    if refused is not None:
        return refused
    for stored in q.log.snapshots:
        if stored.id == request.snapshot_id:
            return stored if 0 <= request.position < stored.size_bytes else ErrorCode.POSITION_OUT_OF_RANGE
    is_of_client = request.replica_id is None and request.position == 0
    found = _newest_from(q, request.snapshot_end_offset) if is_of_client else None
    return found or ErrorCode.SNAPSHOT_NOT_FOUND


def _newest_from(q: QuorumLogState, end_offset: Offset) -> StoredSnapshot | None:
    """Find the newest snapshot, if it ends there or above; else have one taken, of what is committed at the most."""
    newest = q.log.snapshots[-1] if q.log.snapshots else None
    if newest is not None and newest.id.end_offset >= end_offset:
        return newest
    q.snapshot_wanted = max(q.snapshot_wanted, min(end_offset, q.log.high_watermark or Offset(0)))
    return None
