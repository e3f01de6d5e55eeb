"""How a role ends and the next one begins: the one place that changes ``role`` and the persistent ``QuorumState``.

Each ``become_*`` checks that the change is legal, stores what must survive a crash (before anything that reveals it is
sent: effects are performed in order), settles what the old role had promised, and sets the new role. Epochs never go
down; a leader never follows in its own epoch; no epoch sees two votes or two leaders.

Source: Kafka ``QuorumState`` (``transitionTo*``), ``KafkaRaftClient``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.effects import QuorumState, StoreQuorumState
from replica.core.log.producing import fail_produces
from replica.core.messages import ChangeVotersResponse, CurrentLeader, TransferLeadershipResponse
from replica.core.quorum.fencing import is_contradicted
from replica.core.quorum.roles import (
    Campaign,
    Candidate,
    Follower,
    Joining,
    Leader,
    Prospective,
    ReplicaProgress,
    Resigned,
    Role,
    Unattached,
)
from replica.core.quorum.serving import refuse_fetch
from replica.core.quorum.state import QuorumLogState
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, Epoch, ReplicaId
from replica.records import leader_change_batch, voters_batch


def restore(q: QuorumLogState, now_ms: int) -> None:
    """Choose the first role after a start from what the disk remembers. Whom it heard the replica has forgotten."""
    if q.is_unreadable is not None:
        q.halt(q.is_unreadable)
        return
    stored = q.quorum_state
    q.heard_leader_ms = q.rules.heard_leader_at_start_ms(now_ms=now_ms)
    last_epoch = q.log.last_epoch or Epoch(0)
    if stored.leader_epoch < last_epoch:
        become_unattached(q, last_epoch, now_ms)
    elif not q.campaigns:
        become_unattached(q, stored.leader_epoch, now_ms)
    elif stored.leader_id == q.replica_id:
        if q.rules.leads_on_after_restart():
            _lead(q, now_ms, granted=frozenset({q.replica_id}))
        else:
            become_resigned(q, now_ms, preferred_candidates=())
    elif stored.leader_id is not None:
        become_follower(q, stored.leader_epoch, stored.leader_id, now_ms)
    elif stored.voted_id == q.replica_id and stored.voted_directory_id == q.config.directory_id:
        # The vote for itself is already on disk: the same epoch's campaign goes on.
        q.role = Candidate(
            election_deadline_ms=now_ms + q.election_timeout_ms(),
            campaign=_new_campaign(q, now_ms, gone=frozenset()),
            retries=1,
        )
    else:
        become_unattached(q, stored.leader_epoch, now_ms)


def become_unattached(
    q: QuorumLogState, epoch: Epoch, now_ms: int, *, election_timeout_ms: int | None = None, retry_at_ms: int = 0
) -> None:
    """Follow nobody, in ``epoch``: a later one, or the present one when its leader is gone.

    An observer asks who leads from ``retry_at_ms`` on.
    """
    timeout_ms = q.election_timeout_ms() if election_timeout_ms is None else election_timeout_ms
    if epoch > q.leader_epoch:
        _store(q, QuorumState(leader_epoch=epoch))
    assert epoch == q.leader_epoch, (epoch, q.leader_epoch)
    _change_role(q, Unattached(election_deadline_ms=now_ms + timeout_ms, retry_at_ms=retry_at_ms))


def leave_resigned_leader(q: QuorumLogState, now_ms: int) -> None:
    """Follow a leader no more that says it leads no more in this epoch.

    The others may not know yet, and still name it: who asked them at once would ask in a circle until an election.
    """
    become_unattached(q, q.leader_epoch, now_ms, retry_at_ms=now_ms + q.quorum.retry_backoff_ms)


def grant_vote(q: QuorumLogState, candidate_id: ReplicaId, directory_id: str | None, now_ms: int) -> None:
    """Vote for a candidate of the present epoch, durably, and give it time to win."""
    assert q.quorum_state.voted_id is None, q.quorum_state
    assert q.quorum_state.leader_id is None, q.quorum_state
    _store(q, replace(q.quorum_state, voted_id=candidate_id, voted_directory_id=directory_id))
    _change_role(q, Unattached(election_deadline_ms=now_ms + q.election_timeout_ms()))


def become_prospective(
    q: QuorumLogState, now_ms: int, *, retries: int = 0, gone: frozenset[ReplicaId] = frozenset()
) -> None:
    """Ask the voters whether an election could be won. The epoch stays; nothing is stored."""
    assert q.campaigns, (q.key, q.voters)
    _change_role(
        q,
        Prospective(
            election_deadline_ms=now_ms + q.election_timeout_ms(),
            campaign=_new_campaign(q, now_ms, gone),
            retries=retries,
        ),
    )


def become_candidate(q: QuorumLogState, now_ms: int) -> None:
    """Begin a new epoch and vote for oneself in it, durably, before anybody is asked."""
    assert isinstance(q.role, Prospective), q.role
    assert q.log.is_flushed, (q.log.flushed_end_offset, q.log.log_end_offset)
    retries, gone = q.role.retries, q.role.campaign.gone
    _store(
        q,
        QuorumState(
            leader_epoch=Epoch(q.leader_epoch + 1), voted_id=q.replica_id, voted_directory_id=q.config.directory_id
        ),
    )
    _change_role(
        q,
        Candidate(
            election_deadline_ms=now_ms + q.election_timeout_ms(),
            campaign=_new_campaign(q, now_ms, gone),
            retries=retries + 1,
        ),
    )


def become_leader(q: QuorumLogState, now_ms: int) -> None:
    """Lead the epoch that was won: record that, begin the epoch at the log's end, and write its first record.

    That record, LeaderChange, is what lets the high watermark become known without waiting for a client.
    """
    assert isinstance(q.role, Candidate), q.role
    granted = q.role.campaign.granted
    assert len(granted) >= q.majority, granted
    _store(q, replace(q.quorum_state, leader_id=q.replica_id))
    _lead(q, now_ms, granted=granted)


def _lead(q: QuorumLogState, now_ms: int, *, granted: frozenset[ReplicaId]) -> None:
    """Begin the recorded leadership at the log's end."""
    progress = ReplicaProgress(last_fetch_ms=now_ms, announce_at_ms=now_ms)
    _change_role(
        q,
        Leader(
            epoch_start_offset=q.log.log_end_offset,
            voter_set=q.voters,
            voters=dict.fromkeys(q.other_voters, progress),
            observers={},
        ),
    )
    opening = leader_change_batch(
        leader_id=q.replica_id,
        voters=q.voters.ids,
        granting_voters=tuple(sorted(granted)),
        base_offset=q.log.log_end_offset,
        leader_epoch=q.leader_epoch,
    )
    if q.voter_history.latest_offset is not None:
        q.append(opening)
    else:
        # The log does not say yet who votes; who was formatted without voters has it from there.
        q.append(opening, voters_batch(voters=q.voters, base_offset=opening.end_offset, leader_epoch=q.leader_epoch))


