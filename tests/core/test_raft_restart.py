"""What a replica comes back as: every line of the restart order, and what each may not do again."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from tests.core.harness import Bench, batches_of, epochs_of, stored
from tests.core.scenarios import (
    answer_fetch,
    begin,
    fetch,
    fetched,
    follower_bench,
    granted,
    lead,
    leader_bench,
    pending_fetch,
    produce,
    records,
    vote,
    voted,
)


@pytest.mark.parametrize(
    ("log", "quorum_state", "role", "epoch"),
    [
        pytest.param([], None, "unattached", 0, id="fresh_disk"),
        pytest.param([], stored(5), "unattached", 5, id="nothing_known_of_the_epoch"),
        pytest.param([(1, 2), (7, 1)], stored(5), "unattached", 7, id="log_is_ahead_of_stored_epoch"),
        pytest.param([(1, 2), (7, 1)], stored(5, leader_id=0), "unattached", 7, id="log_is_ahead_of_own_leadership"),
        pytest.param([(5, 2)], stored(5, leader_id=0, voted_id=0), "resigned", 5, id="was_leader"),
        pytest.param([(1, 2)], stored(5, voted_id=0), "candidate", 5, id="was_candidate"),
        pytest.param([(1, 2)], stored(5, voted_id=1), "unattached", 5, id="had_voted"),
        pytest.param([(1, 2)], stored(5, leader_id=2), "follower", 5, id="was_follower"),
        pytest.param([(1, 2)], stored(5, leader_id=2, voted_id=2), "follower", 5, id="was_follower_and_had_voted"),
        pytest.param([(1, 2)], stored(5, leader_id=2, voted_id=0), "follower", 5, id="had_lost_an_election"),
    ],
)
def test_restart_order(log: list[tuple[int, int]], quorum_state: fx.QuorumState | None, role: str, epoch: int) -> None:
    """The disk alone decides the first role: the log's epoch, then own leadership, a known leader, own vote."""
    bench = Bench(log=log, quorum_state=quorum_state)
    assert (bench.role, bench.epoch, bench.high_watermark) == (role, epoch, None)


def test_log_ahead_of_stored_epoch_is_stored() -> None:
    """An epoch that only the log knows is stored at once, and neither vote nor leader of the older one is kept."""
    bench = Bench(log=[(1, 2), (7, 1)], quorum_state=stored(5, voted_id=1))
    assert bench.disk.quorum_state == stored(7)


@pytest.mark.parametrize("quorum_state", [stored(5), stored(5, leader_id=2), stored(5, leader_id=9, voted_id=9)])
def test_observer_restarts_unattached(quorum_state: fx.QuorumState) -> None:
    """An observer asks the voters who leads, whatever it knew; without a vote it is nothing else."""
    bench = Bench(replica_id=9, quorum_state=quorum_state)
    assert bench.role == "unattached"
    (send,) = bench.sends
    assert isinstance(send.request, m.FetchRequest)
    assert send.request.replica_id == 9


def test_initialize_as_resigned_leader_from_state_store() -> None:
    """A restarted leader tells the voters that its epoch is over, and prefers nobody: it knows of nobody's log."""
    bench = Bench(quorum_state=stored(5, leader_id=0))
    ends = bench.requests(m.EndQuorumEpochRequest)
    assert {voter: request.preferred_candidates for voter, request in ends.items()} == {1: (), 2: ()}
    assert not bench.made(fx.Append)


@pytest.mark.parametrize("power_loss", [False, True])
def test_restarted_leader_neither_appends_nor_votes_in_its_epoch(power_loss: bool) -> None:
    """A leader that may have lost a tail would put other records under the same offset and epoch: it leads no more."""
    bench = leader_bench()
    bench.call(produce(acks=1))
    bench.restart(power_loss=power_loss)
    assert (bench.role, bench.epoch, bench.disk.end) == ("resigned", 6, 2 if power_loss else 3)
    response = bench.answered(produce(), m.ProduceResponse)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert not voted(bench, vote(6, last=(5, 99))).vote_granted
    lead(bench)
    assert bench.epoch == 7
    assert [batch.leader_epoch for batch in bench.disk.batches][-1] == 7


def test_grant_votes_from_higher_epoch_after_resigning_leadership() -> None:
    """Having led epoch 2 does not keep a replica from voting in epoch 3, durably."""
    bench = Bench(quorum_state=stored(2, leader_id=0))
    assert voted(bench, vote(3)).vote_granted
    assert bench.disk.quorum_state == stored(3, voted_id=1)


