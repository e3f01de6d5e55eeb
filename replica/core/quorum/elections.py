"""Votes: who gets one, how they are asked for, and what a majority of them means.

A voter gives at most one vote in an epoch, and none in an epoch whose leader it knows. A pre-vote costs nothing and
changes nothing: it asks "would you vote for me?", so that a replica that was cut off does not come back with a high
epoch and topple a healthy leader (KIP-996). Nor does any other request for votes. Who leads, or hears from its leader,
would promise nobody its vote, so that an honest candidate does not depend on it: it takes no later epoch either. Where
a leader may answer by lease, a voter that hears from one votes for nobody, whatever its epoch.

Source: Raft sections 5.2, 5.4 and 9.6; Ongaro's thesis, section 4.2.3; Kafka
``KafkaRaftClient.handleVoteRequest``, ``EpochState.canGrantVote``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from replica.core.messages import VoteRequest, VoteResponse
from replica.core.quorum.fencing import ahead_error, peer_error, spend_epochs, wrong_voter
from replica.core.quorum.hearing import hears_from_leader
from replica.core.quorum.leasing import withholds_vote
from replica.core.quorum.roles import Campaign, Candidate, Leader, Prospective
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transitions import (
    become_candidate,
    become_follower,
    become_leader,
    become_prospective,
    become_unattached,
    grant_vote,
    observe_answer,
)
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, CallId, CorrelationId, Epoch, ReplicaId
from replica.voters import is_directory_name


def on_vote_request(q: QuorumLogState, call_id: CallId, request: VoteRequest, now_ms: int) -> None:
    """Answer a request for a vote or a pre-vote. One that makes no sense changes nothing, not even the epoch."""
    is_withheld = not _gives_way(q, request) and (
        withholds_vote(q, now_ms) or (request.candidate_epoch > q.leader_epoch and _keeps_leader(q))
    )
    error = peer_error(q, request.cluster_id) or _malformed(q, request)
    if error is None and request.candidate_epoch < q.leader_epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    if error is None and not is_withheld:
        error = ahead_error(q, request.candidate_epoch, now_ms)
    if error is None and not is_withheld:
        if request.candidate_epoch > q.leader_epoch:
            spend_epochs(q, request.candidate_epoch, now_ms)
            become_unattached(q, request.candidate_epoch, now_ms)
        error = wrong_voter(q, request.voter_id, request.voter_directory_id)
    granted = error is None and not is_withheld and _is_granted(q, request, now_ms)
    q.reply(
        call_id,
        VoteResponse(error=error or ErrorCode.NONE, vote_granted=granted, current_leader=q.current_leader),
    )


def _is_granted(q: QuorumLogState, request: VoteRequest, now_ms: int) -> bool:
    return _would_vote(q, request) if request.pre_vote else _maybe_vote(q, request, now_ms)


def _malformed(q: QuorumLogState, request: VoteRequest) -> ErrorCode | None:
    """Only another asks, whoever it is, and its last record is older than its epoch; a pre-vote's may be of that epoch.

    Who votes now this replica may not know yet: the records that say so may be what it lacks.
    """
    newest_epoch = request.candidate_epoch if request.pre_vote else request.candidate_epoch - 1
    believable = (
        request.candidate_id != q.replica_id
        and request.candidate_epoch <= EPOCH_MAX
        and request.last_offset >= 0
        and 0 <= request.last_offset_epoch <= newest_epoch
        and is_directory_name(request.candidate_directory_id)
    )
    return None if believable else ErrorCode.INVALID_REQUEST


def _log_is_up_to_date(q: QuorumLogState, request: VoteRequest) -> bool:
    return q.rules.candidate_log_is_up_to_date(
        candidate_epoch=request.last_offset_epoch,
        candidate_end=request.last_offset,
        own_epoch=q.log.last_epoch or 0,
        own_end=q.log.log_end_offset,
    )


def _keeps_leader(q: QuorumLogState) -> bool:
    """Tell whether a later epoch that a candidate brings is no news here; where there are leases, those say when."""
    return isinstance(q.role, Leader) or (hears_from_leader(q) and not q.has_leases)


def _gives_way(q: QuorumLogState, request: VoteRequest) -> bool:
    """Tell whether a leader ends its epoch for a replica that has reached a later one, as it shows by a pre-vote in it.

    1. X had promises enough to be a candidate in the next epoch, and was cut off. 2. The others follow A on, in theirs.
    3. X comes back. It can follow nobody in an earlier epoch, and nobody who hears from A heeds it: X would wait for
    ever. So there is an election in a later one. A vote alone shows nothing yet: it may be an election that others win.
    """
    return isinstance(q.role, Leader) and request.pre_vote and request.candidate_epoch > q.leader_epoch


def _would_vote(q: QuorumLogState, request: VoteRequest) -> bool:
    """A leader would not; a follower that hears from its leader would not; anyone else looks at the log."""
    return not hears_from_leader(q) and _log_is_up_to_date(q, request)


def _maybe_vote(q: QuorumLogState, request: VoteRequest, now_ms: int) -> bool:
    """Give the epoch's only vote if it is still there to give; repeat a vote already given to this very candidate.

    Who is named as a voter votes, even if it does not know yet that it is one:

    1. D is added to A, B and C, and has not got that record, or has lost it again. A and B have it. 2. A fails. Without
    the vote of D, which they know to be a voter, B and C could not elect anybody: three of four.
    """
    given_to = (q.quorum_state.voted_id, q.quorum_state.voted_directory_id)
    if given_to == (request.candidate_id, request.candidate_directory_id):
        return True
    if q.quorum_state.voted_id is not None or q.quorum_state.leader_id is not None:
        return False
    if not _log_is_up_to_date(q, request):
        return False
    grant_vote(q, request.candidate_id, request.candidate_directory_id, now_ms)
    return True


# --- campaigning ----------------------------------------------------------------------------------------------------


def pump_prospective(q: QuorumLogState, role: Prospective, now_ms: int) -> None:
    """Go on to the real election, give up, or ask those who are due.

    The election waits until the log is flushed: a voter repeats its vote without comparing logs again, so the log that
    won the vote must be the one that a crash leaves.
    """
    if len(role.campaign.granted) >= q.majority and q.log.is_flushed:
        become_candidate(q, now_ms)
    elif _is_lost(q, role.campaign) or now_ms >= role.election_deadline_ms:
        _return_to_known_leader(q, now_ms)
    else:
        q.role = replace(role, campaign=_ask_for_votes(q, role.campaign, now_ms, pre_vote=True))


def _return_to_known_leader(q: QuorumLogState, now_ms: int) -> None:
    """The others hear from a leader or have better logs: fetch from the recorded leader, or wait for a new one."""
    leader_id = q.quorum_state.leader_id
    if leader_id is None or leader_id == q.replica_id:
        become_unattached(q, q.leader_epoch, now_ms)
    else:
        # It has been silent for a fetch timeout already; if it stays silent, the next attempt comes sooner.
        become_follower(q, q.leader_epoch, leader_id, now_ms, fetch_timeout_ms=q.election_timeout_ms())


def pump_candidate(q: QuorumLogState, role: Candidate, now_ms: int) -> None:
    """Lead, or start over after a lost election's pause or an indecisive one's time, or ask those who are due."""
    if len(role.campaign.granted) >= q.majority:
        become_leader(q, now_ms)
    elif now_ms >= role.election_deadline_ms or (
        role.back_off_until_ms is not None and now_ms >= role.back_off_until_ms
    ):
        become_prospective(q, now_ms, retries=role.retries, gone=role.campaign.gone)
    elif role.back_off_until_ms is None and _is_lost(q, role.campaign):
        q.role = replace(role, back_off_until_ms=now_ms + q.election_back_off_ms(role.retries))
    elif role.back_off_until_ms is None:
        q.role = replace(role, campaign=_ask_for_votes(q, role.campaign, now_ms, pre_vote=False))


def campaign_deadline_ms(role: Prospective | Candidate) -> int:
    """Name when this campaign has something to do again."""
    if isinstance(role, Candidate) and role.back_off_until_ms is not None:
        return min(role.back_off_until_ms, role.election_deadline_ms)
    return min([role.election_deadline_ms, *role.campaign.ask_at_ms.values()])


def _is_lost(q: QuorumLogState, campaign: Campaign) -> bool:
    return len(q.voters.voters) - len(campaign.rejected | campaign.gone) < q.majority


def _ask_for_votes(q: QuorumLogState, campaign: Campaign, now_ms: int, *, pre_vote: bool) -> Campaign:
    """Send a request to every voter whose time has come; an unanswered one is repeated after its timeout."""
    pending = dict(campaign.pending)
    ask_at_ms = dict(campaign.ask_at_ms)
    for voter, due_ms in campaign.ask_at_ms.items():
        if due_ms <= now_ms:
            pending[q.send(voter, _vote_request(q, voter, pre_vote=pre_vote))] = voter
            ask_at_ms[voter] = now_ms + q.quorum.request_timeout_ms + q.quorum.retry_backoff_ms
    return replace(campaign, pending=pending, ask_at_ms=ask_at_ms)


def _vote_request(q: QuorumLogState, voter: ReplicaId, *, pre_vote: bool) -> VoteRequest:
    return VoteRequest(
        topic_partition=q.topic_partition,
        cluster_id=q.config.cluster_id,
        candidate_id=q.replica_id,
        candidate_directory_id=q.config.directory_id,
        candidate_epoch=q.leader_epoch,
        last_offset_epoch=q.log.last_epoch or Epoch(0),
        last_offset=q.log.log_end_offset,
        pre_vote=pre_vote,
        voter_id=voter,
        voter_directory_id=q.directory_of(voter),
    )


def on_vote_response(q: QuorumLogState, correlation_id: CorrelationId, response: VoteResponse, now_ms: int) -> None:
    """Count an answer to the present campaign; one to an earlier campaign or role is ignored."""
    observe_answer(q, response.error, response.current_leader, now_ms)
    role = q.role
    if isinstance(role, Prospective | Candidate) and correlation_id in role.campaign.pending:
        q.role = replace(role, campaign=_counted(role.campaign, correlation_id, response))


def _counted(campaign: Campaign, correlation_id: CorrelationId, response: VoteResponse) -> Campaign:
    voter = campaign.pending[correlation_id]
    pending = _without(campaign.pending, correlation_id)
    ask_at_ms = {other: due_ms for other, due_ms in campaign.ask_at_ms.items() if other != voter}
    answered = replace(campaign, pending=pending, ask_at_ms=ask_at_ms, gone=campaign.gone - {voter})
    if response.vote_granted:
        return replace(answered, granted=campaign.granted | {voter})
    return replace(answered, rejected=campaign.rejected | {voter})


def on_vote_send_failed(q: QuorumLogState, correlation_id: CorrelationId, now_ms: int) -> None:
    """Ask the voter again after a pause."""
    role = q.role
    if isinstance(role, Prospective | Candidate) and correlation_id in role.campaign.pending:
        voter = role.campaign.pending[correlation_id]
        campaign = replace(
            role.campaign,
            pending=_without(role.campaign.pending, correlation_id),
            ask_at_ms={**role.campaign.ask_at_ms, voter: now_ms + q.quorum.retry_backoff_ms},
        )
        q.role = replace(role, campaign=campaign)


def _without(pending: Mapping[CorrelationId, ReplicaId], gone: CorrelationId) -> Mapping[CorrelationId, ReplicaId]:
    return {correlation_id: voter for correlation_id, voter in pending.items() if correlation_id != gone}
