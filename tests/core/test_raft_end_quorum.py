"""Stepping down and taking over: EndQuorumEpoch, graceful stops, check-quorum, BeginQuorumEpoch."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.harness import Bench, disk_id, leader, stored
from tests.core.scenarios import (
    answer_fetch,
    begin,
    campaign,
    commit,
    end,
    fetch,
    fetch_error,
    follower_bench,
    granted,
    leader_bench,
    produce,
    reply_of,
    vote,
    voted,
)


def ended(bench: Bench, request: m.EndQuorumEpochRequest) -> m.EndQuorumEpochResponse:
    response = bench.answer(request)
    assert isinstance(response, m.EndQuorumEpochResponse), response
    return response


def begun(bench: Bench, request: m.BeginQuorumEpochRequest) -> m.BeginQuorumEpochResponse:
    response = bench.answer(request)
    assert isinstance(response, m.BeginQuorumEpochResponse), response
    return response


# --- being told -----------------------------------------------------------------------------------------------------


def test_handle_end_quorum_request() -> None:
    """The first preferred successor campaigns at once."""
    bench = follower_bench(leader_id=2)
    assert ended(bench, end(2, 5, 0, 1)).error is ErrorCode.NONE
    assert (bench.role, bench.epoch) == ("prospective", 5)


def test_handle_end_quorum_request_with_lower_priority_to_become_leader() -> None:
    """A successor further down waits for a back-off first, shorter than an election timeout."""
    bench = follower_bench(leader_id=2)
    ended(bench, end(2, 5, 1, 0))
    assert bench.role == "unattached"
    due_ms = bench.replica.deadline_ms
    assert due_ms is not None
    assert 0 < due_ms - bench.now_ms <= bench.config.quorum.election_backoff_max_ms
    bench.to_deadline()
    assert bench.role == "prospective"


def test_end_quorum_that_prefers_others_only() -> None:
    """A follower that is not preferred waits for a whole election timeout."""
    bench = follower_bench(leader_id=2)
    ended(bench, end(2, 5, 1))
    due_ms = bench.replica.deadline_ms
    assert due_ms is not None
    assert (bench.role, due_ms - bench.now_ms >= bench.config.quorum.election_timeout_ms) == ("unattached", True)


def test_end_quorum_starts_new_election_immediately_if_follower_unattached() -> None:
    """Who did not know the leader that resigns is its successor all the same, and remembers that it led."""
    bench = Bench(quorum_state=stored(5))
    ended(bench, end(2, 5, 0, 1))
    assert (bench.role, bench.disk.quorum_state) == ("prospective", stored(5, leader_id=2))


def test_end_quorum_of_a_newer_epoch_starts_new_election_immediately() -> None:
    """A successor that missed the whole epoch campaigns at once."""
    bench = Bench(quorum_state=stored(4))
    ended(bench, end(2, 5, 0, 1))
    assert (bench.role, bench.epoch) == ("prospective", 5)


def test_end_quorum_that_comes_after_the_fetch_was_refused() -> None:
    """The leader refuses parked fetches as it resigns: a successor that hears that first still takes over at once."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 5))
    assert bench.role == "unattached"
    ended(bench, end(2, 5, 0, 1))
    assert bench.role == "prospective"


def test_repeated_end_quorum_does_not_postpone_an_election() -> None:
    """A voter that waits already is not made to wait anew by a copy of the same message."""
    bench = follower_bench(leader_id=2)
    ended(bench, end(2, 5))
    due_ms = bench.replica.deadline_ms
    bench.elapse(500)
    ended(bench, end(2, 5))
    assert bench.replica.deadline_ms == due_ms


def test_observer_does_not_succeed() -> None:
    """An observer has no vote and campaigns for nothing, whoever prefers it."""
    bench = follower_bench(leader_id=2, replica_id=9)
    bench.answer(begin(2, 5, to=9))
    ended(bench, end(2, 5, 9))
    assert bench.role == "unattached"
    bench.elapse(10_000)
    assert bench.role == "unattached"


