"""Questions that change nothing: where epochs end, how far the log reaches, what is in it.

Source: Kafka's OffsetForLeaderEpoch and ListOffsets handlers. DescribeReplica and DumpLog are ours: any replica answers
for itself, so that a convergence check can read what a replica holds and not what a leader says.
"""

from __future__ import annotations

from replica.bounds import EPOCHS_MAX
from replica.core.effects import LogRange, ReplyWithOffset, ReplyWithRecords
from replica.core.log.fencing import leader_request_error
from replica.core.log.replicated_log import ReplicatedLog
from replica.core.messages import (
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from replica.errors import ErrorCode
from replica.ids import CallId


def on_offset_for_leader_epoch(
    log: ReplicatedLog, call_id: CallId, request: OffsetForLeaderEpochRequest, _now_ms: int
) -> None:
    """Tell where an epoch ends in the leader's log; absent, without an error, where that is undefined."""
    error = leader_request_error(log, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    log.reply(
        call_id,
        OffsetForLeaderEpochResponse(
            error=error or ErrorCode.NONE,
            answer=log.end_of_epoch(request.leader_epoch) if error is None else None,
            log_start_offset=log.log.log_start_offset if error is None else None,
            current_leader=log.current_leader,
        ),
    )


def on_list_offsets(log: ReplicatedLog, call_id: CallId, request: ListOffsetsRequest, _now_ms: int) -> None:
    """Tell the log's first offset, the end of what the asker may read, or the first record not older than a time.

    A client that asks for the latter two has to wait until a new leader knows its high watermark. With an end comes the
    epoch of the record just below it, with the start that of the first record.
    """
    error = leader_request_error(log, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    if error is None and request.timestamp_ms is not None and not log.is_searched_by_time:
        error = ErrorCode.INVALID_REQUEST
    if error is not None:
        log.reply(call_id, ListOffsetsResponse(error=error, current_leader=log.current_leader))
        return
    offset, leader_epoch = log.log.log_start_offset, log.log.first_epoch
    if request.latest or request.timestamp_ms is not None:
        end_offset = log.consumers_end if request.replica_id is None else log.log.log_end_offset
        if end_offset is None:
            not_yet = ListOffsetsResponse(error=ErrorCode.OFFSET_NOT_AVAILABLE, current_leader=log.current_leader)
            log.reply(call_id, not_yet)
            return
        if request.timestamp_ms is not None:
            log.emit(
                ReplyWithOffset(
                    call_id=call_id,
                    response=ListOffsetsResponse(error=ErrorCode.NONE, current_leader=log.current_leader),
                    topic_partition=log.topic_partition,
                    timestamp_ms=request.timestamp_ms,
                    end_offset=end_offset,
                )
            )
            return
        offset, leader_epoch = end_offset, log.log.epoch_below(end_offset)
    log.reply(
        call_id,
        ListOffsetsResponse(
            error=ErrorCode.NONE, offset=offset, leader_epoch=leader_epoch, current_leader=log.current_leader
        ),
    )


def on_describe_replica(log: ReplicatedLog, call_id: CallId, request: DescribeReplicaRequest, _now_ms: int) -> None:
    """Tell this replica's own state of the log, whatever its role."""
    assert request.topic_partition == log.topic_partition, request
    log.reply(
        call_id,
        DescribeReplicaResponse(
            error=ErrorCode.NONE,
            replica_id=log.replica_id,
            directory_id=log.directory_id,
            cluster_id=log.cluster_id,
            role=log.role_name,
            leader=log.current_leader,
            log_start_offset=log.log.log_start_offset,
            high_watermark=log.high_watermark,
            flushed_end_offset=log.log.flushed_end_offset,
            log_end_offset=log.log.log_end_offset,
            epochs=log.log.epochs.entries[-EPOCHS_MAX:],
            addresses=log.addresses,
            peer_address=log.peer_address,
        ),
    )


def on_dump_log(log: ReplicatedLog, call_id: CallId, request: DumpLogRequest, _now_ms: int) -> None:
    """Hand out this replica's own records, committed or not: with ``dump_max_bytes`` at most, however many it asks."""
    end_offset = log.log.log_end_offset
    if request.max_bytes <= 0:
        log.reply(call_id, DumpLogResponse(error=ErrorCode.INVALID_REQUEST))
    elif not log.log.log_start_offset <= request.offset <= end_offset:
        log.reply(call_id, DumpLogResponse(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    else:
        response = DumpLogResponse(error=ErrorCode.NONE, high_watermark=log.high_watermark, log_end_offset=end_offset)
        if request.offset == end_offset:
            log.reply(call_id, response)
            return
        max_bytes = min(request.max_bytes, log.limits.dump_max_bytes)
        wanted = LogRange(
            topic_partition=log.topic_partition,
            start_offset=request.offset,
            end_offset=end_offset,
            max_bytes=max_bytes,
        )
        log.emit(ReplyWithRecords(call_id=call_id, response=response, ranges=(wanted,), max_bytes=max_bytes))
