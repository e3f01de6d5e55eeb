"""Transitions that are illegal from every state: Kafka's QuorumStateTest (``testXToAnyStateLowerEpoch`` and more)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.core import messages as m
from replica.core.quorum.state import QuorumLogState
from replica.core.quorum.transitions import (
    become_candidate,
    become_follower,
    become_leader,
    become_prospective,
    become_resigned,
    become_unattached,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId
from tests.core.harness import Bench, stored
from tests.core.scenarios import begin, campaign, end, follow, follower_bench, leader_bench, vote, voted

NOW_MS = 2_000_000
OTHER = ReplicaId(1)


def unattached() -> Bench:
    """Build a voter that knows no leader of epoch 5."""
    return Bench(quorum_state=stored(5))


def unattached_voted() -> Bench:
    """Build a voter that has voted in epoch 5."""
    return Bench(quorum_state=stored(5, voted_id=2))


def prospective() -> Bench:
    """Build a voter that asks for pre-votes."""
    bench = unattached()
    bench.to_role("prospective")
    return bench


def candidate() -> Bench:
    """Build a voter that asks for votes in epoch 6."""
    bench = unattached()
    campaign(bench)
    return bench


def resigned() -> Bench:
    """Build a leader that came back after a restart."""
    return Bench(quorum_state=stored(5, leader_id=0))


STATES: list[Callable[[], Bench]] = [
    unattached,
    unattached_voted,
    prospective,
    candidate,
    leader_bench,
    follower_bench,
    resigned,
]
LOWER: dict[str, Callable[[QuorumLogState, Epoch], None]] = {
    "unattached": lambda q, epoch: become_unattached(q, epoch, NOW_MS),
    "follower": lambda q, epoch: become_follower(q, epoch, OTHER, NOW_MS),
}


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
def test_to_any_state_lower_epoch(build: Callable[[], Bench]) -> None:
    """No state is left for an earlier epoch: as a transition that is our mistake, and a request for it is fenced."""
    bench = build()
    before = (bench.log.role, bench.log.quorum_state)
    for to_lower in LOWER.values():
        with pytest.raises(AssertionError):
            to_lower(bench.log, Epoch(bench.epoch - 1))
    assert (bench.log.role, bench.log.quorum_state) == before
    stored_before = bench.disk.quorum_state
    for request in (vote(bench.epoch - 1), begin(1, bench.epoch - 1), end(1, bench.epoch - 1, 0)):
        response = bench.answer(request)
        assert isinstance(response, m.VoteResponse | m.BeginQuorumEpochResponse | m.EndQuorumEpochResponse)
        assert response.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (bench.role, bench.log.quorum_state) == (before[0].name, before[1])
    assert bench.disk.quorum_state == stored_before


def test_unattached_voted_same_epoch() -> None:
    """A vote in the present epoch is stored in it, and gives its candidate a whole election timeout."""
    bench = unattached()
    bench.elapse(bench.config.quorum.election_timeout_ms - 1)
    assert voted(bench, vote(5, candidate=2)).vote_granted
    assert (bench.role, bench.disk.quorum_state) == ("unattached", stored(5, voted_id=2))
    assert bench.replica.deadline_ms is not None
    assert bench.replica.deadline_ms - bench.now_ms >= bench.config.quorum.election_timeout_ms
    assert not voted(bench, vote(5, candidate=1)).vote_granted


@pytest.mark.parametrize("voted_id", [None, 1])
def test_observer_cannot_become_candidate_or_leader(voted_id: int | None) -> None:
    """Who has no vote neither campaigns nor leads, for whomever it has voted."""
    bench = Bench(replica_id=9, quorum_state=stored(5, voted_id=voted_id))
    for become in (become_prospective, become_candidate, become_leader):
        with pytest.raises(AssertionError):
            become(bench.log, NOW_MS)
    assert (bench.role, bench.disk.quorum_state) == ("unattached", stored(5, voted_id=voted_id))


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
def test_cannot_follow_self(build: Callable[[], Bench]) -> None:
    """No state becomes a follower of its own replica, in the present epoch or a later one."""
    bench = build()
    for epoch in (bench.epoch, bench.epoch + 1):
        with pytest.raises(AssertionError):
            become_follower(bench.log, Epoch(epoch), bench.log.replica_id, NOW_MS)


@pytest.mark.parametrize("build", [state for state in STATES if state is not prospective], ids=lambda b: b.__name__)
def test_only_a_prospective_becomes_candidate(build: Callable[[], Bench]) -> None:
    """A new epoch is begun only after a round of pre-votes."""
    with pytest.raises(AssertionError):
        become_candidate(build().log, NOW_MS)


@pytest.mark.parametrize("build", STATES, ids=lambda build: build.__name__)
def test_no_state_leads_without_granted_votes(build: Callable[[], Bench]) -> None:
    """Neither another state nor a candidate without a majority becomes leader."""
    with pytest.raises(AssertionError):
        become_leader(build().log, NOW_MS)


@pytest.mark.parametrize("build", [unattached, candidate, follower_bench], ids=lambda build: build.__name__)
def test_only_the_recorded_leader_resigns(build: Callable[[], Bench]) -> None:
    """Who has not led the epoch cannot resign from it."""
    with pytest.raises(AssertionError):
        become_resigned(build().log, NOW_MS, preferred_candidates=())


def test_leader_to_follower(bench: Bench) -> None:
    """A leader follows nobody in the epoch that it leads, and the leader of a later one."""
    with pytest.raises(AssertionError):
        become_follower(bench.log, bench.log.leader_epoch, OTHER, NOW_MS)
    assert bench.role == "leader"
    follow(bench, 1, 7)
    assert (bench.role, bench.disk.quorum_state) == ("follower", stored(7, leader_id=1))


def test_follower_to_another_leader_of_its_epoch() -> None:
    """An epoch that has one leader does not get another."""
    bench = follower_bench(leader_id=1)
    with pytest.raises(AssertionError):
        become_follower(bench.log, bench.log.leader_epoch, ReplicaId(2), NOW_MS)
