"""The way of a record into the log: checked, stamped, appended, and acknowledged when the protocol says so.

A batch that an idempotent producer sends again is not appended again: it is answered, or waits, as the first time.

Source: Kafka ``Partition.appendRecordsToLeader``; order of checks as there.
"""

from __future__ import annotations

from replica.core.log.fencing import leader_request_error
from replica.core.log.producing import ACKS_ALL, ACKS_LEADER, acknowledge, await_commit, has_valid_acks, refused
from replica.core.messages import ProduceRequest, ProduceResponse
from replica.core.metadata.configs import TimestampType
from replica.core.partition.isr import note_sessions
from replica.core.partition.producer_state import Duplicate
from replica.core.partition.state import PartitionState
from replica.core.partition.watermark import acknowledge_committed, maybe_advance_high_watermark
from replica.core.refusals import unfit_batch
from replica.errors import ErrorCode
from replica.ids import CallId
from replica.records import (
    NO_TIMESTAMP,
    SERVER_DECOMPRESSED_BYTES_MAX,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    RecordTimes,
    check_produced,
    parse_produced,
)


def on_produce(p: PartitionState, call_id: CallId, request: ProduceRequest, now_ms: int) -> None:
    """Append the request's one batch and answer, at once or when it is committed."""
    try:
        checked = _admission_error(p, request) or _checked_batch(p, request, now_ms)
    except (CorruptRecordError, InvalidRecordError) as unfit:
        p.reply(call_id, unfit_batch(unfit, p.current_leader))
        return
    if isinstance(checked, ErrorCode):
        checked = refused(p, checked)
    if isinstance(checked, ProduceResponse):
        p.reply(call_id, checked)
        return
    if isinstance(checked, RecordBatch):
        batch = checked.stamped(base_offset=p.log.log_end_offset, leader_epoch=p.leader_epoch)
        note_sessions(p)
        p.append(batch)
        maybe_advance_high_watermark(p, now_ms)
        base_offset, end_offset = batch.base_offset, batch.end_offset
    else:
        base_offset, end_offset = checked.base_offset, checked.end_offset
    if request.acks == ACKS_ALL and _lacks_replicas(p):  # By the right rules this was found before the append.
        p.reply(call_id, refused(p, ErrorCode.NOT_ENOUGH_REPLICAS))
    elif request.acks == ACKS_ALL:
        await_commit(p, call_id, request, base_offset, end_offset, now_ms)
        acknowledge_committed(p)
    elif request.acks == ACKS_LEADER:
        acknowledge(p, call_id, base_offset)
    else:
        p.reply(call_id, ProduceResponse(error=ErrorCode.NONE, leader_epoch=p.leader_epoch))


def _admission_error(p: PartitionState, request: ProduceRequest) -> ErrorCode | None:
    """Refuse a write before its bytes are looked at; the order of the checks is part of the protocol."""
    if not has_valid_acks(request):
        return ErrorCode.INVALID_REQUIRED_ACKS
    refused = leader_request_error(p, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch)
    if refused is not None:
        return refused
    if request.acks == ACKS_ALL and p.rules.min_isr_is_checked_before_append() and _lacks_replicas(p):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if p.produces.is_full:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if len(request.records) > min(p.config.message_max_bytes, p.topic.max_message_bytes):
        return ErrorCode.MESSAGE_TOO_LARGE
    return None


def _lacks_replicas(p: PartitionState) -> bool:
    return not p.rules.has_enough_replicas(isr_size=len(p.in_sync_replicas), min_insync_replicas=p.effective_min_isr)


def _checked_batch(
    p: PartitionState, request: ProduceRequest, now_ms: int
) -> RecordBatch | Duplicate | ProduceResponse | ErrorCode:
    """Return the batch to append, where it stands already, or why it is refused.

    Raises CorruptRecordError, InvalidRecordError.
    """
    batch = parse_produced(request.records)
    times = check_produced(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX)
    verdict = p.producers.check(batch, now_ms)
    if isinstance(verdict, ErrorCode) and p.producers.awaits_scan:
        # The log was cut and is being read again: soon it is known which batches of this producer it holds.
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if verdict is not None:
        return verdict
    if batch.is_idempotent and not p.producers.has_room_for(batch.producer_id):
        return refused(
            p,
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{p.config.producer_ids_max} producers are remembered here, the most there may be; a new one is taken "
            f"when one of them has written nothing for {p.config.producer_id_expiration_ms} ms",
        )
    return _timed_batch(p, batch, times, now_ms)


def _timed_batch(
    p: PartitionState, batch: RecordBatch, times: RecordTimes, now_ms: int
) -> RecordBatch | ProduceResponse:
    """Let the records bear the time of their append, or refuse times that their topic does not allow (KIP-937).

    After a jump of the cluster's time, which may be somebody's forgery, nobody is refused who is right by this
    machine's clock: as long as nothing is deleted for its age.
    """
    times_ms = p.clock.times_ms(now_ms, doubt_ms=p.config.log_retention_check_interval_ms)
    if not times_ms:  # Nobody has said what time it is, so that no time is wrong.
        return batch
    if p.topic.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return batch.at_append_time(times_ms[0])
    latest_ms = max(times_ms) + p.topic.message_timestamp_after_max_ms
    earliest_ms = min(times_ms) - p.topic.message_timestamp_before_max_ms
    for timestamp_ms in (times.newest_ms, times.oldest_ms):
        if timestamp_ms != NO_TIMESTAMP and not earliest_ms <= timestamp_ms <= latest_ms:
            message = f"a record's timestamp is {timestamp_ms}; it must be from {earliest_ms} to {latest_ms}"
            return refused(p, ErrorCode.INVALID_TIMESTAMP, message)
    return batch
