"""A leader that lets another voter lead: it takes no more records, waits until the other has them all, and resigns.

So nothing that it was given is left open: what is in its log is committed, whoever waited for that is answered, and the
target, which is named first in EndQuorumEpoch, wins at once or hardly ever. It is asked to fetch first, so that nobody
resigns for one that is gone. If it is not there in time, or the leadership ends otherwise, all is as before.

Source: Ongaro's thesis, section 3.10.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.log.fencing import cluster_error
from replica.core.messages import TransferLeadershipRequest, TransferLeadershipResponse
from replica.core.quorum.leasing import begin_read_round
from replica.core.quorum.roles import Leader, Transfer
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transitions import become_resigned
from replica.errors import ErrorCode
from replica.ids import CallId, Offset, ReplicaId

DUE = 0
"""A deadline that has come, whatever the time is."""


def on_transfer_leadership(q: QuorumLogState, call_id: CallId, request: TransferLeadershipRequest, now_ms: int) -> None:
    """Begin to hand over, or say why not; the answer comes with the resignation, or when time is up."""
    refused = _refused(q, request)
    if refused is not None:
        q.reply(call_id, TransferLeadershipResponse(error=refused, current_leader=q.current_leader))
        return
    begin_transfer(q, request.target_id, request.timeout_ms, now_ms, call_id=call_id)


def _refused(q: QuorumLogState, request: TransferLeadershipRequest) -> ErrorCode | None:
    if (refused := cluster_error(q, request.cluster_id)) is not None:
        return refused
    if not isinstance(q.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if request.target_id == q.replica_id:
        return ErrorCode.ELECTION_NOT_NEEDED
    if request.target_id not in q.role.voters:
        return ErrorCode.INVALID_REQUEST
    if q.role.transfer is not None and q.role.transfer.call_id is not None:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return None


def begin_transfer(
    q: QuorumLogState, target_id: ReplicaId, timeout_ms: int, now_ms: int, *, call_id: CallId | None = None
) -> None:
    """Take no more records, and let the target fetch at once. What was begun of the leader's own accord gives way.

    Until that is settled (``is_handing_over``) nothing may be proposed.
    """
    begin_read_round(q, now_ms)
    role = q.role
    assert isinstance(role, Leader), role.name
    assert target_id in role.voters, (target_id, q.voters.ids)
    assert call_id is not None or not q.is_handing_over, role.transfer
    deadline_ms = now_ms + min(max(timeout_ms, 0), q.quorum.transfer_timeout_max_ms)
    transfer = Transfer(target_id=target_id, deadline_ms=deadline_ms, read_round=role.read_round, call_id=call_id)
    q.role = replace(role, transfer=transfer)


def maybe_hand_over(q: QuorumLogState, now_ms: int) -> None:
    """Resign if the target is there, or lead on if its time is up."""
    role = q.role
    if not isinstance(role, Leader) or role.transfer is None:
        return
    transfer = role.transfer
    if _may_hand_over(q, role, transfer):
        q.role = replace(role, transfer=None)
        become_resigned(q, now_ms, preferred_candidates=successors(role, first=transfer.target_id))
        _answer(q, transfer, ErrorCode.NONE)
    elif now_ms >= transfer.deadline_ms:
        q.role = replace(role, transfer=None)
        _answer(q, transfer, ErrorCode.REQUEST_TIMED_OUT)


def _answer(q: QuorumLogState, transfer: Transfer, error: ErrorCode) -> None:
    if transfer.call_id is not None:
        q.reply(transfer.call_id, TransferLeadershipResponse(error=error, current_leader=q.current_leader))


def _may_hand_over(q: QuorumLogState, role: Leader, transfer: Transfer) -> bool:
    target = role.voters[transfer.target_id]
    return not q.answers_wait() and q.rules.may_hand_over(
        target_end_offset=target.log_end_offset,
        target_has_fetched=target.read_round >= transfer.read_round,
        high_watermark=role.high_watermark,
        log_end_offset=q.log.log_end_offset,
    )


def transfer_deadline_ms(q: QuorumLogState, role: Leader) -> int | None:
    """Name when a transfer has something to do again: at once if only an answer that was given since had to be."""
    if role.transfer is None:
        return None
    return DUE if _may_hand_over(q, role, role.transfer) else role.transfer.deadline_ms


def successors(role: Leader, *, first: ReplicaId | None = None) -> tuple[ReplicaId, ...]:
    """Name the voters in the order in which they should try to lead: ``first``, then those with the longest logs."""
    ends = {voter: progress.log_end_offset or Offset(0) for voter, progress in role.voters.items()}
    return tuple(sorted(ends, key=lambda voter: (voter != first, -ends[voter], voter)))
