"""Answering DumpLog: any replica hands out what its own log of any kind holds, committed or not.

It is ours, without a counterpart in Kafka, so that a convergence check can read what a replica holds and not what a
leader says.
"""

from __future__ import annotations

from replica.core.effects import LogRange, Reply, ReplyWithRecords
from replica.core.log_state import LogState
from replica.core.messages import DumpLogRequest, DumpLogResponse
from replica.errors import ErrorCode
from replica.ids import CallId, Offset


def dumped(
    call_id: CallId, request: DumpLogRequest, log: LogState, *, high_watermark: Offset | None, max_bytes: int
) -> Reply | ReplyWithRecords:
    """The answer from ``log``, with at most ``max_bytes`` of records, however many are asked for."""
    if request.max_bytes <= 0:
        return Reply(call_id=call_id, response=DumpLogResponse(error=ErrorCode.INVALID_REQUEST))
    if not log.log_start_offset <= request.offset <= log.log_end_offset:
        return Reply(call_id=call_id, response=DumpLogResponse(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    response = DumpLogResponse(error=ErrorCode.NONE, high_watermark=high_watermark, log_end_offset=log.log_end_offset)
    if request.offset == log.log_end_offset:
        return Reply(call_id=call_id, response=response)
    wanted = LogRange(
        topic_partition=request.topic_partition,
        start_offset=request.offset,
        end_offset=log.log_end_offset,
        max_bytes=min(request.max_bytes, max_bytes),
    )
    return ReplyWithRecords(call_id=call_id, response=response, ranges=(wanted,), max_bytes=wanted.max_bytes)
