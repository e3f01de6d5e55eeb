"""A follower that lacks what is gone from the leader's log: it fetches a snapshot, piece by piece, and begins anew.

Nothing changes on its disk before the whole snapshot is here, has been loaded by whom it is for, and is installed at
once. Until then it can be abandoned at any moment, and is: with the leadership, when the leader has it no more, and
when an answer does not fit. Pieces are asked for by position, one at a time; each answer proves that the leader lives.

Source: KIP-630; Kafka ``KafkaRaftClient.handleFetchSnapshotResponse``, ``FollowerState.setFetchingSnapshot``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.effects import InstallSnapshot, StoreEpochs
from replica.core.log.recovered import StoredSnapshot
from replica.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from replica.core.quorum.hearing import heard
from replica.core.quorum.roles import CatchingUp, Follower
from replica.core.quorum.snapshot_header import split_snapshot
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transitions import leave_resigned_leader, observe_answer
from replica.errors import ErrorCode
from replica.ids import CorrelationId, Epoch, Offset, ReplicaId, SnapshotId
from replica.machines import CorruptSnapshotError, Snapshot

DOUBLINGS_MAX = 20
"""By then a pause has long reached its maximum."""


def begin_catching_up(q: QuorumLogState, role: Follower, snapshot_id: SnapshotId, now_ms: int) -> None:
    """Ask for the snapshot to which the leader has sent this follower, if it can be what the leader has committed."""
    high_watermark = q.log.high_watermark or Offset(0)
    # The log is not flushed only if the rules let a fetch go before that. A log is emptied when it is at rest.
    may_load = q.log.is_flushed and q.rules.may_load_snapshot(
        snapshot_id=snapshot_id,
        high_watermark=high_watermark,
        committed_epoch=q.log.epoch_below(high_watermark) or Epoch(0),
        leader_epoch=q.leader_epoch,
    )
    if may_load:
        q.role = replace(role, catching_up=CatchingUp(snapshot_id=snapshot_id))
    else:
        _fetch_records_later(q, role, now_ms)


def _fetch_records_later(q: QuorumLogState, role: Follower, now_ms: int) -> None:
    """Give up what has come of a snapshot, and after a pause ask for records again: the leader knows what is next."""
    q.role = replace(role, catching_up=None, received=None, retry_at_ms=now_ms + q.quorum.retry_backoff_ms)


def send_fetch_snapshot(q: QuorumLogState, leader_id: ReplicaId, catching_up: CatchingUp) -> CorrelationId:
    """Ask for the next piece."""
    return q.send(
        leader_id,
        FetchSnapshotRequest(
            topic_partition=q.topic_partition,
            snapshot_end_offset=catching_up.snapshot_id.end_offset,
            snapshot_epoch=catching_up.snapshot_id.epoch,
            position=catching_up.position,
            max_bytes=q.quorum.fetch_max_bytes,
            current_leader_epoch=q.leader_epoch,
            replica_id=q.replica_id,
            replica_directory_id=q.config.directory_id,
            cluster_id=q.config.cluster_id,
        ),
    )


def on_fetch_snapshot_response(
    q: QuorumLogState, correlation_id: CorrelationId, response: FetchSnapshotResponse, now_ms: int
) -> None:
    """Take the piece that was asked for; an answer to any other request came too late to mean anything."""
    asked_as = q.role
    observe_answer(q, response.error, response.current_leader, now_ms)
    if q.role is not asked_as or not isinstance(asked_as, Follower) or asked_as.pending != correlation_id:
        return
    assert asked_as.catching_up is not None, asked_as
    role = replace(asked_as, pending=None)
    if response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leave_resigned_leader(q, now_ms)
    elif response.error is not ErrorCode.NONE:
        _fetch_records_later(q, role, now_ms)
    else:
        _take_piece(q, heard(q, role, now_ms), asked_as.catching_up, response, now_ms)


def _take_piece(
    q: QuorumLogState, role: Follower, catching_up: CatchingUp, response: FetchSnapshotResponse, now_ms: int
) -> None:
    if not _fits(catching_up, response):
        _fetch_records_later(q, role, now_ms)
        return
    if response.size_bytes > q.quorum.snapshot_max_bytes:
        _halt_too_large(q, catching_up.snapshot_id, response.size_bytes)
        return
    pieces = (*catching_up.pieces, response.data)
    position = catching_up.position + len(response.data)
    if position == response.size_bytes:
        received = Snapshot(id=catching_up.snapshot_id, data=b"".join(pieces))
        q.role = replace(role, catching_up=None, received=received)
        _check_voters(q, received, now_ms)
    else:
        more = replace(catching_up, pieces=pieces, position=position, size_bytes=response.size_bytes)
        q.role = replace(role, catching_up=more)


def _check_voters(q: QuorumLogState, received: Snapshot, now_ms: int) -> None:
    """Reject a snapshot that does not say who votes."""
    try:
        split_snapshot(received.data)
    except CorruptSnapshotError:
        reject_snapshot(q, now_ms)


def _halt_too_large(q: QuorumLogState, snapshot_id: SnapshotId, size_bytes: int) -> None:
    """Stop rather than fetch for ever what may not be held: the leader has another bound than this replica."""
    q.halt(
        f"the snapshot at {snapshot_id.end_offset} of leader {q.leader_id} has {size_bytes} bytes, more than "
        f"snapshot_max_bytes ({q.quorum.snapshot_max_bytes}) of this replica: start all replicas with the same bound"
    )


def _fits(catching_up: CatchingUp, response: FetchSnapshotResponse) -> bool:
    """Whether an answer is what comes next of this very snapshot."""
    return (
        response.snapshot_id == catching_up.snapshot_id
        and response.position == catching_up.position
        and catching_up.size_bytes in (None, response.size_bytes)
        and 0 < len(response.data) <= response.size_bytes - catching_up.position
    )


def received_snapshot(q: QuorumLogState) -> Snapshot | None:
    """Tell the snapshot that a follower has fetched whole: what it holds for whom the log is replayed.

    It waits to be installed or rejected, and goes with the leader from which it came; until then nothing is fetched.
    """
    received = q.role.received if isinstance(q.role, Follower) else None
    return received if received is None else Snapshot(id=received.id, data=split_snapshot(received.data)[1])


def install_snapshot(q: QuorumLogState, _now_ms: int) -> None:
    """Begin the log anew, empty, at the end of the snapshot that has come: durably, all in one effect.

    A snapshot of this follower's own that is just being stored is older, and not waited for any more.
    """
    role = q.role
    assert isinstance(role, Follower), role.name
    assert role.received is not None, role.name
    snapshot, q.storing = role.received, None
    q.snapshot_bytes = len(snapshot.data)
    voters, _ = split_snapshot(snapshot.data)
    q.log.start_after(StoredSnapshot(id=snapshot.id, size_bytes=len(snapshot.data)))
    q.role = replace(role, received=None, rejected=0)
    q.emit(InstallSnapshot(topic_partition=q.topic_partition, snapshot_id=snapshot.id, data=snapshot.data))
    q.emit(StoreEpochs(topic_partition=q.topic_partition, entries=q.log.epochs.entries))
    q.change_voters(voters)


def reject_snapshot(q: QuorumLogState, now_ms: int) -> None:
    """Forget the snapshot that has come: it cannot be loaded. The leader is asked again, after ever longer pauses.

    Damage on the way is rare; a leader whose snapshot is damaged on its disk has it until it takes another.
    """
    role = q.role
    assert isinstance(role, Follower), role.name
    assert role.received is not None, role.name
    pause_ms = min(q.quorum.retry_backoff_ms << min(role.rejected, DOUBLINGS_MAX), q.quorum.snapshot_backoff_max_ms)
    q.role = replace(role, received=None, rejected=role.rejected + 1, retry_at_ms=now_ms + pause_ms)
