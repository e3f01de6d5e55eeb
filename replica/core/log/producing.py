"""When a write is acknowledged: at once, or when everything up to it is committed.

Once appended, an ``acks=all`` write is answered when it is committed; any other end of the wait (time is up, leadership
lost) leaves its outcome unknown. What refuses a batch refuses it before anything is appended, and says so.

Source: Kafka ``ReplicaManager.appendRecords``, ``DelayedProduce``.
"""

from __future__ import annotations

from replica.core.log.replicated_log import ParkedProduce, ReplicatedLog
from replica.core.messages import ProduceRequest, ProduceResponse
from replica.errors import ErrorCode
from replica.ids import CallId, Offset

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1


def has_valid_acks(request: ProduceRequest) -> bool:
    """Whether a write says in a way that there is when it is to be acknowledged."""
    return request.acks in (ACKS_ALL, ACKS_NONE, ACKS_LEADER)


def refused(log: ReplicatedLog, error: ErrorCode, message: str = "") -> ProduceResponse:
    """Say that nothing was appended, and why."""
    return ProduceResponse(error=error, message=message, not_appended=True, current_leader=log.current_leader)


def await_commit(
    log: ReplicatedLog, call_id: CallId, request: ProduceRequest, base_offset: Offset, end_offset: Offset, now_ms: int
) -> None:
    """Let a write wait for its commit, as long as its sender does."""
    deadline_ms = now_ms + min(max(request.timeout_ms, 0), log.limits.produce_timeout_max_ms)
    log.produces.add(
        ParkedProduce(call_id=call_id, deadline_ms=deadline_ms, base_offset=base_offset, end_offset=end_offset)
    )


def acknowledge(log: ReplicatedLog, call_id: CallId, base_offset: Offset) -> None:
    """Tell a producer where its batch stands."""
    leader_epoch = log.log.epochs.epoch_for_offset(base_offset)
    log.reply(call_id, ProduceResponse(error=ErrorCode.NONE, base_offset=base_offset, leader_epoch=leader_epoch))


def is_committed(log: ReplicatedLog, parked: ParkedProduce) -> bool:
    """Tell whether everything that a parked append waits for has happened."""
    return log.rules.produce_is_committed(end_offset=parked.end_offset, high_watermark=log.high_watermark)


def expire_produces(log: ReplicatedLog, now_ms: int) -> None:
    """Answer the parked appends whose time is up: they may be committed later, nobody knows."""
    for parked in log.produces.take_expired(now_ms):
        _leave_unknown(log, parked, ErrorCode.REQUEST_TIMED_OUT)


def fail_produces(log: ReplicatedLog) -> None:
    """Answer all parked appends, the leadership being over: they are in a log, and may be committed or cut."""
    for parked in log.produces.take_all():
        _leave_unknown(log, parked, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _leave_unknown(log: ReplicatedLog, parked: ParkedProduce, error: ErrorCode) -> None:
    log.reply(parked.call_id, ProduceResponse(error=error, current_leader=log.current_leader))
