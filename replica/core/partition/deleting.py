"""Forgetting the beginning of a log at a client's word: done once every live replica has done it.

Owns the low watermark, where the logs of all live replicas begin at least, and the deletions that wait for it. The
leader forgets at once; the others hear of it with the answer to a fetch, and say so with the next one. A replica whose
broker is fenced is not waited for; it hears of it when it follows again, or leads before that and shows the records.

Source: KIP-107; Kafka ``Partition.deleteRecordsOnLeader``, ``lowWatermarkIfLeader``, ``DelayedDeleteRecords``.
"""

from __future__ import annotations

from collections.abc import Iterable

from replica.core.log.fencing import leader_request_error
from replica.core.messages import HIGH_WATERMARK, DeleteRecordsRequest, DeleteRecordsResponse
from replica.core.partition.roles import Leader
from replica.core.partition.state import ParkedDeletion, PartitionState
from replica.errors import ErrorCode
from replica.ids import CallId, Offset


def on_delete_records(p: PartitionState, call_id: CallId, request: DeleteRecordsRequest, now_ms: int) -> None:
    """Forget what lies below an offset, if all of it is committed; answer when every live replica has."""
    error = leader_request_error(p, cluster_id=request.cluster_id, current_leader_epoch=None)
    offset = p.high_watermark if request.offset == HIGH_WATERMARK else Offset(request.offset)
    if error is None and not 0 <= offset <= p.high_watermark:
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    if error is None and p.deletions.is_full:
        error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if error is not None:
        p.reply(call_id, DeleteRecordsResponse(error=error, current_leader=p.current_leader))
        return
    p.maybe_raise_log_start(offset)
    timeout_ms = min(max(request.timeout_ms, 0), p.config.delete_records_timeout_max_ms)
    p.deletions.add(ParkedDeletion(call_id=call_id, deadline_ms=now_ms + timeout_ms, offset=offset))
    answer_deletions(p)


def low_watermark(p: PartitionState) -> Offset | None:
    """Where the logs of all live replicas begin at least; absent while one of them has not said so in this epoch."""
    if not isinstance(p.role, Leader):
        return None
    lowest = p.log.log_start_offset
    for replica_id, remote in p.role.remotes.items():
        broker = p.brokers.get(replica_id)
        if broker is None or broker.fenced:
            continue
        if remote.log_start_offset is None:
            return None
        lowest = min(lowest, remote.log_start_offset)
    return lowest


def answer_deletions(p: PartitionState) -> None:
    """Answer the deletions that every live replica has done."""
    if not p.deletions:
        return
    lowest = low_watermark(p)
    if lowest is None:
        return
    for parked in p.deletions.take_if(lambda waiting: waiting.offset <= lowest):
        p.reply(parked.call_id, DeleteRecordsResponse(error=ErrorCode.NONE, low_watermark=lowest))


def expire_deletions(p: PartitionState, now_ms: int) -> None:
    """Answer the deletions whose time is up: they are done here, and not known to be done everywhere."""
    _give_up(p, p.deletions.take_expired(now_ms))


def give_up_deletions(p: PartitionState) -> None:
    """Answer all deletions, the leadership being over: nobody tells this replica any more where the others begin."""
    _give_up(p, p.deletions.take_all())


def _give_up(p: PartitionState, deletions: Iterable[ParkedDeletion]) -> None:
    for parked in deletions:
        p.reply(
            parked.call_id,
            DeleteRecordsResponse(error=ErrorCode.REQUEST_TIMED_OUT, current_leader=p.current_leader),
        )