def test_initialize_as_candidate_from_state_store() -> None:
    """A candidate's election goes on in the same epoch: its vote for itself is on disk, the others are asked again."""
    bench = Bench(quorum_state=stored(2, voted_id=0))
    requests = bench.requests(m.VoteRequest)
    assert {voter: (request.candidate_epoch, request.pre_vote) for voter, request in requests.items()} == {
        1: (2, False),
        2: (2, False),
    }
    assert bench.disk.quorum_state == stored(2, voted_id=0)


def test_initialize_as_candidate_and_become_leader() -> None:
    """The election that was under way can be won; the epoch begins with its LeaderChange record."""
    bench = Bench(quorum_state=stored(2, voted_id=0))
    bench.respond(bench.send_to(2, m.VoteRequest), granted(2))
    kinds = [type(effect) for effect in bench.effects]
    assert kinds[:5] == [fx.StoreQuorumState, fx.StoreEpochs, fx.StoreVoters, fx.Append, fx.Flush]
    assert bench.disk.quorum_state == stored(2, leader_id=0, voted_id=0)
    assert (bench.disk.batches[0].is_control, bench.disk.batches[0].leader_epoch) == (True, 2)
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {1, 2}


def test_initialize_as_candidate_and_become_leader_quorum_of_three() -> None:
    """One vote of two others is enough; the high watermark is known when a majority has the LeaderChange record."""
    bench = Bench(log=[(1, 4)], quorum_state=stored(2, voted_id=0))
    late = bench.send_to(2, m.VoteRequest)
    bench.respond(bench.send_to(1, m.VoteRequest), granted(2))
    assert (bench.role, bench.epoch, bench.disk.end) == ("leader", 2, 5)
    bench.respond(late, granted(2))
    assert (bench.role, bench.disk.end) == ("leader", 5), "the second vote begins nothing anew"
    told = bench.requests(m.BeginQuorumEpochRequest)
    assert {voter: request.leader_epoch for voter, request in told.items()} == {1: 2, 2: 2}
    bench.flush_all()
    assert fetched(bench, fetch(4, 1, 2, replica=2)).high_watermark is None
    assert fetched(bench, fetch(5, 2, 2, replica=2)).high_watermark == 5


def test_vote_for_an_earlier_disk_of_ones_own_is_not_resumed() -> None:
    """A vote that was cast for this replica's former disk is a vote given away, not a candidacy."""
    old = fx.QuorumState(leader_epoch=stored(5).leader_epoch, voted_id=stored(5, voted_id=0).voted_id)
    bench = Bench(quorum_state=old)
    assert bench.role == "unattached"
    assert not voted(bench, vote(5)).vote_granted


def test_restarted_follower_votes_for_nobody_in_its_epoch() -> None:
    """A follower stored its leader, not a vote; that leader is why the epoch's vote is not given again."""
    bench = Bench(quorum_state=stored(5))
    bench.answer(begin(2, 6))
    bench.restart(power_loss=True)
    assert (bench.role, bench.log.leader_id) == ("follower", 2)
    assert not voted(bench, vote(6, last=(5, 99))).vote_granted


def test_unflushed_records_lost_after_reopen() -> None:
    """What was not flushed was not acknowledged: the follower fetches it again after a power loss."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, records(batches_of((5, 3)), leader_id=2, epoch=5))
    assert bench.disk.end == 3
    bench.restart(power_loss=True)
    assert (pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (0, 0)
    assert bench.log.log.epochs.entries == ()


def test_high_watermark_is_unknown_after_a_restart() -> None:
    """A high watermark is not stored: after a restart only a leader can say what is committed."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, records(batches_of((5, 3)), leader_id=2, epoch=5, high_watermark=2))
    bench.flush_all()
    seen = [bench.high_watermark]
    bench.restart()
    seen.append(bench.high_watermark)
    answer_fetch(bench, records([], leader_id=2, epoch=5, high_watermark=2))
    seen.append(bench.high_watermark)
    assert seen == [2, None, 2]


def test_epochs_are_stored_before_the_batches_that_begin_them() -> None:
    """A crash between the two leaves an epoch without records, which recovery drops, never records without an epoch."""
    bench = follower_bench(leader_id=2)
    answer_fetch(bench, records(batches_of((4, 2), (5, 1)), leader_id=2, epoch=5))
    kinds = [type(effect) for effect in bench.effects]
    assert kinds == [fx.StoreEpochs, fx.Append, fx.Flush]
    assert bench.disk.epochs == epochs_of(bench.disk.batches)
