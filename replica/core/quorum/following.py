"""A follower's work: fetch, reconcile, append, flush, and fetch again.

One request at a time, and none before everything appended is flushed: the next fetch offset tells the leader what this
replica will still have after a crash. When the leader finds that the logs part, the follower cuts its own back and asks
again; below its high watermark it never cuts, it halts instead, because then something committed is about to be lost.
All that a snapshot of its own holds lies below that.

Source: Kafka ``KafkaRaftClient.handleFetchResponse``, ``AbstractFetcherThread.getOffsetTruncationState``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.earliest import earliest
from replica.core.log.following import check_continuity, followed_high_watermark, may_fetch, shared_end
from replica.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from replica.core.quorum.catching_up import begin_catching_up, send_fetch_snapshot
from replica.core.quorum.hearing import heard
from replica.core.quorum.producing import acknowledge_committed
from replica.core.quorum.roles import Follower, Unattached
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transitions import become_prospective, become_unattached, leave_resigned_leader, observe_answer
from replica.core.quorum.voter_history import voters_in
from replica.errors import ErrorCode
from replica.ids import CorrelationId, EpochEndOffset, Offset, ReplicaId, SnapshotId
from replica.records import CorruptRecordError, parse_batches


def pump_follower(q: QuorumLogState, role: Follower, now_ms: int) -> None:
    """Give the leader up after a fetch timeout, or in its turn when its process has ended; or keep one request out."""
    if now_ms >= role.fetch_deadline_ms:
        if q.campaigns:
            become_prospective(q, now_ms, gone=frozenset({role.leader_id} if role.is_refused else ()))
        else:
            become_unattached(q, q.leader_epoch, now_ms)
    elif role.pending is None and role.received is None and now_ms >= role.retry_at_ms and may_fetch(q):
        q.role = replace(role, pending=_ask_leader(q, role))


def _ask_leader(q: QuorumLogState, role: Follower) -> CorrelationId:
    if role.catching_up is not None:
        return send_fetch_snapshot(q, role.leader_id, role.catching_up)
    return _send_fetch(q, role.leader_id)


def follower_deadline_ms(q: QuorumLogState, role: Follower) -> int:
    """Name when the follower has something to do again; while it flushes, or has a snapshot to load, it waits."""
    if role.pending is None and role.received is None and may_fetch(q):
        return min(role.fetch_deadline_ms, role.retry_at_ms)
    return role.fetch_deadline_ms


def pump_unattached(q: QuorumLogState, role: Unattached, now_ms: int) -> None:
    """A voter campaigns after its election timeout. Until then, and as an observer, it asks who leads."""
    if q.campaigns and now_ms >= role.election_deadline_ms:
        become_prospective(q, now_ms)
    elif role.pending is None and now_ms >= role.retry_at_ms and may_fetch(q):
        asked = _who_may_know(q)
        if asked:
            pending = _send_fetch(q, asked[role.questions % len(asked)])
            q.role = replace(role, pending=pending, questions=role.questions + 1)


def unattached_deadline_ms(q: QuorumLogState, role: Unattached) -> int | None:
    """Name when an unattached replica has something to do again; an observer waits for its answer or its flush."""
    asks = role.pending is None and may_fetch(q) and len(_who_may_know(q)) > 0
    return earliest(
        role.election_deadline_ms if q.campaigns else None,
        role.retry_at_ms if asks else None,
    )


def _who_may_know(q: QuorumLogState) -> tuple[ReplicaId, ...]:
    """Name whom an unattached replica asks who leads: the voters that it knows, and then whom the operator has named.

    Who campaigns hears from the former anyway. But those may all be gone:

    1. C of A, B and C is stopped. 2. A and B are replaced by D and E, and C is removed. 3. C is started. It would ask A
    and B for their votes for ever.
    """
    named = tuple(voter for voter in q.config.voters if voter not in q.other_voters and voter != q.replica_id)
    return named if q.campaigns else (*q.other_voters, *named)


def ask_whether_it_leads(q: QuorumLogState, replica_id: ReplicaId) -> None:
    """Ask a replica that was named as the leader; whatever this one is, it learns who leads from the answer."""
    if may_fetch(q):
        _send_fetch(q, replica_id)


def _send_fetch(q: QuorumLogState, replica_id: ReplicaId) -> CorrelationId:
    """Ask for what comes next; of a group's log what is committed may come with that, or a moment later."""
    is_owed = q.is_of_group and (q.log.high_watermark or 0) < q.log.log_end_offset
    part = FetchPartition(
        topic_partition=q.topic_partition,
        current_leader_epoch=q.leader_epoch,
        fetch_offset=q.log.log_end_offset,
        last_fetched_epoch=q.rules.last_fetched_epoch(last_epoch=q.log.last_epoch, leader_epoch=q.leader_epoch),
        high_watermark=q.log.high_watermark or Offset(0),
        high_watermark_may_wait=is_owed,
        max_bytes=q.quorum.fetch_max_bytes,
        read_round=q.role.read_round if isinstance(q.role, Follower) else 0,
    )
    return q.send(
        replica_id,
        FetchRequest(
            partitions=(part,),
            cluster_id=q.config.cluster_id,
            replica_id=q.replica_id,
            replica_directory_id=q.config.directory_id,
            max_wait_ms=min(q.quorum.fetch_max_wait_ms, q.quorum.high_watermark_wait_ms)
            if is_owed
            else q.quorum.fetch_max_wait_ms,
            max_bytes=q.quorum.fetch_max_bytes,
            newest_feature_level=None if q.is_of_group else q.config.newest_level,
        ),
    )


