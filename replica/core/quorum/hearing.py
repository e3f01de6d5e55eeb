"""What a follower knows of its leader's life: when it has heard from it, and that its process has ended.

A leader that is silent may be cut off, paused, or slow, and is given its whole time. One whose process has ended leads
no more: it would resign if it came back. Whoever has evidence of that, and has not heard from it since, protects it no
longer, and the voters campaign at once, one after the other, so that they do not take each other's votes. Where a
leader may answer by lease, nobody gives it up earlier for that: the evidence may be wrong, and then costs an election.

Source: Kafka's ``FollowerState``; Ongaro's thesis, section 4.2.3.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.quorum.leasing import withholds_vote
from replica.core.quorum.roles import Candidate, Follower, Leader, Prospective
from replica.core.quorum.state import QuorumLogState
from replica.ids import ReplicaId


def heard(q: QuorumLogState, role: Follower, now_ms: int) -> Follower:
    """Note that the leader has answered: whatever was said of it before is over."""
    return replace(
        role,
        has_fetched=True,
        is_refused=False,
        heard_ms=now_ms,
        fetch_deadline_ms=now_ms + q.quorum.fetch_timeout_ms,
    )


def hears_from_leader(q: QuorumLogState) -> bool:
    """Tell whether somebody leads, for all that this replica knows by itself: it does, or its leader answers."""
    role = q.role
    return isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched and not role.is_refused)


def watched_leader(q: QuorumLogState) -> ReplicaId | None:
    """Name the leader of whose end this replica wants to hear at once: the one that it follows, or has given up."""
    match q.role:
        case Follower(leader_id=leader_id):
            return leader_id
        case Prospective():
            return None if q.quorum_state.leader_id == q.replica_id else q.quorum_state.leader_id
        case _:
            return None


def on_peer_refused(q: QuorumLogState, replica_id: ReplicaId, refused_at_ms: int, now_ms: int) -> None:
    """Give up a leader whose process has ended, and wait for no vote of a voter whose process has."""
    role = q.role
    if isinstance(role, Follower) and role.leader_id == replica_id and not role.is_refused:
        gives_up = q.rules.gives_up_refused_leader(
            refused_at_ms=refused_at_ms, heard_ms=role.heard_ms, withholds_vote=withholds_vote(q, now_ms)
        )
        if gives_up:
            q.heard_leader_ms = None
            deadline_ms = min(role.fetch_deadline_ms, now_ms + _turn_ms(q, replica_id))
            q.role = replace(role, is_refused=True, fetch_deadline_ms=deadline_ms)
    elif isinstance(role, Prospective | Candidate) and replica_id in role.campaign.ask_at_ms:
        q.role = replace(role, campaign=replace(role.campaign, gone=role.campaign.gone | {replica_id}))


def _turn_ms(q: QuorumLogState, gone_id: ReplicaId) -> int:
    """Name how long this replica lets others campaign first: those voters that come before it.

    The first waits a little, too: who is asked before it has the evidence itself promises nothing.
    """
    left = [voter for voter in q.voters.ids if voter != gone_id]
    place = left.index(q.replica_id) if q.replica_id in left else len(left)
    return q.quorum.campaign_turn_ms * place + q.quorum.campaign_turn_ms // 8
