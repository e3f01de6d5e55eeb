"""Taking a Fetch: fence it, find divergence, believe its offset, and only then answer or park it.

A follower's fetch offset is its acknowledgement, so the order matters: a fenced or diverged follower acknowledges
nothing (KAFKA-13141), and a valid offset moves the high watermark first, so that the answer carries the new one.

Source: Kafka ``KafkaRaftClient.handleFetchRequest``.
"""

from __future__ import annotations

from replica.core.messages import FetchRequest, FetchResponse
from replica.core.quorum.fencing import cluster_error, leader_request_error
from replica.core.quorum.serving import is_answerable, reply_to_fetch
from replica.core.quorum.state import ParkedFetch, QuorumLogState
from replica.core.quorum.watermark import maybe_advance_high_watermark, note_fetch
from replica.errors import ErrorCode
from replica.ids import CallId, EpochEndOffset, Offset


def on_fetch(q: QuorumLogState, call_id: CallId, request: FetchRequest, now_ms: int) -> None:
    """Answer or park a fetch from a follower, an observer or a consumer."""
    error = (
        cluster_error(q, request.cluster_id)
        or _malformed(q, request)
        or leader_request_error(q, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    )
    if error is None and not q.log.log_start_offset <= request.fetch_offset <= _readable_end(q, request):
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    if error is not None:
        q.reply(call_id, FetchResponse(error=error, current_leader=q.current_leader))
        return
    diverging_epoch = _diverging_epoch(q, request)
    if request.replica_id is not None and q.rules.fetch_acknowledges(diverged=diverging_epoch is not None):
        note_fetch(q, request.replica_id, request.fetch_offset, now_ms)
        maybe_advance_high_watermark(q)
    if diverging_epoch is not None:
        _reply_with_divergence(q, call_id, diverging_epoch)
        return
    max_wait_ms = min(request.max_wait_ms, q.quorum.fetch_wait_max_ms)
    if max_wait_ms > 0 and not q.fetches.is_full and not is_answerable(q, request):
        q.fetches.add(ParkedFetch(call_id=call_id, deadline_ms=now_ms + max_wait_ms, request=request))
    else:
        reply_to_fetch(q, call_id, request)


def _malformed(q: QuorumLogState, request: FetchRequest) -> ErrorCode | None:
    """Epochs are mandatory on a replica's fetch: without them neither fencing nor divergence can be seen."""
    known = request.current_leader_epoch
    last = request.last_fetched_epoch
    believable = (
        request.fetch_offset >= 0
        and request.max_wait_ms >= 0
        and request.max_bytes > 0
        and (last is None or last >= 0)
        and (known is None or last is None or last <= known)
        and (request.replica_id is None or (known is not None and last is not None))
        and request.replica_id != q.replica_id
    )
    return None if believable else ErrorCode.INVALID_REQUEST


def _readable_end(q: QuorumLogState, request: FetchRequest) -> Offset:
    """A replica beyond the log's end has diverged and is told where; anyone else is out of range there."""
    return request.fetch_offset if request.last_fetched_epoch is not None else q.log.log_end_offset


def _diverging_epoch(q: QuorumLogState, request: FetchRequest) -> EpochEndOffset | None:
    """Find where the sender's log leaves this one; one that does not say what it holds is not compared."""
    if request.last_fetched_epoch is None:
        return None
    return q.log.diverging_epoch(request.fetch_offset, request.last_fetched_epoch)


def _reply_with_divergence(q: QuorumLogState, call_id: CallId, diverging_epoch: EpochEndOffset) -> None:
    """Tell the sender where the logs part. As every answer this has the high watermark, which the sender ignores."""
    q.reply(
        call_id,
        FetchResponse(
            error=ErrorCode.NONE,
            high_watermark=q.high_watermark,
            diverging_epoch=diverging_epoch,
            current_leader=q.current_leader,
        ),
    )
