"""The way of a record into the log: checked, stamped, appended, and acknowledged when a majority has it."""

from __future__ import annotations

from replica.core.log.fencing import leader_request_error
from replica.core.log.producing import (
    ACKS_ALL,
    ACKS_LEADER,
    acknowledge,
    await_commit,
    has_valid_acks,
    is_committed,
    refused,
)
from replica.core.messages import ProduceRequest, ProduceResponse
from replica.core.quorum.serving import complete_fetches
from replica.core.quorum.state import QuorumLogState
from replica.core.refusals import unfit_batch
from replica.errors import ErrorCode
from replica.ids import CallId
from replica.records import (
    SERVER_DECOMPRESSED_BYTES_MAX,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    check_produced,
    parse_produced,
)


def on_produce(q: QuorumLogState, call_id: CallId, request: ProduceRequest, now_ms: int) -> None:
    """Append the request's one batch and answer, at once or when it is committed."""
    try:
        checked = _checked_batch(q, request)
    except (CorruptRecordError, InvalidRecordError) as unfit:
        q.reply(call_id, unfit_batch(unfit, q.current_leader))
        return
    if isinstance(checked, ErrorCode):
        q.reply(call_id, refused(q, checked))
        return
    batch = checked.stamped(base_offset=q.log.log_end_offset, leader_epoch=q.leader_epoch)
    q.append(batch)
    complete_fetches(q)
    if request.acks == ACKS_ALL:
        await_commit(q, call_id, request, batch.base_offset, batch.end_offset, now_ms)
        acknowledge_committed(q)
    elif request.acks == ACKS_LEADER:
        acknowledge(q, call_id, batch.base_offset)
    else:
        q.reply(call_id, ProduceResponse(error=ErrorCode.NONE, leader_epoch=q.leader_epoch))


def _checked_batch(q: QuorumLogState, request: ProduceRequest) -> RecordBatch | ErrorCode:
    """Return the batch to append, or why it is refused; the order of the checks is part of the protocol.

    Raises CorruptRecordError, InvalidRecordError.
    """
    if not has_valid_acks(request):
        return ErrorCode.INVALID_REQUIRED_ACKS
    refused = leader_request_error(q, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    if refused is not None:
        return refused
    if q.is_handing_over:
        return ErrorCode.LEADER_NOT_AVAILABLE
    if q.produces.is_full:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if len(request.records) > q.quorum.message_max_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    batch = parse_produced(request.records)
    check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)
    return batch


def acknowledge_committed(q: QuorumLogState) -> None:
    """Answer the parked appends that are committed now, oldest first."""
    for parked in q.produces.take_while(lambda parked: is_committed(q, parked)):
        acknowledge(q, parked.call_id, parked.base_offset)