# --- answers --------------------------------------------------------------------------------------------------------


def on_fetch_response(q: QuorumLogState, correlation_id: CorrelationId, response: FetchResponse, now_ms: int) -> None:
    """Take the answer to the one outstanding request; an answer to any other came too late to mean anything."""
    asked_as = q.role
    answer = response.answer_for(q.topic_partition)
    observe_answer(q, answer.error, answer.current_leader, now_ms)
    if q.role is not asked_as or not isinstance(asked_as, Follower | Unattached) or asked_as.pending != correlation_id:
        return
    if isinstance(asked_as, Unattached) or answer.error is not ErrorCode.NONE:
        _on_refused(q, asked_as, answer.error, now_ms)
        return
    q.heard_leader_ms = now_ms
    q.role = heard(q, replace(asked_as, pending=None), now_ms)
    match answer:
        case FetchedPartition(snapshot_id=SnapshotId() as snapshot_id):
            begin_catching_up(q, q.role, snapshot_id, now_ms)
        case FetchedPartition(diverging_epoch=None):
            q.role = replace(q.role, read_round=answer.read_round)
            _on_records(q, answer, now_ms)
        case FetchedPartition():
            assert answer.diverging_epoch is not None, answer
            _maybe_follow_high_watermark(q, answer)
            _reconcile(q, answer.diverging_epoch, now_ms)


def _on_refused(q: QuorumLogState, role: Follower | Unattached, error: ErrorCode, now_ms: int) -> None:
    """Back off and ask again; but a leader that says it leads no more in this epoch is followed no more."""
    if isinstance(role, Follower) and error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        q.heard_leader_ms = None
        leave_resigned_leader(q, now_ms)
    else:
        q.role = replace(role, pending=None, retry_at_ms=now_ms + q.quorum.retry_backoff_ms)


def on_follow_send_failed(q: QuorumLogState, correlation_id: CorrelationId, now_ms: int) -> None:
    """Ask again after a pause. Whether the leader saw the request does not matter: fetching changes nothing there."""
    if isinstance(q.role, Follower | Unattached) and q.role.pending == correlation_id:
        q.role = replace(q.role, pending=None, retry_at_ms=now_ms + q.quorum.retry_backoff_ms)


def _on_records(q: QuorumLogState, answer: FetchedPartition, now_ms: int) -> None:
    try:
        batches = parse_batches(answer.records)
        check_continuity(q, batches, end_offset=q.log.log_end_offset, last_epoch=q.log.last_epoch)
        voters_in(batches)  # They are read again when they are appended, and must be sound by then.
    except CorruptRecordError:
        # Damaged on the way: nothing was appended, so fetching the same offset again is safe.
        _back_off(q, now_ms)
        return
    if batches:
        q.append(*batches)
    _maybe_follow_high_watermark(q, answer)


def _maybe_follow_high_watermark(q: QuorumLogState, answer: FetchedPartition) -> None:
    """Take the leader's high watermark as the rules say. In a quorum log it never goes back."""
    high_watermark = followed_high_watermark(q, answer)
    if high_watermark is None:
        return
    if q.log.high_watermark is not None and high_watermark < q.log.high_watermark:
        q.halt(
            f"the leader's high watermark {answer.high_watermark} is below {q.log.high_watermark}, which is committed"
        )
        return
    q.log.advance_high_watermark(high_watermark)
    acknowledge_committed(q)


def _reconcile(q: QuorumLogState, leader_end: EpochEndOffset, now_ms: int) -> None:
    """Cut the log back to where it can agree with the leader's."""
    assert isinstance(q.role, Follower), q.role
    if not q.log.is_flushed:
        assert may_fetch(q), (q.log.flushed_end_offset, q.log.log_end_offset)
        _back_off(q, now_ms)  # Only if the rules let a fetch go before the flush. A log is cut when it is at rest.
        return
    end_offset = shared_end(q, leader_end)
    if not q.rules.may_truncate(end_offset=end_offset, high_watermark=q.log.high_watermark):
        q.halt(
            f"leader {q.leader_id} in epoch {q.leader_epoch} asks to truncate to {end_offset}, "
            f"below the high watermark {q.log.high_watermark}: committed records would be lost"
        )
        return
    if end_offset < q.log.log_end_offset:
        q.truncate(end_offset)
    else:
        _back_off(q, now_ms)  # An answer that changes nothing must not be asked for again at full speed.


def _back_off(q: QuorumLogState, now_ms: int) -> None:
    assert isinstance(q.role, Follower), q.role
    q.role = replace(q.role, retry_at_ms=now_ms + q.quorum.retry_backoff_ms)
