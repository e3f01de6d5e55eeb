"""What a replica of another cluster answers, at an address that was once a voter's: nothing that this one goes by."""

from __future__ import annotations

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from tests.core.harness import Bench, stored
from tests.core.scenarios import begin, campaign, fetch_error, follower_bench, vote, voted

OTHERS_EPOCH = 900


def foreign_vote(epoch: int) -> m.VoteResponse:
    """The answer of a replica that follows leader 2 of its own cluster, asked for a vote by another's."""
    answer = voted(follower_bench(leader_id=2, epoch=epoch), vote(7, cluster_id="another"))
    assert answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    return answer


def test_an_epoch_of_another_cluster_is_not_taken() -> None:
    """A campaign goes on in its own epoch."""
    bench = Bench(quorum_state=stored(5))
    campaign(bench)
    before = bench.epoch
    bench.respond(bench.send_to(1, m.VoteRequest), foreign_vote(OTHERS_EPOCH))
    assert (bench.epoch, bench.role) == (before, "candidate")


def test_a_leader_of_another_cluster_is_no_second_leader() -> None:
    """Both clusters are in the same epoch by chance: nothing is wrong here."""
    bench = Bench(quorum_state=stored(5))
    bench.to_role("prospective")
    asked = bench.send_to(1, m.VoteRequest)
    bench.answer(begin(1, 6))
    assert bench.log.leader_id == 1
    bench.respond(asked, foreign_vote(6))
    assert bench.halted is None


@pytest.mark.parametrize("epoch", [None, OTHERS_EPOCH], ids=["own", "higher"])
def test_a_leader_goes_on_when_another_clusters_replica_answers(bench: Bench, epoch: int | None) -> None:
    """It makes itself known there, and is told of their leader, in whatever epoch."""
    own = bench.epoch
    foreign = follower_bench(leader_id=2, epoch=epoch or own)
    answer = foreign.answered(begin(1, own, cluster_id="another"), m.BeginQuorumEpochResponse)
    assert answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    bench.respond(bench.send_to(1, m.BeginQuorumEpochRequest), answer)
    assert (bench.halted, bench.role, bench.epoch) == (None, "leader", own)


def test_a_follower_stays_where_it_is() -> None:
    """Its leader's address answers for another cluster: the follower asks again, and follows nobody else."""
    bench = follower_bench(leader_id=1, epoch=6)
    answer = fetch_error(ErrorCode.INCONSISTENT_CLUSTER_ID, 2, OTHERS_EPOCH)
    bench.respond(bench.send_to(1, m.FetchRequest), answer)
    assert (bench.epoch, bench.log.leader_id) == (6, 1)
