"""Votes: given once an epoch, durably, to good logs only. Kafka's KafkaRaftClientTest, name by name."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from tests.core.harness import Bench, batches_of, disk_id, leader, stored
from tests.core.scenarios import (
    begin,
    campaign,
    follower_bench,
    granted,
    lead,
    leader_bench,
    pending_fetch,
    records,
    rejected,
    vote,
    voted,
)


@pytest.fixture
def bench() -> Bench:
    """Replica 0, which starts with epoch 5 and knows no leader."""
    return Bench(quorum_state=stored(5))


def test_handle_vote_request_as_follower_with_elected_leader() -> None:
    """A voter that knows the epoch's leader votes for nobody else in it, and says who leads."""
    bench = follower_bench(leader_id=2, epoch=5)
    response = voted(bench, vote(5))
    assert (response.vote_granted, response.current_leader) == (False, leader(2, 5))
    assert bench.role == "follower"


def test_handle_vote_request_as_follower_with_voted_candidate() -> None:
    """A vote given to one candidate is not given to another in the same epoch, and is repeated to the first."""
    bench = Bench(quorum_state=stored(5, voted_id=2))
    assert not voted(bench, vote(5, candidate=1)).vote_granted
    assert voted(bench, vote(5, candidate=2)).vote_granted
    assert bench.disk.quorum_state == stored(5, voted_id=2)


def test_vote_of_one_disk_is_not_repeated_to_another() -> None:
    """The vote was for a candidate with its disk; the same replica with a fresh disk has forgotten why it asked."""
    bench = Bench(quorum_state=stored(5, voted_id=2))
    assert not voted(bench, vote(5, candidate=2, candidate_directory_id="another disk")).vote_granted


def test_vote_is_durable_before_it_is_given(bench: Bench) -> None:
    """Epoch and vote stand in the quorum state before the reply that grants it, in one list of effects."""
    bench.call(vote(6))
    kinds = [type(effect) for effect in bench.effects]
    assert kinds == [fx.StoreQuorumState, fx.StoreQuorumState, fx.Reply]
    assert [store.state for store in bench.made(fx.StoreQuorumState)] == [stored(6), stored(6, voted_id=1)]


def test_restarted_voter_does_not_vote_twice() -> None:
    """A voter that restarts after it voted gives the epoch's vote to nobody else."""
    bench = Bench(quorum_state=stored(5))
    assert voted(bench, vote(6, candidate=1)).vote_granted
    bench.restart(power_loss=True)
    assert not voted(bench, vote(6, candidate=2)).vote_granted
    assert voted(bench, vote(6, candidate=1)).vote_granted


def test_handle_invalid_vote_request_with_older_epoch(bench: Bench) -> None:
    """A candidate of an older epoch is fenced and learns the newer one."""
    response = voted(bench, vote(4))
    assert (response.error, response.vote_granted) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    assert response.current_leader == leader(None, 5)


def test_leader_ignore_vote_request_on_same_epoch() -> None:
    """A leader grants no vote in its own epoch and leads on."""
    bench = leader_bench()
    response = voted(bench, vote(6, last=(5, 99)))
    assert (response.error, response.vote_granted) == (ErrorCode.NONE, False)
    assert bench.role == "leader"


def test_candidate_ignore_vote_request_on_same_epoch(bench: Bench) -> None:
    """A candidate has voted for itself and keeps to that."""
    campaign(bench)
    assert not voted(bench, vote(6, last=(5, 99))).vote_granted
    assert bench.role == "candidate"


@pytest.mark.parametrize("last", [(5, -5), (-1, 0), (6, 0), (7, 1)])
def test_invalid_vote_request(last: tuple[int, int]) -> None:
    """A candidate's log that cannot be is refused, and the epoch stays where it was."""
    bench = follower_bench(leader_id=1, epoch=5)
    response = voted(bench, vote(6, candidate=2, last=last))
    assert (response.error, response.vote_granted) == (ErrorCode.INVALID_REQUEST, False)
    assert (bench.role, bench.epoch, bench.disk.quorum_state) == ("follower", 5, stored(5, leader_id=1))


