"""What no honest replica says: it is refused and noted, and neither halts nor misleads the one who hears it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from replica.core import events as ev
from replica.core import messages as m
from replica.core.quorum.fencing import EPOCH_INTERVAL_MS, EPOCHS_AT_ONCE_MAX
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX
from tests.core.harness import Bench, leader, stored
from tests.core.scenarios import (
    answer_fetch,
    begin,
    campaign,
    end,
    fetch_error,
    follower_bench,
    leader_bench,
    records,
    vote,
    voted,
)

EPOCH = 5
FORGERS: list[Callable[[int], Any]] = [
    vote,
    lambda epoch: vote(epoch, pre_vote=True),
    lambda epoch: begin(1, epoch),
    lambda epoch: end(1, epoch),
]


# --- leaders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [begin(1, EPOCH), end(1, EPOCH)])
def test_a_second_leader_of_a_known_epoch_is_refused(claim: m.Request) -> None:
    """Who follows a leader takes nobody else's word for that epoch: it refuses, notes the claim, and follows on."""
    bench = follower_bench(leader_id=2)
    answered = bench.answer(claim)
    assert answered is not None
    assert (answered.error, bench.halted, bench.log.leader_id) == (ErrorCode.INVALID_REQUEST, None, 2)
    assert bench.log.refused_leader == leader(1, EPOCH)
    assert bench.disk.quorum_state == stored(EPOCH, leader_id=2)


@pytest.mark.parametrize("claim", [begin(1, 6), end(1, 6)])
def test_a_leader_believes_in_no_other_in_its_epoch(bench: Bench, claim: m.Request) -> None:
    """A leader that hears of another one in its own epoch leads on."""
    answered = bench.answer(claim)
    assert answered is not None
    assert (answered.error, bench.halted, bench.role) == (ErrorCode.INVALID_REQUEST, None, "leader")
    assert bench.log.refused_leader == leader(1, 6)


def test_hearsay_of_a_second_leader_is_noted_and_nothing_else() -> None:
    """An answer that names another leader of a known epoch changes nothing either."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, records([], leader_id=1, epoch=EPOCH))
    assert (bench.halted, bench.log.leader_id, bench.log.refused_leader) == (None, 2, leader(1, EPOCH))
    leading = leader_bench()
    announced = leading.send_to(1, m.BeginQuorumEpochRequest)
    leading.respond(announced, m.BeginQuorumEpochResponse(error=ErrorCode.NONE, current_leader=leader(2, 6)))
    assert (leading.halted, leading.role, leading.log.refused_leader) == (None, "leader", leader(2, 6))


# --- epochs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", FORGERS)
@pytest.mark.parametrize("epoch", [EPOCH + EPOCHS_AT_ONCE_MAX + 1, EPOCH_MAX])
def test_an_epoch_far_ahead_is_refused_and_not_stored(make: Callable[[int], Any], epoch: int) -> None:
    """A request that is further ahead than elections can have gone on changes no epoch and stores none."""
    bench = follower_bench(epoch=EPOCH)
    before = bench.disk.quorum_state
    answered = bench.answer(make(epoch))
    assert answered is not None
    assert (answered.error, bench.epoch, bench.disk.quorum_state) == (ErrorCode.UNKNOWN_LEADER_EPOCH, EPOCH, before)


@pytest.mark.parametrize("make", FORGERS)
def test_an_epoch_that_no_batch_can_hold_is_malformed(make: Callable[[int], Any]) -> None:
    """Beyond the last epoch there is none."""
    answered = follower_bench(epoch=EPOCH).answer(make(EPOCH_MAX + 1))
    assert answered is not None
    assert answered.error is ErrorCode.INVALID_REQUEST


@pytest.mark.slow
@pytest.mark.parametrize("make", FORGERS)
def test_no_number_of_requests_uses_up_the_epochs(make: Callable[[int], Any]) -> None:
    """Thousands of requests, each for the furthest epoch that is taken, raise it by one a second in the long run."""
    bench = Bench(quorum_state=stored(EPOCH))
    for _ in range(1000):
        for ahead in range(EPOCHS_AT_ONCE_MAX, 0, -1):
            bench.call(make(bench.epoch + ahead))
    assert bench.epoch == EPOCH + EPOCHS_AT_ONCE_MAX
    for _ in range(100):
        bench.now_ms += EPOCH_INTERVAL_MS // 2
        bench.call(make(bench.epoch + 2))
        bench.call(make(bench.epoch + 1))
    assert bench.epoch == EPOCH + EPOCHS_AT_ONCE_MAX + 50


def test_candidates_do_not_topple_a_leader(bench: Bench) -> None:
    """Who leads takes no later epoch from who asks for its vote: somebody else may win that election."""
    response = voted(bench, vote(7, last=(6, 99)))
    assert (response.vote_granted, response.current_leader, bench.role) == (False, leader(0, 6), "leader")


def test_a_leader_ends_its_epoch_for_who_can_follow_nobody_in_it(bench: Bench) -> None:
    """A pre-vote in a later epoch comes from a replica that has reached it, and cannot go back."""
    voted(bench, vote(7, last=(6, 99), pre_vote=True))
    assert (bench.epoch, bench.role) == (7, "unattached")


@pytest.mark.parametrize("pre_vote", [True, False])
def test_candidates_topple_no_follower(pre_vote: bool) -> None:
    """Who hears from its leader takes no later epoch from who asks for votes."""
    follower = follower_bench(leader_id=2)
    answer_fetch(follower, records([], leader_id=2, epoch=EPOCH))
    assert not voted(follower, vote(6, last=(EPOCH, 99), pre_vote=pre_vote)).vote_granted
    assert (follower.epoch, follower.role) == (EPOCH, "follower")


# --- who is honest, and behind or ahead -----------------------------------------------------------------------------


def test_who_was_away_for_thousands_of_elections_learns_the_epoch_by_asking() -> None:
    """It refuses the candidate of a far later epoch, asks for votes itself, and takes the epoch from the answer."""
    bench = Bench(quorum_state=stored(EPOCH))
    assert voted(bench, vote(5000, pre_vote=True)).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    bench.to_role("prospective")
    answer = m.VoteResponse(error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader(None, 5000))
    bench.respond(bench.send_to(1, m.VoteRequest), answer)
    assert bench.epoch == 5000
    assert voted(bench, vote(5000, pre_vote=True)).vote_granted
    assert voted(bench, vote(5001)).vote_granted


def test_a_follower_that_was_away_learns_the_epoch_by_fetching() -> None:
    """Its leader's answer names the present one, however far ahead."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 1, 5000))
    assert (bench.epoch, bench.log.leader_id) == (5000, 1)