def become_follower(
    q: QuorumLogState, epoch: Epoch, leader_id: ReplicaId, now_ms: int, *, fetch_timeout_ms: int | None = None
) -> None:
    """Follow ``leader_id``, the leader of ``epoch``, durably remembered."""
    assert leader_id != q.replica_id, leader_id
    assert epoch >= q.leader_epoch, (epoch, q.leader_epoch)
    assert epoch > q.leader_epoch or not isinstance(q.role, Leader), (epoch, q.role)
    if epoch > q.leader_epoch:
        _store(q, QuorumState(leader_epoch=epoch, leader_id=leader_id))
    elif q.quorum_state.leader_id != leader_id:
        assert q.quorum_state.leader_id is None, (q.quorum_state, leader_id)
        _store(q, replace(q.quorum_state, leader_id=leader_id))
    _change_role(
        q,
        Follower(
            leader_id=leader_id,
            heard_ms=now_ms,
            fetch_deadline_ms=now_ms + (fetch_timeout_ms or q.quorum.fetch_timeout_ms),
        ),
    )
    kept = q.rules.kept_by_new_follower(high_watermark=q.log.high_watermark, log_end_offset=q.log.log_end_offset)
    if kept < q.log.log_end_offset and q.log.is_flushed:  # By the right rules it is never less.
        q.truncate(kept)


