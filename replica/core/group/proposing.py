"""The way of entries into the log: checked, stamped with log time, appended; their outcomes come with ``applying``.

Everything that can refuse entries refuses them before anything is appended, and says so (``not_appended``). Any other
end of the wait (time is up, leadership lost) leaves open whether they will be applied.

A log says which machine it is of before the first command. A leader whose machine leads has applied all that was
committed before its epoch: where that does not say it, nobody has said it, and this leader does, before it writes
anything else. Where it does say it, a leader with another machine has halted before its machine led.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.group.state import GroupState, ParkedApply
from replica.core.log.fencing import cluster_error
from replica.core.messages import ApplyRequest, ApplyResponse
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
from replica.machines import DescribeMachine, encode_entry
from replica.records import RecordBatch, encode_batch


def on_apply(g: GroupState, call_id: CallId, request: ApplyRequest, now_ms: int) -> None:
    """Append the entries as one batch, and let the call wait until they are applied."""
    maybe_describe(g, now_ms)
    refused = _refused(g, request) or _append(g, call_id, request, now_ms)
    if refused is not None:
        response = ApplyResponse(error=refused, not_appended=True, current_leader=g.log.current_leader)
        g.reply(call_id, response)


def _refused(g: GroupState, request: ApplyRequest) -> ErrorCode | None:
    """Say why the entries cannot be written; None if they can."""
    if (refused := cluster_error(g.log, request.cluster_id)) is not None:
        return refused
    if g.leadership is None or not isinstance(g.log.role, Leader) or g.leadership.epoch != g.log.leader_epoch:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if g.log.is_handing_over:
        return ErrorCode.LEADER_NOT_AVAILABLE
    if not request.entries:
        return ErrorCode.INVALID_REQUEST
    if len(request.entries) > g.config.entries_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    if sum(len(entry) for entry in request.entries) > g.log.quorum.message_max_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    return ErrorCode.THROTTLING_QUOTA_EXCEEDED if g.applies.is_full else None


def _append(g: GroupState, call_id: CallId, request: ApplyRequest, now_ms: int) -> ErrorCode | None:
    batch = _stamped(g, request.entries, now_ms)
    if batch.size_bytes > g.log.quorum.message_max_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    base_offset, epoch = g.log.log.log_end_offset, g.log.leader_epoch
    _propose(g, batch, now_ms)
    timeout_ms = min(max(request.timeout_ms, 0), g.config.apply_timeout_max_ms)
    g.applies.add(
        ParkedApply(
            call_id=call_id,
            deadline_ms=now_ms + timeout_ms,
            base_offset=base_offset,
            end_offset=Offset(base_offset + batch.record_count),
            epoch=epoch,
        )
    )
    return None


def maybe_describe(g: GroupState, now_ms: int) -> None:
    """Say which machine the log is of, where it does not say so, and before this leader writes anything else."""
    if g.leadership is None or g.leadership.epoch != g.log.leader_epoch or not isinstance(g.log.role, Leader):
        return
    if g.machine.said is None and not g.leadership.has_described and not g.log.is_handing_over:
        g.leadership = replace(g.leadership, has_described=True)
        write(g, (encode_entry(DescribeMachine(machine=g.machine.description)),), now_ms)


def write(g: GroupState, entries: tuple[bytes, ...], now_ms: int) -> None:
    """Append entries of the leader's own, for whose outcomes nobody waits."""
    _propose(g, _stamped(g, entries, now_ms), now_ms)


def _stamped(g: GroupState, entries: tuple[bytes, ...], now_ms: int) -> RecordBatch:
    assert g.leadership is not None, g.topic_partition
    return encode_batch(entries, timestamp_ms=g.leadership.clock.stamp(now_ms))


def _propose(g: GroupState, batch: RecordBatch, now_ms: int) -> None:
    g.written_ms = now_ms
    g.emit_all(g.log.propose(batch, now_ms))


def fail_applies(g: GroupState) -> None:
    """Answer everything that waits for the lost leadership: what was written may be applied, or may not."""
    for parked in g.applies.take_all():
        _leave_open(g, parked, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def expire_applies(g: GroupState, now_ms: int) -> None:
    """Answer whose time is up: what was written may be applied, or may not."""
    for parked in g.applies.take_expired(now_ms):
        _leave_open(g, parked, ErrorCode.REQUEST_TIMED_OUT)


def _leave_open(g: GroupState, parked: ParkedApply, error: ErrorCode) -> None:
    g.reply(parked.call_id, ApplyResponse(error=error, current_leader=g.log.current_leader))
