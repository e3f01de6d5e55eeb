"""Votes where voters change: who is asked, who answers, whose votes count, and who finds a leader without them."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId
from tests.core.harness import disk_id, leader, stored, voters_of
from tests.core.membership_scenarios import (
    FOUR,
    acknowledge,
    fresh_bench,
    fresh_follower,
    ids,
    joining_follower,
    naming,
    remove,
    settled_leader,
)
from tests.core.scenarios import (
    answer_fetch,
    begin,
    campaign,
    end,
    fetch_error,
    granted,
    records,
    rejected,
    vote,
    voted,
)

INVALID_KEY = ErrorCode.INVALID_VOTER_KEY


@pytest.mark.parametrize("pre_vote", [True, False])
@pytest.mark.parametrize("initial", [(), (1, 2), (0, 1, 2)])
def test_who_is_named_answers_whatever_set_it_knows(initial: tuple[int, ...], pre_vote: bool) -> None:
    """Its own set may be old: that it does not vote, or that the candidate does not, it may merely not know yet."""
    bench = fresh_bench(initial=initial, voters=(1, 2))
    assert voted(bench, vote(1, candidate=7, pre_vote=pre_vote)).vote_granted


@pytest.mark.parametrize(
    "others",
    [
        {"disk": 1},
        {"to": 2},
        {"voter_id": None},
        {"voter_directory_id": None},
    ],
)
def test_who_is_not_named_votes_for_nobody(others: dict[str, Any]) -> None:
    """A vote on another disk, or of whoever it is, would count for the one that was meant. The epoch is taken."""
    bench = fresh_bench()
    response = voted(bench, vote(3, **others))
    assert (response.error, response.vote_granted, bench.epoch) == (INVALID_KEY, False, 3)


def test_a_wiped_disk_cannot_vote_twice() -> None:
    """The old disk has voted for 1; whoever comes back on a new one is not the voter that 2 asks."""
    bench = fresh_bench()
    assert voted(bench, vote(3, candidate=1)).vote_granted
    wiped = fresh_bench(initial=(), voters=(1, 2), disk=1)
    response = voted(wiped, vote(3, candidate=2))
    assert (response.error, response.vote_granted) == (INVALID_KEY, False)


def test_a_candidate_on_another_disk_is_another_candidate() -> None:
    """A vote is repeated to whom it was given, and given to nobody else in its epoch."""
    bench = fresh_bench()
    assert voted(bench, vote(3, candidate=1)).vote_granted
    assert voted(bench, vote(3, candidate=1)).vote_granted
    assert not voted(bench, vote(3, candidate=1, candidate_directory_id=disk_id(1, 1))).vote_granted


def test_a_shorter_log_gets_no_vote_from_a_stranger_either() -> None:
    """Who does not know that it votes compares logs as a voter does."""
    bench = joining_follower()
    answer_fetch(bench, records([naming(FOUR, 0, 5)], leader_id=1, epoch=5))
    bench.flush_all()
    answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 5))
    assert not voted(bench, vote(6, last=(4, 9))).vote_granted
    assert voted(bench, vote(6, last=(5, 1))).vote_granted


def test_a_candidate_asks_the_voters_in_force_by_disk() -> None:
    """By the set in its log, committed or not, it knows whom to ask, on which disk, and how many are enough."""
    bench = fresh_follower()
    answer_fetch(bench, records([naming(FOUR, 0, 5)], leader_id=1, epoch=5))
    bench.flush_all()
    bench.to_role("prospective")
    asked = bench.requests(m.VoteRequest)
    assert {to: (request.voter_id, request.voter_directory_id) for to, request in asked.items()} == {
        other: (other, disk_id(other)) for other in (1, 2, 3)
    }
    bench.respond(bench.send_to(1, m.VoteRequest), granted(5))
    assert bench.role == "prospective", "two of four"
    bench.respond(bench.send_to(3, m.VoteRequest), granted(5))
    assert bench.role == "candidate"


def test_a_removed_follower_campaigns_no_more() -> None:
    """Once its removal is committed it asks who leads; before that it may be needed."""
    bench = fresh_follower()
    answer_fetch(bench, records([naming(voters_of(1, 2), 0, 5)], leader_id=1, epoch=5))
    bench.flush_all()
    assert (bench.log.is_voter, bench.log.campaigns) == (False, True)
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=1))
    assert not bench.log.campaigns
    bench.sends.clear()
    bench.elapse(60_000)
    assert bench.role == "unattached"
    assert not bench.requests(m.VoteRequest)


def test_who_is_about_to_leave_campaigns() -> None:
    """A leader of two that removes itself and crashes has the only log that can win; it does not vote for itself."""
    bench = settled_leader(initial=(0, 1))
    remove(bench, 0)
    bench.flush_all()
    bench.restart()
    bench.to_role("prospective")
    for role in ("candidate", "leader"):
        bench.respond(bench.sends[-1], granted(bench.epoch))
        assert bench.role == role
    acknowledge(bench, 1)
    assert (ids(bench), bench.role) == ((1,), "resigned")


def test_who_is_about_to_leave_does_not_count_its_own_vote() -> None:
    """Of two that are left it needs both."""
    bench = settled_leader()
    remove(bench, 0)
    bench.flush_all()
    bench.restart()
    bench.to_role("prospective")
    bench.respond(bench.send_to(1, m.VoteRequest), granted(bench.epoch))
    assert bench.role == "prospective"
    bench.respond(bench.send_to(2, m.VoteRequest), granted(bench.epoch))
    assert bench.role == "candidate"


def test_a_voter_that_is_rejected_by_who_follows_learns_of_the_leader() -> None:
    """One that was removed while it was down asks for votes, and is told who leads."""
    bench = fresh_bench()
    bench.to_role("prospective")
    bench.respond(bench.send_to(1, m.VoteRequest), rejected(7, leader_id=4))
    assert (bench.role, bench.epoch, bench.log.leader_id) == ("follower", 7, 4)


def test_a_voter_whose_voters_are_gone_asks_whom_the_operator_names() -> None:
    """All that it knows were replaced while it was down."""
    bench = fresh_bench(voters=(4, 5))
    assert bench.role == "unattached"
    assert set(bench.requests(m.FetchRequest)) == {4}
    bench.respond(bench.send_to(4, m.FetchRequest), fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 9))
    assert (bench.role, bench.log.leader_id) == ("follower", 5)


def test_an_observer_asks_its_voters_and_then_whom_the_operator_names() -> None:
    """Each once, itself never, one after the other."""
    bench = fresh_bench(initial=(1, 2), voters=(0, 2, 4))
    asked = []
    for _ in range(4):
        (send,) = [send for send in bench.sends if isinstance(send.request, m.FetchRequest)]
        asked.append(send.replica_id)
        bench.fail(send)
        bench.elapse(20)
    assert asked == [1, 2, 4, 1]


@pytest.mark.parametrize("leader_id", [1, 7])
def test_any_other_replica_may_lead(leader_id: int) -> None:
    """A leader that this replica does not know to vote is believed: the record that says so may be what it lacks."""
    bench = fresh_bench()
    response = bench.answer(begin(leader_id, 3, voter_id=0, voter_directory_id=disk_id(0)))
    assert response == m.BeginQuorumEpochResponse(error=ErrorCode.NONE, current_leader=leader(leader_id, 3))
    response = bench.answer(end(leader_id, 3, 2, 0))
    assert response == m.EndQuorumEpochResponse(error=ErrorCode.NONE, current_leader=leader(None, 3))


@pytest.mark.parametrize("disk", [1, None])
def test_a_leader_that_means_another_disk_is_not_believed(disk: int | None) -> None:
    """Who leads this very voter knows its disk; who was meant otherwise learns of a leader by asking."""
    bench = fresh_bench(quorum_state=stored(2))
    named = None if disk is None else disk_id(0, disk)
    response = bench.answer(begin(1, 3, voter_id=0, voter_directory_id=named))
    assert response == m.BeginQuorumEpochResponse(error=INVALID_KEY, current_leader=leader(None, 2))
    assert bench.role == "unattached"


def test_a_replica_never_believes_that_it_leads_itself() -> None:
    """A request in its own name comes from who has its id and another disk."""
    bench = fresh_bench()
    assert voted(bench, vote(3, candidate=0)).error is ErrorCode.INVALID_REQUEST
    response = bench.answered(begin(0, 3, voter_id=0, voter_directory_id=disk_id(0)), m.BeginQuorumEpochResponse)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert bench.epoch == 0


def test_an_observer_does_not_lead_after_it_has_led() -> None:
    """A leader that restarts after it has removed itself, and knows that to be committed, asks who leads."""
    bench = settled_leader()
    remove(bench, 0)
    acknowledge(bench, 1, 2)
    assert bench.role == "resigned"
    bench.store(3, 1)
    bench.finish_storing()
    bench.restart()
    assert (ids(bench), bench.role, bench.log.campaigns) == ((1, 2), "unattached", False)


# --- observers ------------------------------------------------------------------------------------------------------


def test_handle_vote_request_as_observer() -> None:
    """Who is no voter as far as it knows votes all the same where it is named, durably, and campaigns for nobody."""
    bench = fresh_bench(replica_id=9, initial=(1, 2), quorum_state=stored(2))
    assert voted(bench, vote(3, to=9, last=(2, 1))).vote_granted
    assert bench.disk.quorum_state == fx.QuorumState(
        leader_epoch=Epoch(3), voted_id=ReplicaId(1), voted_directory_id=disk_id(1)
    )
    bench.elapse(60_000)
    assert (bench.role, bench.epoch) == ("unattached", 3)


@pytest.mark.parametrize("power_loss", [False, True])
def test_observer_with_id_can_vote(power_loss: bool) -> None:
    """An observer has one vote an epoch like anybody, after a restart too, and gives it to no log that is behind."""
    bench = fresh_bench(replica_id=9, initial=(1, 2), log=[(2, 3)], quorum_state=stored(2))
    assert not voted(bench, vote(3, to=9, candidate=1, last=(2, 2))).vote_granted
    assert voted(bench, vote(3, to=9, candidate=2, last=(2, 3))).vote_granted
    bench.restart(power_loss=power_loss)
    assert not voted(bench, vote(3, to=9, candidate=1, last=(2, 9))).vote_granted
    assert voted(bench, vote(3, to=9, candidate=2, last=(2, 3))).vote_granted


def test_leader_accept_vote_from_observer() -> None:
    """Who led takes a stranger's request as anybody's: fenced, rejected in its own epoch, granted in a later one."""
    bench = settled_leader(quorum_state=stored(5))
    epoch = bench.epoch
    assert voted(bench, vote(epoch - 1, candidate=7)).error is ErrorCode.FENCED_LEADER_EPOCH
    response = voted(bench, vote(epoch, candidate=7))
    assert (response.error, response.vote_granted, bench.role) == (ErrorCode.NONE, False, "leader")
    bench.step(ev.ResignRequested())
    assert voted(bench, vote(epoch + 1, candidate=7, last=(epoch, 2))).vote_granted
    assert (bench.role, bench.epoch) == ("unattached", epoch + 1)


def test_observer_unattached_to_follower() -> None:
    """An observer follows the leader of whom it is told, and stores it."""
    bench = fresh_bench(replica_id=9, initial=(1, 2), quorum_state=stored(5))
    assert bench.role == "unattached"
    bench.respond(bench.send_to(1, m.FetchRequest), fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 2, 8))
    assert (bench.role, bench.disk.quorum_state) == ("follower", stored(8, leader_id=2))


def test_observer_follower_to_unattached() -> None:
    """An observer whose leader is silent looks for another one, and its epoch stays."""
    bench = fresh_bench(replica_id=9, initial=(1, 2), quorum_state=stored(5))
    bench.respond(bench.send_to(1, m.FetchRequest), fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 5))
    assert bench.role == "follower"
    bench.elapse(bench.config.quorum.fetch_timeout_ms)
    assert (bench.role, bench.epoch) == ("unattached", 5)


def test_an_observer_does_not_ask_in_a_circle() -> None:
    """Where the leader has resigned and the others still name it, each turn of the circle waits its time."""
    bench = fresh_bench(replica_id=9, initial=(1, 2), quorum_state=stored(5))
    asked = []
    for _ in range(3):
        bench.respond(bench.send_to(1, m.FetchRequest), fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 5))
        assert bench.role == "follower"
        bench.respond(bench.send_to(2, m.FetchRequest), fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 5))
        assert bench.role == "unattached"
        asked.append(bench.requests(m.FetchRequest))
        bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert asked == [{}, {}, {}]


def test_can_become_follower_of_non_voter() -> None:
    """A voter follows a leader that votes in no set of which it knows."""
    bench = fresh_bench()
    bench.answer(begin(7, 3, voter_id=0, voter_directory_id=disk_id(0)))
    assert (bench.role, bench.disk.quorum_state) == ("follower", stored(3, leader_id=7))
    assert set(bench.requests(m.FetchRequest)) == {7}


def test_static_voters_ignored_with_bootstrap_snapshot() -> None:
    """Where a disk was formatted with voters, those count, and not those whom the operator names beside."""
    bench = fresh_bench(initial=(0, 1, 2), voters=(0, 1))
    campaign(bench)
    assert set(bench.requests(m.VoteRequest)) == {1, 2}
    assert (ids(bench), bench.log.majority) == ((0, 1, 2), 2)
