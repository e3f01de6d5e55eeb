"""A leader's standing work: make itself known, and step down when it has lost the majority.

A leader from which no majority fetches any more cannot commit anything and may have been
replaced: it resigns (check-quorum, KAFKA-15489).

Source: Kafka ``LeaderState``, ``KafkaRaftClient.pollLeader``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.log.producing import expire_produces
from replica.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from replica.core.quorum.fencing import ahead_error, is_contradicted, peer_error, spend_epochs, wrong_voter
from replica.core.quorum.following import ask_whether_it_leads
from replica.core.quorum.membership import (
    change_deadline_ms,
    count_voters_in_force,
    has_left,
    leader_of,
    maybe_append_voter,
    settle_change,
)
from replica.core.quorum.roles import Follower, Leader, Resigned, Unattached
from replica.core.quorum.serving import expire_fetches
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transferring import maybe_hand_over, successors, transfer_deadline_ms
from replica.core.quorum.transitions import (
    become_prospective,
    become_resigned,
    become_unattached,
    observe_answer,
    observe_leader,
)
from replica.core.quorum.watermark import maybe_advance_high_watermark
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, ReplicaId


def pump_leader(q: QuorumLogState, now_ms: int) -> None:
    """Do what is due: resign, announce, move the high watermark, answer calls whose time is up, hand over."""
    count_voters_in_force(q)
    role = leader_of(q)
    if now_ms >= check_quorum_deadline_ms(q, role):
        resign(q, now_ms)
        return
    maybe_append_voter(q, now_ms)
    _announce(q, now_ms)
    maybe_advance_high_watermark(q)
    settle_change(q, now_ms)
    expire_produces(q, now_ms)
    expire_fetches(q, now_ms)
    maybe_hand_over(q, now_ms)
    if has_left(q):
        resign(q, now_ms)


def leader_deadline_ms(q: QuorumLogState, role: Leader) -> int:
    """Name when the leader has something to do again."""
    waiting = (
        q.produces.deadline_ms,
        q.fetches.deadline_ms,
        transfer_deadline_ms(q, role),
        change_deadline_ms(q, role),
    )
    parked = [deadline for deadline in waiting if deadline is not None]
    announcements = [progress.announce_at_ms for progress in role.voters.values()]
    return min([check_quorum_deadline_ms(q, role), *announcements, *parked])


def check_quorum_deadline_ms(q: QuorumLogState, role: Leader) -> int:
    """Name when a majority, a leader that votes included, will not have fetched for too long. A lone one never is."""
    return q.rules.check_quorum_deadline_ms(
        last_fetches_ms=[progress.last_fetch_ms for progress in role.voters.values()],
        needed=q.majority - q.counts_itself,
        timeout_ms=q.quorum.check_quorum_timeout_ms,
    )


def _announce(q: QuorumLogState, now_ms: int) -> None:
    """Send BeginQuorumEpoch to every voter that has not fetched for a while; fetches are its acknowledgement."""
    role = leader_of(q)
    due = [voter for voter, progress in role.voters.items() if progress.announce_at_ms <= now_ms]
    if not due:
        return
    voters = dict(role.voters)
    for voter in due:
        voters[voter] = replace(voters[voter], announce_at_ms=now_ms + q.quorum.begin_quorum_epoch_interval_ms)
        q.send(
            voter,
            BeginQuorumEpochRequest(
                topic_partition=q.topic_partition,
                cluster_id=q.config.cluster_id,
                leader_id=q.replica_id,
                leader_epoch=q.leader_epoch,
                voter_id=voter,
                voter_directory_id=q.directory_of(voter),
            ),
            timeout_ms=q.quorum.begin_quorum_epoch_interval_ms,
        )
    q.role = replace(role, voters=voters)


# --- resigning ------------------------------------------------------------------------------------------------------


def resign(q: QuorumLogState, now_ms: int) -> None:
    """Stop leading, and name the voters with the longest logs as the ones who should try first."""
    role = q.role
    if not isinstance(role, Leader):
        return
    become_resigned(q, now_ms, preferred_candidates=successors(role))


def pump_resigned(q: QuorumLogState, role: Resigned, now_ms: int) -> None:
    """Tell the voters until they know or somebody else leads; after an election timeout, do as anyone does."""
    if now_ms >= role.election_deadline_ms:
        if q.campaigns:
            become_prospective(q, now_ms)
        else:
            become_unattached(q, q.leader_epoch, now_ms)
        return
    pending = dict(role.pending)
    tell_at_ms = dict(role.tell_at_ms)
    for voter, due_ms in role.tell_at_ms.items():
        if due_ms <= now_ms:
            request = EndQuorumEpochRequest(
                topic_partition=q.topic_partition,
                cluster_id=q.config.cluster_id,
                leader_id=q.replica_id,
                leader_epoch=q.leader_epoch,
                preferred_candidates=role.preferred_candidates,
            )
            pending[q.send(voter, request)] = voter
            tell_at_ms[voter] = now_ms + q.quorum.request_timeout_ms + q.quorum.retry_backoff_ms
    q.role = replace(role, pending=pending, tell_at_ms=tell_at_ms)


def resigned_deadline_ms(role: Resigned) -> int:
    """Name when a resigned leader has something to do again."""
    return min([role.election_deadline_ms, *role.tell_at_ms.values()])


def on_end_quorum_epoch_response(
    q: QuorumLogState, correlation_id: CorrelationId, response: EndQuorumEpochResponse, now_ms: int
) -> None:
    """Note that a voter knows; or learn that the world has moved on."""
    observe_answer(q, response.error, response.current_leader, now_ms)
    role = q.role
    if isinstance(role, Resigned) and correlation_id in role.pending:
        told = role.pending[correlation_id]
        q.role = replace(
            role,
            pending={other: voter for other, voter in role.pending.items() if other != correlation_id},
            tell_at_ms={voter: due_ms for voter, due_ms in role.tell_at_ms.items() if voter != told},
        )


def on_end_quorum_epoch_send_failed(q: QuorumLogState, correlation_id: CorrelationId, now_ms: int) -> None:
    """Tell the voter again after a pause."""
    role = q.role
    if isinstance(role, Resigned) and correlation_id in role.pending:
        untold = role.pending[correlation_id]
        q.role = replace(
            role,
            pending={other: voter for other, voter in role.pending.items() if other != correlation_id},
            tell_at_ms={**role.tell_at_ms, untold: now_ms + q.quorum.retry_backoff_ms},
        )


# --- being told -----------------------------------------------------------------------------------------------------


def on_begin_quorum_epoch_request(
    q: QuorumLogState, call_id: CallId, request: BeginQuorumEpochRequest, now_ms: int
) -> None:
    """Follow the leader that makes itself known to this very voter, unless its epoch is over.

    One that means the voter on the disk that was here before is asked: an empty disk may know nobody else.
    """
    error = peer_error(q, request.cluster_id)
    if error is None:
        error = wrong_voter(q, request.voter_id, request.voter_directory_id)
        if error is None:
            error = _hear_leader(q, request, now_ms)
        elif isinstance(q.role, Unattached) and request.voter_id == q.replica_id != request.leader_id:
            ask_whether_it_leads(q, request.leader_id)
    q.reply(call_id, BeginQuorumEpochResponse(error=error or ErrorCode.NONE, current_leader=q.current_leader))


def _hear_leader(
    q: QuorumLogState, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now_ms: int
) -> ErrorCode | None:
    """Believe a leader what epoch it leads or led, or tell why not.

    Only another can lead, one that votes if they are known; an epoch that is over has no leader any more, and one whose
    leader is known has no other. One that this replica does not know to vote may lead all the same: the record
    that says so may be what it lacks, and those whom it could ask may be gone.
    """
    leader = CurrentLeader(leader_id=request.leader_id, leader_epoch=request.leader_epoch)
    if request.leader_id == q.replica_id:
        return ErrorCode.INVALID_REQUEST
    if request.leader_epoch < q.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if is_contradicted(q, request.leader_id, request.leader_epoch):
        observe_leader(q, leader, now_ms)
        return ErrorCode.INVALID_REQUEST
    error = ahead_error(q, request.leader_epoch, now_ms)
    if error is None:
        spend_epochs(q, request.leader_epoch, now_ms)
        observe_leader(q, leader, now_ms)
    elif isinstance(request, BeginQuorumEpochRequest):
        ask_whether_it_leads(q, request.leader_id)
    return error


def on_end_quorum_epoch_request(
    q: QuorumLogState, call_id: CallId, request: EndQuorumEpochRequest, now_ms: int
) -> None:
    """Stop following a leader that resigns. The first it prefers campaigns at once, the others wait their turn."""
    error = peer_error(q, request.cluster_id) or _hear_leader(q, request, now_ms)
    follows = isinstance(q.role, Follower | Unattached) and q.quorum_state.leader_id == request.leader_id
    if error is None and follows:
        q.heard_leader_ms = None
        _succeed(q, request.preferred_candidates, now_ms)
    q.reply(call_id, EndQuorumEpochResponse(error=error or ErrorCode.NONE, current_leader=q.current_leader))


def _succeed(q: QuorumLogState, preferred_candidates: tuple[ReplicaId, ...], now_ms: int) -> None:
    """Take one's turn. A voter may be unattached already: the leader refuses parked fetches before it says goodbye."""
    if q.is_voter and q.replica_id in preferred_candidates:
        position = preferred_candidates.index(q.replica_id)
        become_unattached(
            q, q.leader_epoch, now_ms, election_timeout_ms=q.election_back_off_ms(position) if position else 0
        )
    elif isinstance(q.role, Follower):
        become_unattached(q, q.leader_epoch, now_ms)
