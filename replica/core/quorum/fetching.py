"""Taking a Fetch: fence it, find divergence, believe its offset, and only then answer or park it.

A follower's fetch offset is its acknowledgement, so the order matters: a fenced or diverged follower acknowledges
nothing (KAFKA-13141), and a valid offset moves the high watermark first, so that the answer carries the new one. A
quorum log is fetched alone. A follower whose log cannot go on from the records that are left is sent to a snapshot.

Source: Kafka ``KafkaRaftClient.handleFetchRequest``.
"""

from __future__ import annotations

from replica.core.log.fencing import cluster_error, leader_request_error
from replica.core.messages import FetchPartition, FetchRequest, FetchResponse
from replica.core.quorum.fencing import peer_error
from replica.core.quorum.serving import (
    is_answerable,
    refuse_fetch,
    reply_to_fetch,
    reply_with_divergence,
    reply_with_snapshot_id,
)
from replica.core.quorum.state import ParkedFetch, QuorumLogState
from replica.core.quorum.watermark import maybe_advance_high_watermark, note_fetch
from replica.errors import ErrorCode
from replica.ids import CallId, EpochEndOffset, Offset, SnapshotId
from replica.voters import ReplicaKey, is_directory_name


def on_fetch(q: QuorumLogState, call_id: CallId, request: FetchRequest, now_ms: int) -> None:
    """Answer or park a fetch from a follower, an observer or a consumer."""
    is_replica = request.replica_id is not None
    refused = (peer_error if is_replica else cluster_error)(q, request.cluster_id)
    if refused is None and len(request.partitions) != 1:
        refused = ErrorCode.INVALID_REQUEST
    if refused is not None:
        q.reply(call_id, FetchResponse(error=refused))
        return
    (part,) = request.partitions
    assert part.topic_partition == q.topic_partition, (part, q.topic_partition)
    error = _error(q, request, part)
    if error is not None:
        refuse_fetch(q, call_id, request, error)
        return
    snapshot_id = _snapshot_id(q, request, part)
    if snapshot_id is not None:
        reply_with_snapshot_id(q, call_id, request, snapshot_id)
        return
    diverging_epoch = _diverging_epoch(q, part)
    if request.replica_id is not None and q.rules.fetch_acknowledges(diverged=diverging_epoch is not None):
        note_fetch(q, ReplicaKey(request.replica_id, request.replica_directory_id), request, now_ms)
        maybe_advance_high_watermark(q)
    if diverging_epoch is not None:
        reply_with_divergence(q, call_id, request, diverging_epoch)
        return
    max_wait_ms = min(request.max_wait_ms, q.quorum.fetch_wait_max_ms)
    parked = ParkedFetch(call_id=call_id, deadline_ms=now_ms + max_wait_ms, request=request, part=part)
    if max_wait_ms > 0 and not q.fetches.is_full and not is_answerable(q, parked):
        q.fetches.add(parked)
    else:
        reply_to_fetch(q, parked)


def _error(q: QuorumLogState, request: FetchRequest, part: FetchPartition) -> ErrorCode | None:
    error = _malformed(q, request, part) or leader_request_error(
        q, cluster_id=request.cluster_id, current_leader_epoch=part.current_leader_epoch
    )
    if error is None and not _readable_start(q, request) <= part.fetch_offset <= _readable_end(q, part):
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return error


def _malformed(q: QuorumLogState, request: FetchRequest, part: FetchPartition) -> ErrorCode | None:
    """Epochs are mandatory on a replica's fetch: without them neither fencing nor divergence can be seen."""
    known = part.current_leader_epoch
    last = part.last_fetched_epoch
    believable = (
        part.fetch_offset >= 0
        and request.max_wait_ms >= 0
        and part.read_round >= 0
        and min(request.max_bytes, part.max_bytes) > 0
        and (last is None or last >= 0)
        and (known is None or last is None or last <= known)
        and (request.replica_id is None or (known is not None and last is not None))
        and request.replica_id != q.replica_id
        and is_directory_name(request.replica_directory_id)
    )
    return None if believable else ErrorCode.INVALID_REQUEST


def _readable_start(q: QuorumLogState, request: FetchRequest) -> Offset:
    """A replica that lacks what is gone from the log is sent to a snapshot; anyone else is out of range there."""
    return q.log.log_start_offset if request.replica_id is None else Offset(0)


def _readable_end(q: QuorumLogState, part: FetchPartition) -> Offset:
    """A replica beyond the log's end has diverged and is told where; anyone else is out of range there."""
    return part.fetch_offset if part.last_fetched_epoch is not None else q.log.log_end_offset


def _snapshot_id(q: QuorumLogState, request: FetchRequest, part: FetchPartition) -> SnapshotId | None:
    """Find the snapshot that a replica needs before it can go on with records."""
    if request.replica_id is None or part.last_fetched_epoch is None:
        return None
    return q.log.snapshot_instead(part.fetch_offset, part.last_fetched_epoch)


def _diverging_epoch(q: QuorumLogState, part: FetchPartition) -> EpochEndOffset | None:
    """Find where the sender's log leaves this one; one that does not say what it holds is not compared."""
    if part.last_fetched_epoch is None:
        return None
    return q.log.diverging_epoch(part.fetch_offset, part.last_fetched_epoch)
