"""The way of a record into the log: checked, stamped, appended, and acknowledged when the protocol says so.

Everything that can refuse a batch refuses it before anything is appended, and says so (``not_appended``), so that the
client knows that a retry cannot duplicate it. Once appended, an ``acks=all`` write is answered when it is committed;
any other end of the wait (time is up, leadership lost) leaves its outcome unknown.

Source: Kafka ``ReplicaManager.appendRecords``, ``DelayedProduce``; order of checks as there.
"""

from __future__ import annotations

from replica.core.messages import ProduceRequest, ProduceResponse
from replica.core.quorum.fencing import leader_request_error
from replica.core.quorum.serving import complete_fetches
from replica.core.quorum.state import ParkedProduce, QuorumLogState
from replica.core.refusals import unfit_batch
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
from replica.records import (
    SERVER_DECOMPRESSED_BYTES_MAX,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    check_produced,
    parse_produced,
)

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1


def on_produce(q: QuorumLogState, call_id: CallId, request: ProduceRequest, now_ms: int) -> None:
    """Append the request's one batch and answer, at once or when it is committed."""
    try:
        checked = _checked_batch(q, request)
    except (CorruptRecordError, InvalidRecordError) as unfit:
        q.reply(call_id, unfit_batch(unfit, q.current_leader))
        return
    if isinstance(checked, ErrorCode):
        q.reply(call_id, ProduceResponse(error=checked, not_appended=True, current_leader=q.current_leader))
        return
    batch = checked.stamped(base_offset=q.log.log_end_offset, leader_epoch=q.epoch)
    q.append(batch)
    complete_fetches(q)
    if request.acks == ACKS_ALL:
        q.produces.add(
            ParkedProduce(
                call_id=call_id,
                deadline_ms=now_ms + min(max(request.timeout_ms, 0), q.quorum.produce_timeout_max_ms),
                base_offset=batch.base_offset,
                end_offset=batch.end_offset,
            )
        )
        acknowledge_committed(q)
    elif request.acks == ACKS_LEADER:
        _acknowledge(q, call_id, batch.base_offset)
    else:
        q.reply(call_id, ProduceResponse(error=ErrorCode.NONE, leader_epoch=q.epoch))


def _checked_batch(q: QuorumLogState, request: ProduceRequest) -> RecordBatch | ErrorCode:
    """Return the batch to append, or why it is refused; the order of the checks is part of the protocol.

    Raises CorruptRecordError, InvalidRecordError.
    """
    if request.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
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
    committed = q.produces.take_while(
        lambda parked: q.rules.produce_is_committed(end_offset=parked.end_offset, high_watermark=q.high_watermark)
    )
    for parked in committed:
        _acknowledge(q, parked.call_id, parked.base_offset)


def _acknowledge(q: QuorumLogState, call_id: CallId, base_offset: Offset) -> None:
    q.reply(call_id, ProduceResponse(error=ErrorCode.NONE, base_offset=base_offset, leader_epoch=q.epoch))
