"""The way of a record into the log: checked, stamped, appended, and acknowledged when the protocol says so.

Everything that can refuse a batch refuses it before anything is appended, and says so (``not_appended``), so that the
client knows that a retry cannot duplicate it. Once appended, an ``acks=all`` write is answered when it is committed;
any other end of the wait (time is up, leadership lost) leaves its outcome unknown. A batch that an idempotent producer
sends again is not appended again: it is answered, or waits, as the first time.

Source: Kafka ``ReplicaManager.appendRecords``, ``Partition.appendRecordsToLeader``, ``DelayedProduce``; order of checks
as there.
"""

from __future__ import annotations

from replica.core.messages import ProduceRequest, ProduceResponse
from replica.core.metadata.configs import TimestampType
from replica.core.partition.fencing import leader_request_error
from replica.core.partition.isr import note_sessions
from replica.core.partition.producer_state import Duplicate
from replica.core.partition.state import ParkedProduce, PartitionState
from replica.core.partition.watermark import acknowledge, acknowledge_committed, maybe_advance_high_watermark
from replica.core.refusals import unfit_batch
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
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

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1


def has_valid_acks(request: ProduceRequest) -> bool:
    """Whether a write says in a way that there is when it is to be acknowledged."""
    return request.acks in (ACKS_ALL, ACKS_NONE, ACKS_LEADER)


def on_produce(p: PartitionState, call_id: CallId, request: ProduceRequest, now_ms: int) -> None:
    """Append the request's one batch and answer, at once or when it is committed."""
    try:
        checked = _admission_error(p, request) or _checked_batch(p, request, now_ms)
    except (CorruptRecordError, InvalidRecordError) as unfit:
        p.reply(call_id, unfit_batch(unfit, p.current_leader))
        return
    if isinstance(checked, ErrorCode):
        checked = _refusal(p, checked)
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
        p.reply(call_id, _refusal(p, ErrorCode.NOT_ENOUGH_REPLICAS))
    elif request.acks == ACKS_ALL:
        _await_commit(p, call_id, request, base_offset, end_offset, now_ms)
    elif request.acks == ACKS_LEADER:
        acknowledge(p, call_id, base_offset)
    else:
        p.reply(call_id, ProduceResponse(error=ErrorCode.NONE, leader_epoch=p.leader_epoch))


def _refusal(p: PartitionState, error: ErrorCode, message: str = "") -> ProduceResponse:
    return ProduceResponse(error=error, message=message, not_appended=True, current_leader=p.current_leader)


def _await_commit(
    p: PartitionState, call_id: CallId, request: ProduceRequest, base_offset: Offset, end_offset: Offset, now_ms: int
) -> None:
    p.produces.add(
        ParkedProduce(
            call_id=call_id,
            deadline_ms=now_ms + min(max(request.timeout_ms, 0), p.config.produce_timeout_max_ms),
            base_offset=base_offset,
            end_offset=end_offset,
        )
    )
    acknowledge_committed(p)


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
        return _refusal(
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
            return _refusal(p, ErrorCode.INVALID_TIMESTAMP, message)
    return batch


def expire_produces(p: PartitionState, now_ms: int) -> None:
    """Answer the parked appends whose time is up: they may be committed later, nobody knows."""
    for parked in p.produces.take_expired(now_ms):
        p.reply(
            parked.call_id,
            ProduceResponse(error=ErrorCode.REQUEST_TIMED_OUT, current_leader=p.current_leader),
        )


def fail_produces(p: PartitionState) -> None:
    """Answer all parked appends, the leadership being over: they are in a log, and may be committed or cut."""
    for parked in p.produces.take_all():
        p.reply(
            parked.call_id,
            ProduceResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=p.current_leader),
        )
