"""Questions that change nothing: where epochs end, how far the log reaches, what is in it; and what is too old.

Source: Kafka's OffsetForLeaderEpoch and ListOffsets handlers; DescribeReplica is ours, as DumpLog is: any replica
answers for itself.
"""

from __future__ import annotations

from replica.bounds import EPOCHS_MAX
from replica.core.dumping import dumped
from replica.core.effects import ApplyRetention, ReplyWithOffset
from replica.core.messages import (
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from replica.core.partition.fencing import leader_request_error
from replica.core.partition.roles import Leader
from replica.core.partition.state import PartitionState
from replica.errors import ErrorCode
from replica.ids import CallId, Offset


def on_offset_for_leader_epoch(
    p: PartitionState, call_id: CallId, request: OffsetForLeaderEpochRequest, _now_ms: int
) -> None:
    """Tell where an epoch ends in the leader's log; absent, without an error, where that is undefined."""
    error = leader_request_error(p, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    answer = None
    if error is None:
        answer = p.rules.partition_epoch_end(
            epochs=p.log.epochs, epoch=request.leader_epoch, log_end_offset=p.log.log_end_offset
        )
    p.reply(
        call_id,
        OffsetForLeaderEpochResponse(
            error=error or ErrorCode.NONE,
            answer=answer,
            log_start_offset=p.log.log_start_offset if error is None else None,
            current_leader=p.current_leader,
        ),
    )


def on_list_offsets(p: PartitionState, call_id: CallId, request: ListOffsetsRequest, _now_ms: int) -> None:
    """Tell the log's first offset, the end of what the asker may read, or the first record not older than a time.

    A client that asks for the latter two has to wait until a new leader knows its high watermark.
    """
    error = leader_request_error(p, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    wants_start = not request.latest and request.timestamp_ms is None
    if error is None and not wants_start and request.replica_id is None and not _knows_high_watermark(p):
        error = ErrorCode.OFFSET_NOT_AVAILABLE
    if error is not None:
        p.reply(call_id, ListOffsetsResponse(error=error, current_leader=p.current_leader))
        return
    end_offset = p.high_watermark if request.replica_id is None else p.log.log_end_offset
    if request.timestamp_ms is not None:
        p.emit(
            ReplyWithOffset(
                call_id=call_id,
                response=ListOffsetsResponse(error=ErrorCode.NONE, current_leader=p.current_leader),
                topic_partition=p.topic_partition,
                timestamp_ms=request.timestamp_ms,
                end_offset=end_offset,
            )
        )
        return
    _reply_with_offset(p, call_id, p.log.log_start_offset if wants_start else end_offset, is_end=not wants_start)


def _knows_high_watermark(p: PartitionState) -> bool:
    assert isinstance(p.role, Leader), p.role
    return p.rules.knows_high_watermark(high_watermark=p.high_watermark, epoch_start_offset=p.role.epoch_start_offset)


def _reply_with_offset(p: PartitionState, call_id: CallId, offset: Offset, *, is_end: bool) -> None:
    """Answer with an end and the epoch of the record just below it, or with the log's start and that of the first."""
    p.reply(
        call_id,
        ListOffsetsResponse(
            error=ErrorCode.NONE,
            offset=offset,
            leader_epoch=p.log.epoch_below(offset) if is_end else p.log.first_epoch,
            current_leader=p.current_leader,
        ),
    )


def maybe_apply_retention(p: PartitionState, now_ms: int) -> None:
    """Ask now and then, leader or not, what is old enough to be forgotten of what is committed; and who is.

    A follower that remembered producers for ever would take no new ones once it leads.
    """
    if p.retention_check_at_ms is None or now_ms < p.retention_check_at_ms:
        return
    p.retention_check_at_ms = now_ms + p.config.log_retention_check_interval_ms
    p.producers.expire(now_ms)
    if p.topic.retention_ms is None and p.topic.retention_bytes is None:
        return
    may_expire = p.rules.may_expire_by_time(
        is_known=p.clock.is_known,
        steady_ms=p.clock.steady_ms(now_ms),
        check_interval_ms=p.config.log_retention_check_interval_ms,
    )
    p.emit(
        ApplyRetention(
            topic_partition=p.topic_partition,
            high_watermark=p.rules.deletable_end(high_watermark=p.high_watermark, log_end_offset=p.log.log_end_offset),
            unix_ms=p.clock.unix_ms(now_ms) if may_expire else None,
            retention_ms=p.topic.retention_ms,
            retention_bytes=p.topic.retention_bytes,
        )
    )


def on_describe_replica(p: PartitionState, call_id: CallId, request: DescribeReplicaRequest, _now_ms: int) -> None:
    """Tell this replica's own state of the partition, whatever its role."""
    assert request.topic_partition == p.topic_partition, request
    p.reply(
        call_id,
        DescribeReplicaResponse(
            error=ErrorCode.NONE,
            replica_id=p.broker_id,
            directory_id=p.directory_id,
            cluster_id=p.cluster_id,
            role=p.role.name,
            leader=p.current_leader,
            log_start_offset=p.log.log_start_offset,
            high_watermark=p.high_watermark,
            flushed_end_offset=p.log.flushed_end_offset,
            log_end_offset=p.log.log_end_offset,
            epochs=p.log.epochs.entries[-EPOCHS_MAX:],
            addresses={broker_id: broker.address for broker_id, broker in p.brokers.items()},
        ),
    )


def on_dump_log(p: PartitionState, call_id: CallId, request: DumpLogRequest, _now_ms: int) -> None:
    """Hand out this replica's own records, committed or not."""
    p.emit(dumped(call_id, request, p.log, high_watermark=p.high_watermark, max_bytes=p.config.dump_max_bytes))