def become_resigned(q: QuorumLogState, now_ms: int, *, preferred_candidates: tuple[ReplicaId, ...]) -> None:
    """Give up the leadership of the present epoch and let the voters know, best successor first."""
    assert q.quorum_state.leader_id == q.replica_id, q.quorum_state
    _change_role(
        q,
        Resigned(
            election_deadline_ms=now_ms + q.election_timeout_ms(),
            preferred_candidates=preferred_candidates,
            pending={},
            tell_at_ms=dict.fromkeys(q.other_voters, now_ms),
        ),
    )


def observe_answer(q: QuorumLogState, error: ErrorCode, leader: CurrentLeader | None, now_ms: int) -> None:
    """Learn from an answer who leads; what a replica of another cluster answers is of that cluster's leaders."""
    if error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
        observe_leader(q, leader, now_ms)


def observe_leader(q: QuorumLogState, leader: CurrentLeader | None, now_ms: int) -> None:
    """Learn from any message who leads which epoch, and follow if that is news.

    What contradicts what is known is no reason to stop: whoever can reach a replica can say it. It is noted.
    """
    if leader is None or not q.leader_epoch <= leader.leader_epoch <= EPOCH_MAX:
        return
    if leader.leader_id is not None and is_contradicted(q, leader.leader_id, leader.leader_epoch):
        q.refused_leader = leader
    elif leader.leader_id is None or leader.leader_id == q.replica_id:
        if leader.leader_epoch > q.leader_epoch:
            become_unattached(q, leader.leader_epoch, now_ms)
    elif leader.leader_epoch > q.leader_epoch or q.quorum_state.leader_id is None:
        become_follower(q, leader.leader_epoch, leader.leader_id, now_ms)
    elif isinstance(q.role, Unattached) and not q.campaigns:
        # A voter that gave this leader up does not take others' word that it lives: they may merely not know better,
        # and a campaign that ends with every such word never wins. An observer has only their word.
        become_follower(q, leader.leader_epoch, leader.leader_id, now_ms)


def _store(q: QuorumLogState, state: QuorumState) -> None:
    assert state.leader_epoch >= q.leader_epoch, (state, q.quorum_state)
    before, q.quorum_state = q.quorum_state, state
    if q.rules.quorum_state_is_stored(stored=before, now=state):
        q.emit(StoreQuorumState(topic_partition=q.topic_partition, state=state))


def _new_campaign(q: QuorumLogState, now_ms: int, gone: frozenset[ReplicaId]) -> Campaign:
    granted = frozenset({q.replica_id} if q.is_voter else ())
    return Campaign(granted=granted, gone=gone, pending={}, ask_at_ms=dict.fromkeys(q.other_voters, now_ms))


def _change_role(q: QuorumLogState, role: Role) -> None:
    before, q.role = q.role, role
    if isinstance(before, Leader):
        _release_parked(q)
        if before.transfer is not None and before.transfer.call_id is not None:
            lost = TransferLeadershipResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=q.current_leader)
            q.reply(before.transfer.call_id, lost)
        if before.change is not None:
            response = ChangeVotersResponse(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                not_appended=isinstance(before.change, Joining),
                current_leader=q.current_leader,
            )
            q.reply(before.change.call_id, response)


def _release_parked(q: QuorumLogState) -> None:
    """Answer everything that waited for the lost leadership: the fate of appended records is now unknown."""
    if not q.rules.writes_wait_after_leadership():
        fail_produces(q)
    for fetch in q.fetches.take_all():
        refuse_fetch(q, fetch.call_id, fetch.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