@pytest.mark.parametrize("role", ["unattached", "prospective", "follower"])
def test_a_leader_of_a_far_later_epoch_is_asked(role: str) -> None:
    """Its word is not believed, and its answer is: whoever else this replica could ask may be gone."""
    bench = follower_bench(leader_id=2) if role == "follower" else Bench(quorum_state=stored(EPOCH))
    bench.to_role(role)
    answered = bench.answer(begin(1, 5000))
    assert answered is not None
    assert (answered.error, bench.epoch) == (ErrorCode.UNKNOWN_LEADER_EPOCH, EPOCH)
    bench.respond(bench.send_to(1, m.FetchRequest), fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 1, 5000))
    assert (bench.role, bench.epoch, bench.log.leader_id) == ("follower", 5000, 1)


def test_a_leader_that_means_the_disk_before_is_asked() -> None:
    """A replaced disk may know nobody else: of its leader it hears by what was meant for the old one."""
    bench = Bench(quorum_state=stored(EPOCH))
    answered = bench.answer(
        replace(begin(1, EPOCH + 1), voter_id=bench.log.replica_id, voter_directory_id="the-former")
    )
    assert answered is not None
    assert (answered.error, bench.epoch) == (ErrorCode.INVALID_VOTER_KEY, EPOCH)
    bench.respond(bench.send_to(1, m.FetchRequest), fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 1, EPOCH + 1))
    assert (bench.role, bench.epoch, bench.log.leader_id) == ("follower", EPOCH + 1, 1)


def test_a_leader_learns_of_a_voter_that_is_ahead_by_telling_it(bench: Bench) -> None:
    """Who does not fetch, because its own epoch is later, says so when the leader makes itself known."""
    answer = m.BeginQuorumEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader(None, 9))
    bench.respond(bench.send_to(1, m.BeginQuorumEpochRequest), answer)
    assert (bench.role, bench.epoch) == ("unattached", 9)


def test_the_first_after_a_rest_takes_an_election_at_once() -> None:
    """Votes of one epoch more are given as fast as ever, as long as there are not many in a row."""
    bench = Bench(quorum_state=stored(EPOCH))
    for epoch in range(EPOCH + 1, EPOCH + 1 + EPOCHS_AT_ONCE_MAX):
        assert voted(bench, vote(epoch)).vote_granted
    assert voted(bench, vote(bench.epoch + 1)).error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_its_own_elections_cost_a_voter_nothing() -> None:
    """What a replica begins itself does not count as raised by others."""
    bench = Bench(quorum_state=stored(EPOCH))
    campaign(bench)
    assert bench.log.epochs_spent_until_ms == 0
    bench.step(ev.Ticked())