def test_cannot_follow_or_vote_for_self(bench: Bench) -> None:
    """A request in one's own name is a mistake of its sender and changes nothing."""
    assert voted(bench, vote(6, candidate=0)).error is ErrorCode.INVALID_REQUEST
    response = bench.answered(begin(0, 6), m.BeginQuorumEpochResponse)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert (bench.epoch, bench.disk.quorum_state) == (5, stored(5))


def test_invalid_voter_replica_vote_request(bench: Bench) -> None:
    """A vote meant for another replica, or for the disk this one had before, is refused after the epoch was raised."""
    wrong_id = voted(bench, vote(6, to=2, voter_directory_id=disk_id(0)))
    assert (wrong_id.error, wrong_id.vote_granted, bench.epoch) == (ErrorCode.INVALID_VOTER_KEY, False, 6)
    wrong_disk = voted(bench, vote(6, disk=1))
    assert (wrong_disk.error, wrong_disk.vote_granted) == (ErrorCode.INVALID_VOTER_KEY, False)
    assert voted(bench, vote(6)).vote_granted


@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_request_cluster_id_validation(bench: Bench, pre_vote: bool) -> None:
    """A vote of another cluster is refused and raises no epoch; so is one that names no cluster."""
    for cluster_id in ("another", None):
        refused = voted(bench, vote(6, pre_vote=pre_vote, cluster_id=cluster_id))
        assert (refused.error, refused.vote_granted, bench.epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, False, 5)


