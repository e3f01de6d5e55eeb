"""A leader that changes who votes: one voter more or one less, by a record in the log that counts from its append on.

One change at a time, and each waits for the one before and for a record of the leader's own epoch to be committed. Who
is to be added must fetch already, and have caught up: it is asked to fetch at once, and what has come meanwhile is
another round. A leader that removes itself leads on without counting itself, until that is committed, and then resigns.

Source: KIP-853; Kafka ``AddVoterHandler``, ``RemoveVoterHandler``; Ongaro's thesis, sections 4.1 and 4.2.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.log.fencing import cluster_error
from replica.core.messages import AddVoterRequest, ChangeVotersResponse, RemoveVoterRequest
from replica.core.quorum.leasing import begin_read_round
from replica.core.quorum.roles import Changing, Joining, Leader, ReplicaProgress
from replica.core.quorum.serving import complete_fetches
from replica.core.quorum.state import QuorumLogState
from replica.errors import ErrorCode
from replica.ids import CallId, ReplicaId
from replica.records import voters_batch
from replica.voters import ReplicaKey, Voter, VoterSet, is_address, is_directory_id

DUE = 0
"""A deadline that has come, whatever the time is."""


def on_add_voter(q: QuorumLogState, call_id: CallId, request: AddVoterRequest, now_ms: int) -> None:
    """Wait for a new voter to catch up, or say why not."""
    refused = _refused(q, request) or _not_to_be_added(q, request.voter)
    if refused is not None:
        _refuse(q, call_id, refused)
        return
    begin_read_round(q, now_ms)
    role = leader_of(q)
    joining = Joining(
        call_id=call_id,
        deadline_ms=_deadline_ms(q, request.timeout_ms, now_ms),
        voter=request.voter,
        read_round=role.read_round,
        end_offset=q.log.log_end_offset,
        began_ms=now_ms,
    )
    q.role = replace(role, change=joining)
    complete_fetches(q)  # Among them may be the new voter's: it is to fetch again at once.


def on_remove_voter(q: QuorumLogState, call_id: CallId, request: RemoveVoterRequest, now_ms: int) -> None:
    """Append the set without a voter, or say why not."""
    refused = _refused(q, request) or _not_to_be_removed(q, request.voter)
    if refused is not None:
        _refuse(q, call_id, refused)
        return
    deadline_ms = _deadline_ms(q, request.timeout_ms, now_ms)
    _append(q, call_id, q.voters.without(request.voter.replica_id), deadline_ms)


def _refuse(q: QuorumLogState, call_id: CallId, error: ErrorCode) -> None:
    q.reply(call_id, ChangeVotersResponse(error=error, not_appended=True, current_leader=q.current_leader))


def _deadline_ms(q: QuorumLogState, timeout_ms: int, now_ms: int) -> int:
    return now_ms + min(max(timeout_ms, 0), q.quorum.change_voters_timeout_max_ms)


def _refused(q: QuorumLogState, request: AddVoterRequest | RemoveVoterRequest) -> ErrorCode | None:
    """Say why nothing is changed now, whatever it is; the order of the checks is part of the protocol."""
    role = q.role
    if (refused := cluster_error(q, request.cluster_id)) is not None:
        return refused
    if not isinstance(role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_free = role.change is None and role.transfer is None
    is_committed = q.rules.may_change_voters(
        high_watermark=role.high_watermark, changed_at=q.voter_history.latest_offset
    )
    return None if is_free and is_committed else ErrorCode.THROTTLING_QUOTA_EXCEEDED


def _not_to_be_added(q: QuorumLogState, voter: Voter) -> ErrorCode | None:
    if q.voters.find(voter.replica_id) is not None:
        return ErrorCode.DUPLICATE_VOTER
    is_sound = is_directory_id(voter.directory_id) and (voter.address == "" or is_address(voter.address))
    return None if is_sound else ErrorCode.INVALID_REQUEST


def _not_to_be_removed(q: QuorumLogState, key: ReplicaKey) -> ErrorCode | None:
    voter = q.voters.find(key.replica_id)
    if voter is None or key.directory_id not in (None, voter.directory_id):
        return ErrorCode.VOTER_NOT_FOUND
    return ErrorCode.INVALID_REQUEST if len(q.voters.voters) == 1 else None


# --- what follows ---------------------------------------------------------------------------------------------------


def maybe_append_voter(q: QuorumLogState, now_ms: int) -> None:
    """Add who has caught up; begin another round for one that has not been fast enough."""
    role = leader_of(q)
    joining = role.change
    if not isinstance(joining, Joining) or not _has_what_it_wants(q, role, joining):
        return
    if _may_append(q, role, joining, now_ms):
        if role.transfer is None:
            _append(q, joining.call_id, q.voters.with_voter(joining.voter), joining.deadline_ms)
    else:
        again = replace(joining, end_offset=q.log.log_end_offset, began_ms=now_ms)
        q.role = replace(role, change=again)


def _has_what_it_wants(q: QuorumLogState, role: Leader, joining: Joining) -> bool:
    """Whether the present round of a new voter is over."""
    return _has_caught_up(q, role, joining, round_ms=0)


def _may_append(q: QuorumLogState, role: Leader, joining: Joining, now_ms: int) -> bool:
    return _has_caught_up(q, role, joining, round_ms=now_ms - joining.began_ms)


def _has_caught_up(q: QuorumLogState, role: Leader, joining: Joining, *, round_ms: int) -> bool:
    progress = role.observers.get(joining.voter.key)
    return q.rules.has_caught_up(
        has_fetched=progress is not None and progress.read_round >= joining.read_round,
        log_end_offset=None if progress is None else progress.log_end_offset,
        wanted=joining.end_offset,
        round_ms=round_ms,
        round_max_ms=q.quorum.election_timeout_ms,
    )


def _append(q: QuorumLogState, call_id: CallId, voters: VoterSet, deadline_ms: int) -> None:
    """Append the set, which is in force from now on, and wait for its record to be committed."""
    q.append(voters_batch(voters=voters, base_offset=q.log.log_end_offset, leader_epoch=q.leader_epoch))
    changing = Changing(call_id=call_id, deadline_ms=deadline_ms, end_offset=q.log.log_end_offset)
    q.role = replace(leader_of(q), change=changing)
    count_voters_in_force(q)
    complete_fetches(q)


def count_voters_in_force(q: QuorumLogState) -> None:
    """Let the leader count the voters of the set in force. How far they are is kept, whether they voted or not."""
    role = leader_of(q)
    if role.voter_set is q.voters:
        return
    known: dict[ReplicaKey, ReplicaProgress] = dict(role.observers)
    known |= {_key_in(role.voter_set, replica_id): progress for replica_id, progress in role.voters.items()}
    unheard = ReplicaProgress(last_fetch_ms=DUE, announce_at_ms=DUE)
    keys = [_key_in(q.voters, replica_id) for replica_id in q.other_voters]
    voters = {key.replica_id: known.pop(key, unheard) for key in keys}
    q.role = replace(role, voter_set=q.voters, voters=voters, observers=known)


def _key_in(voters: VoterSet, replica_id: ReplicaId) -> ReplicaKey:
    voter = voters.find(replica_id)
    assert voter is not None, (voters, replica_id)
    return voter.key


def settle_change(q: QuorumLogState, now_ms: int) -> None:
    """Answer who asked for a change: it is committed, or time is up."""
    role = leader_of(q)
    change = role.change
    if isinstance(change, Changing) and role.high_watermark is not None and change.end_offset <= role.high_watermark:
        q.role = replace(role, change=None)
        q.reply(change.call_id, ChangeVotersResponse(error=ErrorCode.NONE, current_leader=q.current_leader))
    elif change is not None and now_ms >= change.deadline_ms:
        q.role = replace(role, change=None)
        response = ChangeVotersResponse(
            error=ErrorCode.REQUEST_TIMED_OUT,
            not_appended=isinstance(change, Joining),
            current_leader=q.current_leader,
        )
        q.reply(change.call_id, response)


def change_deadline_ms(q: QuorumLogState, role: Leader) -> int | None:
    """Name when a change has something to do again: at once if only a transfer, which has ended, was in its way."""
    change = role.change
    if change is None:
        return None
    if isinstance(change, Joining) and role.transfer is None and _has_what_it_wants(q, role, change):
        return DUE
    return change.deadline_ms


def has_left(q: QuorumLogState) -> bool:
    """Tell whether the leader is to resign: it votes no more, and that is committed."""
    role = q.role
    if not isinstance(role, Leader) or q.is_voter:
        return False
    changed_at = q.voter_history.latest_offset
    return changed_at is None or (role.high_watermark is not None and changed_at < role.high_watermark)


def leader_of(q: QuorumLogState) -> Leader:
    """The role, which must be that of a leader."""
    role = q.role
    assert isinstance(role, Leader), role.name
    return role
