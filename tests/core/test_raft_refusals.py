"""Evidence that a leader's process has ended: who gives it up, when, and what it is worth once it is old."""

from __future__ import annotations

import pytest

from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.harness import Bench, stored
from tests.core.scenarios import (
    answer_fetch,
    begin_to,
    fetch_error,
    follower_bench,
    granted,
    leader_bench,
    records,
    rejected,
    vote,
    voted,
)

TURN_MS = QuorumConfig().campaign_turn_ms


def refuse(bench: Bench, replica_id: int, *, ago_ms: int = 0) -> None:
    """Let the replica know that nobody listens where this peer did, as was seen so long ago."""
    bench.step(ev.PeerRefused(replica_id=ReplicaId(replica_id), refused_at_ms=bench.now_ms - ago_ms))


@pytest.fixture
def bench() -> Bench:
    """A follower that its leader has just answered."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, records([], leader_id=2, epoch=5))
    bench.elapse(10)
    return bench


def test_a_follower_campaigns_at_once_when_its_leader_has_ended(bench: Bench) -> None:
    """It need not wait for a fetch timeout: well within a turn it asks for pre-votes, in the present epoch."""
    refuse(bench, 2)
    bench.elapse(TURN_MS // 2)
    assert (bench.role, bench.epoch) == ("prospective", 5)
    assert bench.requests(m.VoteRequest)[1].pre_vote


def test_voters_campaign_one_after_the_other() -> None:
    """With the same evidence at the same time the second voter waits a turn longer: they do not split the vote."""
    second = follower_bench(leader_id=0, replica_id=2)
    answer_fetch(second, records([], leader_id=0, epoch=5))
    refuse(second, 0)
    second.elapse(TURN_MS)
    assert second.role == "follower"
    second.elapse(TURN_MS // 2)
    assert second.role == "prospective"


def test_who_has_the_evidence_grants_a_pre_vote(bench: Bench) -> None:
    """A follower that its leader serves promises nothing; with evidence that this leader has ended it does."""
    assert not voted(bench, vote(5, pre_vote=True)).vote_granted
    refuse(bench, 2)
    assert voted(bench, vote(5, pre_vote=True)).vote_granted
    assert voted(bench, vote(6)).vote_granted


def test_evidence_of_somebody_else_changes_nothing(bench: Bench) -> None:
    """Another voter's end is no reason to give up the leader, nor is it to a leader to give up itself."""
    refuse(bench, 1)
    bench.elapse(TURN_MS)
    assert bench.role == "follower"
    leading = leader_bench()
    refuse(leading, 1)
    assert leading.role == "leader"


def test_evidence_that_is_older_than_an_answer_is_worth_nothing(bench: Bench) -> None:
    """The leader has answered since: it was the end of an earlier process, or no end at all."""
    refuse(bench, 2, ago_ms=11)
    bench.elapse(TURN_MS)
    assert bench.role == "follower"
    assert not voted(bench, vote(5, pre_vote=True)).vote_granted


def test_evidence_of_an_earlier_epoch_is_worth_nothing(bench: Bench) -> None:
    """A leader of a new epoch was heard of after its process before had ended."""
    seen_ms = bench.now_ms
    bench.elapse(5)
    bench.answer(begin_to(bench, 2, 6))
    bench.step(ev.PeerRefused(replica_id=ReplicaId(2), refused_at_ms=seen_ms))
    bench.elapse(TURN_MS)
    assert (bench.role, bench.epoch) == ("follower", 6)


def test_a_leader_that_answers_is_heard_again(bench: Bench) -> None:
    """Evidence was wrong if an answer comes after it, and before a turn is over: the follower protects it again."""
    bench.elapse(bench.log.quorum.fetch_max_wait_ms)
    refuse(bench, 2)
    answer_fetch(bench, records([], leader_id=2, epoch=5))
    bench.elapse(TURN_MS)
    assert bench.role == "follower"
    assert not voted(bench, vote(5, pre_vote=True)).vote_granted


def test_no_vote_is_awaited_of_who_has_ended(bench: Bench) -> None:
    """With one of three gone, the other's no ends a campaign: the next comes soon, not after an election timeout."""
    refuse(bench, 2)
    bench.elapse(TURN_MS // 2)
    bench.respond(bench.send_to(1, m.VoteRequest), rejected(5, 2))
    assert (bench.role, bench.log.leader_id) == ("follower", 2)
    bench.elapse(1)
    refuse(bench, 2)
    bench.elapse(TURN_MS // 2)
    assert bench.role == "prospective"
    bench.respond(bench.send_to(1, m.VoteRequest), granted(5))
    assert (bench.role, bench.epoch) == ("candidate", 6)
    bench.respond(bench.send_to(1, m.VoteRequest), rejected(6))
    assert bench.log.deadline_ms is not None
    assert bench.log.deadline_ms <= bench.now_ms + TURN_MS, "a tie with the only other voter is over at once"


def test_a_campaign_that_learns_of_an_end_waits_no_longer_for_that_vote() -> None:
    """Evidence counts as well when it comes after the requests were sent."""
    bench = follower_bench(leader_id=2)
    bench.to_role("prospective")
    bench.respond(bench.send_to(1, m.VoteRequest), rejected(5, 2))
    assert bench.role == "prospective"
    refuse(bench, 2)
    assert bench.role == "follower"


def test_an_observer_looks_for_another_leader_at_once() -> None:
    """It has no vote, and asks those who have one."""
    bench = Bench(replica_id=9, quorum_state=stored(5))
    bench.respond(bench.send_to(0, m.FetchRequest), fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 5))
    assert (bench.role, bench.log.leader_id) == ("follower", 2)
    refuse(bench, 2)
    bench.elapse(4 * TURN_MS)
    assert bench.role == "unattached"


@pytest.mark.parametrize("role", ["follower", "prospective"])
def test_a_replica_watches_the_leader_that_it_follows_or_has_given_up(role: str) -> None:
    """Its driver lets it hear of that one's end, and of nobody's whom it does not follow."""
    bench = follower_bench(leader_id=2)
    bench.to_role(role)
    assert bench.replica.watched_peers == {2}
    assert leader_bench().replica.watched_peers == set()


def test_a_restarted_follower_does_not_wait_for_a_leader_that_is_gone() -> None:
    """It remembers who led, and has not heard from it in this life: evidence of its end is news."""
    bench = Bench(quorum_state=stored(5, leader_id=2))
    assert bench.replica.watched_peers == {2}
    refuse(bench, 2)
    bench.elapse(TURN_MS // 2)
    assert bench.role == "prospective"