def test_end_quorum_ignored_as_candidate_if_older_epoch() -> None:
    """The end of an older epoch does not disturb a candidate: its election goes on and can be won."""
    bench = Bench(quorum_state=stored(5))
    campaign(bench)
    due_ms = bench.replica.deadline_ms
    response = ended(bench, end(2, 5, 0, 1))
    assert (response.error, response.current_leader) == (ErrorCode.FENCED_LEADER_EPOCH, leader(None, 6))
    assert (bench.role, bench.epoch, bench.replica.deadline_ms) == ("candidate", 6, due_ms)
    bench.respond(bench.send_to(1, m.VoteRequest), granted(6))
    assert bench.role == "leader"


def test_end_quorum_ignored_as_leader_if_older_epoch(bench: Bench) -> None:
    """The end of an older epoch does not end the leader's own, and who sent it learns who leads."""
    call_id = bench.call(produce())
    response = ended(bench, end(2, 5, 0, 1))
    assert (response.error, response.current_leader) == (ErrorCode.FENCED_LEADER_EPOCH, leader(0, 6))
    assert (bench.role, bench.epoch, call_id in bench.open_calls) == ("leader", 6, True)


def test_begin_quorum_epoch_request_cluster_id_validation() -> None:
    """A beginning of another cluster's epoch is refused and raises no epoch; so is one that names no cluster."""
    bench = Bench(quorum_state=stored(5))
    for cluster_id in ("another", None):
        refused = begun(bench, begin(2, 6, cluster_id=cluster_id))
        assert (refused.error, bench.epoch, bench.role) == (ErrorCode.INCONSISTENT_CLUSTER_ID, 5, "unattached")


def test_end_quorum_epoch_request_cluster_id_validation() -> None:
    """An end of another cluster's epoch is refused and ends nothing here; so is one that names no cluster."""
    bench = follower_bench(leader_id=2)
    for cluster_id in ("another", None):
        refused = ended(bench, end(2, 5, 0, cluster_id=cluster_id))
        assert (refused.error, bench.role) == (ErrorCode.INCONSISTENT_CLUSTER_ID, "follower")
        assert ended(bench, end(2, 6, 0, cluster_id=cluster_id)).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert bench.epoch == 5


@pytest.mark.parametrize("others", [{"voter_id": ReplicaId(2)}, {"voter_directory_id": disk_id(0, 1)}])
def test_invalid_voter_replica_begin_quorum_epoch_request(others: dict[str, Any]) -> None:
    """A beginning meant for another voter is refused, and who leads is not believed."""
    bench = Bench(quorum_state=stored(5))
    response = bench.answered(begin(2, 6, **others), m.BeginQuorumEpochResponse)
    assert (response.error, bench.log.leader_id, bench.epoch) == (ErrorCode.INVALID_VOTER_KEY, None, 5)


def test_begin_quorum_epoch_of_an_older_epoch_is_fenced() -> None:
    """A leader whose epoch is over learns of the newer one."""
    response = follower_bench(leader_id=2).answered(begin(1, 4), m.BeginQuorumEpochResponse)
    assert (response.error, response.current_leader) == (ErrorCode.FENCED_LEADER_EPOCH, leader(2, 5))


def test_begin_quorum_epoch_is_stored_before_its_reply() -> None:
    """A follower has its leader on disk before it says that it follows."""
    bench = Bench(quorum_state=stored(5))
    bench.call(begin(2, 6))
    kinds = [type(effect) for effect in bench.effects]
    assert kinds == [fx.StoreQuorumState, fx.Reply, fx.Send]
    assert bench.disk.quorum_state == stored(6, leader_id=2)


# --- telling --------------------------------------------------------------------------------------------------------


def test_end_quorum_epoch_sent_based_on_fetch_offset(bench: Bench) -> None:
    """A leader that resigns prefers the voter that has fetched furthest."""
    bench.call(produce(acks=1))
    for voter, offset in ((1, 1), (2, 2)):
        bench.call(fetch(offset, 6, 6, replica=voter))
    bench.step(ev.ResignRequested())
    ends = bench.requests(m.EndQuorumEpochRequest)
    assert set(ends) == {1, 2}
    assert ends[1].preferred_candidates == (2, 1)


