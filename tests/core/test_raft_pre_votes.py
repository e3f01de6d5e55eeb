"""Pre-votes (KIP-996): they cost nothing, promise nothing, and protect a healthy leader."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from tests.core.harness import Bench, leader, stored
from tests.core.scenarios import (
    answer_fetch,
    begin,
    campaign,
    end,
    follower_bench,
    granted,
    leader_bench,
    records,
    rejected,
    vote,
    voted,
)


@pytest.fixture
def bench() -> Bench:
    """Replica 0, which starts with epoch 5 and knows no leader."""
    return Bench(quorum_state=stored(5))


def test_pre_vote_is_free(bench: Bench) -> None:
    """A pre-vote in the present epoch stores nothing and may be given to several."""
    for candidate in (1, 2):
        assert voted(bench, vote(5, candidate=candidate, pre_vote=True)).vote_granted
        assert not bench.made(fx.StoreQuorumState)
    assert bench.role == "unattached"


def test_pre_vote_by_a_voter_that_has_voted() -> None:
    """Having voted for one candidate does not keep a voter from a pre-vote for another."""
    bench = Bench(quorum_state=stored(5, voted_id=2))
    assert voted(bench, vote(5, candidate=1, pre_vote=True)).vote_granted
    assert bench.disk.quorum_state == stored(5, voted_id=2)


def test_follower_denies_pre_vote_once_it_has_fetched() -> None:
    """A follower promises its vote until its leader has answered a fetch, and not while that leader serves it."""
    bench = follower_bench(leader_id=2)
    assert voted(bench, vote(5, pre_vote=True)).vote_granted
    answer_fetch(bench, records([], leader_id=2, epoch=5))
    response = voted(bench, vote(5, pre_vote=True))
    assert (response.error, response.vote_granted, response.current_leader) == (ErrorCode.NONE, False, leader(2, 5))


def test_leader_denies_pre_vote() -> None:
    """A leader does not vote itself out."""
    assert not voted(leader_bench(), vote(6, last=(6, 99), pre_vote=True)).vote_granted


@pytest.mark.parametrize("role", ["prospective", "candidate", "resigned"])
def test_campaigners_and_resigned_grant_pre_votes(role: str) -> None:
    """Whoever has no leader to protect promises its vote to a good log."""
    bench = Bench(quorum_state=stored(5, leader_id=0) if role == "resigned" else stored(5))
    if role == "prospective":
        bench.to_role("prospective")
    if role == "candidate":
        campaign(bench)
    assert bench.role == role
    assert voted(bench, vote(bench.epoch, last=(bench.epoch - 1, 9), pre_vote=True)).vote_granted
    assert bench.role == role


def test_pre_vote_may_come_from_a_log_of_the_present_epoch(bench: Bench) -> None:
    """A prospective has not raised its epoch, so its last record may be of it, but not of a newer one."""
    assert voted(bench, vote(5, last=(5, 9), pre_vote=True)).vote_granted
    assert voted(bench, vote(5, last=(6, 9), pre_vote=True)).error is ErrorCode.INVALID_REQUEST
    assert bench.epoch == 5


def test_pre_vote_of_an_older_epoch_is_fenced() -> None:
    """A prospective of an older epoch learns the newer one."""
    response = voted(follower_bench(leader_id=2), vote(4, pre_vote=True))
    assert (response.error, response.current_leader) == (ErrorCode.FENCED_LEADER_EPOCH, leader(2, 5))


def test_prospective_raises_no_epoch_and_stores_nothing(bench: Bench) -> None:
    """Until a majority has promised its votes, neither disk nor epoch move."""
    bench.to_role("prospective")
    assert {request.candidate_epoch for request in bench.requests(m.VoteRequest).values()} == {5}
    assert all(request.pre_vote for request in bench.requests(m.VoteRequest).values())
    bench.respond(bench.send_to(1, m.VoteRequest), granted(5))
    assert (bench.role, bench.epoch, bench.disk.quorum_state) == ("candidate", 6, stored(6, voted_id=0))


def test_prospective_without_a_leader_waits_after_losing(bench: Bench) -> None:
    """Who would not be elected stops asking for an election timeout."""
    bench.to_role("prospective")
    for voter in (1, 2):
        bench.respond(bench.send_to(voter, m.VoteRequest), rejected(5))
    assert (bench.role, bench.epoch) == ("unattached", 5)


def test_prospective_returns_to_its_leader_after_losing() -> None:
    """A follower that was cut off and would not be elected fetches from its leader again."""
    bench = follower_bench(leader_id=2)
    bench.to_role("prospective")
    for voter in (1, 2):
        bench.respond(bench.send_to(voter, m.VoteRequest), rejected(5, 2))
    assert (bench.role, bench.log.leader_id, bench.epoch) == ("follower", 2, 5)


def test_hearsay_of_a_leader_given_up_does_not_end_a_campaign() -> None:
    """Voters that still name a silent leader merely do not know better; their promises count all the same."""
    bench = follower_bench(leader_id=2, voters=(0, 1, 2, 3))
    bench.to_role("prospective")
    for voter in (1, 3):
        promise = m.VoteResponse(error=ErrorCode.NONE, vote_granted=True, current_leader=leader(2, 5))
        bench.respond(bench.send_to(voter, m.VoteRequest), promise)
    assert (bench.role, bench.epoch) == ("candidate", 6)


def test_prospective_that_hears_of_an_unknown_leader_follows(bench: Bench) -> None:
    """A leader of the present epoch that the prospective never heard of ends its campaign."""
    bench.to_role("prospective")
    bench.respond(bench.send_to(1, m.VoteRequest), rejected(5, 2))
    assert (bench.role, bench.log.leader_id) == ("follower", 2)
    assert bench.disk.quorum_state == stored(5, leader_id=2)


def test_prospective_gives_up_after_an_election_timeout(bench: Bench) -> None:
    """Voters that never answer do not keep a prospective asking for ever."""
    bench.to_role("prospective")
    bench.to_role("unattached")
    assert bench.epoch == 5


def test_prospective_votes_for_a_candidate_of_its_epoch(bench: Bench) -> None:
    """A prospective has not voted yet and may still vote in its epoch."""
    bench.to_role("prospective")
    assert voted(bench, vote(5, last=(4, 9))).vote_granted
    assert (bench.role, bench.disk.quorum_state) == ("unattached", stored(5, voted_id=1))


def test_prospective_that_gave_up_its_leader_does_not_vote_in_that_epoch() -> None:
    """An epoch whose leader is known has no vote left to give."""
    bench = follower_bench(leader_id=2)
    bench.to_role("prospective")
    assert not voted(bench, vote(5, last=(4, 9))).vote_granted


def test_end_quorum_epoch_opens_followers_to_pre_votes() -> None:
    """Once its leader has resigned, a follower promises its vote."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, records([], leader_id=2, epoch=5))
    bench.answer(end(2, 5, 1, 0))
    assert voted(bench, vote(5, last=(5, 9), pre_vote=True)).vote_granted


def test_begin_quorum_epoch_of_a_newer_epoch_ends_a_pre_vote_round(bench: Bench) -> None:
    """A prospective follows a newer leader at once."""
    bench.to_role("prospective")
    bench.answer(begin(1, 6))
    assert (bench.role, bench.epoch) == ("follower", 6)