@pytest.mark.parametrize(
    ("last", "good"),
    [((2, 4), True), ((2, 5), True), ((3, 1), True), ((2, 3), False), ((1, 9), False), ((0, 0), False)],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_is_for_a_log_that_is_not_behind(last: tuple[int, int], good: bool, pre_vote: bool) -> None:
    """Votes and pre-votes compare (last epoch, log end); a refused candidate still raises the epoch."""
    bench = Bench(quorum_state=stored(5), log=[(1, 2), (2, 2)])
    assert voted(bench, vote(6, last=last, pre_vote=pre_vote)).vote_granted == good
    assert bench.epoch == 6


def test_reject_votes_from_same_epoch_after_resigning_candidacy() -> None:
    """A candidate that restarts still has its own vote on disk and grants no other."""
    bench = Bench(quorum_state=stored(2, voted_id=0))
    assert not voted(bench, vote(2, last=(1, 99))).vote_granted
    assert bench.role == "candidate"


def test_grant_votes_from_higher_epoch_after_resigning_candidacy() -> None:
    """The vote for itself bound a candidate for that epoch only."""
    bench = Bench(quorum_state=stored(2, voted_id=0))
    assert voted(bench, vote(3)).vote_granted
    assert bench.disk.quorum_state == stored(3, voted_id=1)


def test_retry_election(bench: Bench) -> None:
    """A lost election is followed by a pause and another in the next epoch, the epoch stored before it is asked for."""
    campaign(bench)
    for voter in (1, 2):
        bench.respond(bench.send_to(voter, m.VoteRequest), rejected(6))
    assert bench.role == "candidate"
    assert not bench.made(fx.Send), "a loser keeps quiet for a while"
    bench.to_role("prospective")
    bench.respond(bench.send_to(1, m.VoteRequest), granted(6))
    assert (bench.role, bench.epoch, bench.disk.quorum_state) == ("candidate", 7, stored(7, voted_id=0))


def test_loser_tries_again_before_its_election_would_have_timed_out() -> None:
    """A candidate that cannot win any more waits for a back-off, not for its whole election timeout."""
    bench = Bench(quorum_state=stored(5), config=QuorumConfig(election_timeout_ms=5000, election_backoff_max_ms=70))
    campaign(bench)
    for voter in (1, 2):
        bench.respond(bench.send_to(voter, m.VoteRequest), rejected(6))
    bench.elapse(70)
    assert bench.role == "prospective"


def test_an_answer_is_taken_once(bench: Bench) -> None:
    """Whatever comes a second time for a request that was answered, even news of a newer epoch, is dropped."""
    campaign(bench)
    send = bench.send_to(1, m.VoteRequest)
    bench.respond(send, rejected(6))
    assert bench.respond(send, rejected(9)) == ()
    assert bench.epoch == 6


def test_vote_request_timeout(bench: Bench) -> None:
    """An unanswered voter is asked again after a pause, within the same election."""
    campaign(bench)
    bench.fail(bench.send_to(1, m.VoteRequest))
    assert bench.role == "candidate"
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    bench.respond(bench.send_to(1, m.VoteRequest), granted(6))
    assert (bench.role, bench.epoch) == ("leader", 6)


def test_candidate_to_leader_without_granted_vote(bench: Bench) -> None:
    """Without a majority there is no leader, however long it takes."""
    campaign(bench)
    roles = set()
    for _ in range(20):
        bench.to_deadline()
        roles.add(bench.role)
    assert "leader" not in roles


def test_vote_response_ignored_after_becoming_follower(bench: Bench) -> None:
    """A vote that arrives after another leader was heard of makes nobody a leader."""
    campaign(bench)
    late = bench.send_to(1, m.VoteRequest)
    bench.answer(begin(2, 6))
    bench.respond(late, granted(6))
    assert (bench.role, bench.log.leader_id) == ("follower", 2)


def test_vote_of_an_earlier_campaign_does_not_count_in_a_later_one(bench: Bench) -> None:
    """A vote granted for epoch 6 that arrives in the campaign for epoch 7 is not a vote for epoch 7."""
    campaign(bench)
    late = bench.send_to(1, m.VoteRequest)
    bench.to_role("prospective")
    campaign(bench)
    assert bench.epoch == 7
    bench.respond(late, granted(6))
    assert bench.role == "candidate"


def test_pre_vote_does_not_count_as_vote() -> None:
    """A promise to vote that arrives when the election has begun is not the vote."""
    bench = Bench(quorum_state=stored(5), voters=(0, 1, 2, 3, 4))
    bench.to_role("prospective")
    late = [bench.send_to(voter, m.VoteRequest) for voter in (3, 4)]
    for voter in (1, 2):
        bench.respond(bench.send_to(voter, m.VoteRequest), granted(5))
    assert bench.role == "candidate"
    for send in late:
        bench.respond(send, granted(5))
    assert bench.role == "candidate"


def test_candidates_log_is_durable_before_it_asks_for_votes() -> None:
    """What a candidate claims to hold survives its crash: a vote is repeated to it without comparing logs again.

    1. C, the leader, and B have [0, 2) flushed: it is committed. A has it too, but has not flushed yet. 2. C resigns in
    favour of A. B grants A the vote for its longer log. 3. A loses power and with it [0, 2), comes back as candidate of
    the same epoch, and B repeats its vote. A must not have asked before its flush, else it would lead without [0, 2).
    """
    bench = follower_bench(leader_id=2, epoch=5, log=[])
    send = bench.send_to(2, m.FetchRequest)
    bench.respond(send, records(batches_of((5, 2)), leader_id=2, epoch=5))
    bench.to_role("prospective")
    bench.respond(bench.send_to(1, m.VoteRequest), granted(5))
    assert bench.role == "prospective", "its log is not on disk yet"
    bench.flush_all()
    assert bench.role == "candidate"
    request = bench.send_to(1, m.VoteRequest).request
    assert isinstance(request, m.VoteRequest)
    bench.restart(power_loss=True)
    again = bench.send_to(1, m.VoteRequest).request
    assert isinstance(again, m.VoteRequest)
    assert (again.candidate_epoch, again.last_offset) == (request.candidate_epoch, request.last_offset) == (6, 2)


def test_leader_of_a_newer_epoch_ends_a_campaign(bench: Bench) -> None:
    """A voter's refusal that names a newer epoch ends the election in the older one, durably."""
    campaign(bench)
    bench.respond(bench.send_to(1, m.VoteRequest), rejected(9))
    assert (bench.role, bench.epoch, bench.disk.quorum_state) == ("unattached", 9, stored(9))
    bench.answer(begin(2, 9))
    assert pending_fetch(bench).current_leader_epoch == 9


def test_lone_voter_needs_nobody() -> None:
    """A quorum of one elects itself without a message, in a new epoch each time."""
    bench = Bench(voters=(0,), quorum_state=stored(5))
    lead(bench)
    assert (bench.epoch, bench.sends, bench.high_watermark) == (6, [], 2)