def test_end_quorum_epoch_retries_while_resigned(bench: Bench) -> None:
    """A voter that does not answer is told again; one that does is left alone."""
    bench.step(ev.ResignRequested())
    bench.fail(bench.send_to(1, m.EndQuorumEpochRequest))
    answer = m.EndQuorumEpochResponse(error=ErrorCode.NONE, current_leader=leader(None, 6))
    bench.respond(bench.send_to(2, m.EndQuorumEpochRequest), answer)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert set(bench.requests(m.EndQuorumEpochRequest)) == {1}


def test_leader_graceful_shutdown(bench: Bench) -> None:
    """A leader that is asked to resign leads no more at once, and follows whoever is elected."""
    bench.step(ev.ResignRequested())
    assert (bench.role, bench.log.leader_id, bench.epoch) == ("resigned", None, 6)
    bench.answer(begin(1, 7))
    assert (bench.role, bench.log.leader_id) == ("follower", 1)


def test_leader_graceful_shutdown_timeout(bench: Bench) -> None:
    """A leader whose voters never answer has resigned all the same: whoever stops it then stops no leader."""
    waiting = bench.call(produce())
    bench.step(ev.ResignRequested())
    assert reply_of(bench, waiting).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.elapse(bench.config.quorum.election_timeout_ms - 1)
    assert (bench.role, set(bench.requests(m.EndQuorumEpochRequest))) == ("resigned", {1, 2})
    bench.restart()
    assert (bench.role, bench.epoch) == ("resigned", 6)


def test_observer_graceful_shutdown() -> None:
    """An observer has nothing to resign from and tells nobody, whether it knows a leader or not."""
    bench = Bench(replica_id=9, quorum_state=stored(5))
    for role in ("unattached", "follower"):
        assert bench.role == role
        assert bench.step(ev.ResignRequested()) == ()
        bench.answer(begin(2, 5, to=9))


def test_graceful_shutdown_single_member_quorum() -> None:
    """A lone leader has nobody to tell: it leads no more at once, and who waited for its disk is answered."""
    bench = leader_bench(voters=(0,))
    waiting = bench.call(produce())
    bench.step(ev.ResignRequested())
    assert (bench.role, bench.log.leader_id, bench.sends) == ("resigned", None, [])
    assert (reply_of(bench, waiting).error, reply_of(bench, waiting).not_appended) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        False,
    )


def test_grant_votes_when_shutting_down(bench: Bench) -> None:
    """Who has resigned votes in a later epoch, so that its going stops nobody's election."""
    bench.step(ev.ResignRequested())
    assert voted(bench, vote(7, last=(6, 2))).vote_granted
    assert (bench.role, bench.disk.quorum_state) == ("unattached", stored(7, voted_id=1))


@pytest.mark.parametrize("role", ["follower", "unattached"])
def test_follower_graceful_shutdown(role: str) -> None:
    """Who does not lead has nothing to resign from."""
    bench = follower_bench(leader_id=2) if role == "follower" else Bench(quorum_state=stored(5))
    assert bench.step(ev.ResignRequested()) == ()
    assert bench.role == role


def test_resign_will_complete_fetch_purgatory(bench: Bench) -> None:
    """All that wait for a leader are answered when it resigns: fetches and writes, the latter's fate unknown."""
    commit(bench, 1)
    fetching = bench.call(fetch(2, 6, 6, replica=2, wait_ms=500))
    writing = bench.call(produce())
    waiting = bench.call(fetch(3, 6, 6, replica=2, wait_ms=500))
    bench.step(ev.ResignRequested())
    assert reply_of(bench, fetching).error is ErrorCode.NONE, "the write had completed it"
    assert reply_of(bench, waiting).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    written = reply_of(bench, writing)
    assert (written.error, written.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
    assert written.current_leader == leader(None, 6)


def test_reject_votes_from_same_epoch_after_resigning_leadership(bench: Bench) -> None:
    """Who led an epoch votes for nobody in it, not even after resigning."""
    bench.step(ev.ResignRequested())
    assert not voted(bench, vote(6, last=(5, 99))).vote_granted
    bench.to_role("prospective")
    assert not voted(bench, vote(6, last=(5, 99))).vote_granted


def test_resigned_leader_appends_nothing(bench: Bench) -> None:
    """After resigning no write is taken in that epoch."""
    bench.step(ev.ResignRequested())
    response = bench.answered(produce(), m.ProduceResponse)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert not bench.made(fx.Append)
