"""Leadership transfer on one quorum log: who may ask, what a leader waits for, how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import CallId, ReplicaId
from tests.core.harness import CLUSTER, LOG, Bench, leader, stored
from tests.core.scenarios import (
    begin,
    commit,
    fetch,
    fetched,
    follow,
    follower_bench,
    leader_bench,
    produce,
    reply_of,
)


def transfer(target: int = 2, *, timeout_ms: int = 1000, **others: Any) -> m.TransferLeadershipRequest:
    """Let a voter lead."""
    return m.TransferLeadershipRequest(
        **{
            "topic_partition": LOG,
            "target_id": ReplicaId(target),
            "timeout_ms": timeout_ms,
            "cluster_id": CLUSTER,
            **others,
        }
    )


def echo(bench: Bench, voter: int, read_round: int = 1) -> None:
    """Let a voter that has everything fetch; it has heard of a read round."""
    end, last_epoch = bench.log.log.log_end_offset, bench.log.log.last_epoch or 0
    bench.call(fetch(end, last_epoch, bench.epoch, replica=voter, read_round=read_round))


def transferring(bench: Bench, target: int = 2) -> CallId:
    """Begin a transfer that waits."""
    call_id = bench.call(transfer(target))
    assert call_id in bench.open_calls, bench.replies
    return call_id


# --- who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (transfer(2, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (transfer(0), ErrorCode.ELECTION_NOT_NEEDED),
        (transfer(9), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transfer_is_refused(bench: Bench, request_: m.TransferLeadershipRequest, error: ErrorCode) -> None:
    """Another cluster's, one to the leader itself and one to no voter change nothing."""
    call_id = bench.call(request_)
    assert (reply_of(bench, call_id).error, bench.role) == (error, "leader")
    assert not bench.log.is_handing_over


def test_only_the_leader_transfers_its_leadership() -> None:
    """Anybody else names it."""
    bench = follower_bench(leader_id=2)
    answer = reply_of(bench, bench.call(transfer(1)))
    assert (answer.error, answer.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader(2, 5))


def test_one_transfer_is_asked_for_at_a_time(bench: Bench) -> None:
    """A second one is refused, and the first goes on."""
    first = transferring(bench, 2)
    second = bench.call(transfer(1))
    assert reply_of(bench, second).error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert first in bench.open_calls


# --- what it waits for ----------------------------------------------------------------------------------------------


def test_a_transfer_waits_until_its_target_has_everything() -> None:
    """The leader resigns when the target, which has fetched since, has the whole log and all of that is committed."""
    bench = leader_bench()
    commit(bench, 1, 2)
    bench.call(produce(acks=1))
    call_id = transferring(bench, 2)
    fetched(bench, fetch(2, 6, 6, replica=2, read_round=1))
    assert bench.role == "leader", "behind"
    echo(bench, 2)
    assert bench.role == "leader", "not committed: the leader has not flushed"
    bench.flush_all()
    assert (reply_of(bench, call_id).error, bench.role) == (ErrorCode.NONE, "resigned")


def test_its_target_is_the_first_successor(bench: Bench) -> None:
    """Whoever else has as much, the target campaigns first."""
    commit(bench, 1, 2)
    transferring(bench, 2)
    echo(bench, 2)
    ends = bench.requests(m.EndQuorumEpochRequest)
    assert {voter: end.preferred_candidates for voter, end in ends.items()} == {1: (2, 1), 2: (2, 1)}


def test_a_target_that_is_gone_is_not_waited_for_in_vain(bench: Bench) -> None:
    """What it had fetched before does not count: it is asked to fetch, and the leader leads on if it does not."""
    commit(bench, 1, 2)
    call_id = transferring(bench, 2)
    bench.elapse(999)
    commit(bench, 1)
    assert bench.role == "leader"
    assert call_id in bench.open_calls
    bench.elapse(1)
    answer = reply_of(bench, call_id)
    assert (answer.error, answer.current_leader) == (ErrorCode.REQUEST_TIMED_OUT, leader(0, 6))
    assert (bench.role, bench.log.is_handing_over) == ("leader", False)


def test_a_parked_fetch_of_the_target_is_completed(bench: Bench) -> None:
    """It hears at once that it is to fetch again."""
    commit(bench, 1, 2)
    parked = {voter: bench.call(fetch(2, 6, 6, replica=voter, wait_ms=500, high_watermark=2)) for voter in (1, 2)}
    assert parked[2] in bench.open_calls
    transferring(bench, 2)
    assert reply_of(bench, parked[2]).read_round == 1


def test_a_fetch_of_the_target_that_was_on_its_way_is_not_parked(bench: Bench) -> None:
    """It is told of the transfer too, though a majority without it has confirmed the round."""
    commit(bench, 1, 2)
    transferring(bench, 2)
    echo(bench, 1)
    late = bench.call(fetch(2, 6, 6, replica=2, wait_ms=500, high_watermark=2))
    assert reply_of(bench, late).read_round == 1
    parked = bench.call(fetch(2, 6, 6, replica=1, wait_ms=500, high_watermark=2))
    assert parked in bench.open_calls


def test_a_transfer_takes_no_longer_than_there_is_a_maximum() -> None:
    """Whatever its asker would wait."""
    bench = leader_bench(config=QuorumConfig(transfer_timeout_max_ms=300))
    call_id = bench.call(transfer(2, timeout_ms=1 << 40))
    bench.elapse(300)
    assert reply_of(bench, call_id).error is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_transfer_that_may_not_wait(bench: Bench, timeout_ms: int) -> None:
    """Nobody can have fetched since."""
    commit(bench, 1, 2)
    assert reply_of(bench, bench.call(transfer(2, timeout_ms=timeout_ms))).error is ErrorCode.REQUEST_TIMED_OUT


# --- meanwhile ------------------------------------------------------------------------------------------------------


def test_nothing_is_appended_during_a_transfer(bench: Bench) -> None:
    """A write is refused at the door, and taken again when the leader leads on."""
    commit(bench, 1, 2)
    transferring(bench)
    answer = reply_of(bench, bench.call(produce()))
    assert (answer.error, answer.not_appended) == (ErrorCode.LEADER_NOT_AVAILABLE, True)
    assert not bench.made(fx.Append)
    bench.elapse(1000)
    assert bench.call(produce()) in bench.open_calls


def test_a_transfer_leaves_no_write_open(bench: Bench) -> None:
    """What waits when it begins is acknowledged before the leader resigns."""
    commit(bench, 1, 2)
    writing = bench.call(produce())
    bench.flush_all()
    transferring(bench, 2)
    echo(bench, 2)
    assert (reply_of(bench, writing).error, bench.role) == (ErrorCode.NONE, "resigned")


@pytest.mark.parametrize("how", ["a newer epoch", "no majority", "a graceful stop"])
def test_a_lost_leadership_ends_a_transfer(bench: Bench, how: str) -> None:
    """Its asker is told that this replica leads no more, and by whom it is led if that is known."""
    commit(bench, 1, 2)
    call_id = bench.call(transfer(2, timeout_ms=20_000))
    match how:
        case "a newer epoch":
            follow(bench, 1, 7)
        case "no majority":
            bench.elapse(bench.config.quorum.check_quorum_timeout_ms)
        case _:
            bench.step(ev.ResignRequested())
    assert reply_of(bench, call_id).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.role != "leader"


def test_a_crash_ends_a_transfer(bench: Bench) -> None:
    """A leader that comes back knows nothing of it, and has resigned."""
    commit(bench, 1, 2)
    transferring(bench)
    bench.restart()
    assert bench.role == "resigned"
    bench.answer(begin(1, 7))
    assert bench.role == "follower"


def test_a_transfer_of_ones_own_gives_way_to_one_that_is_asked_for(bench: Bench) -> None:
    """What was begun without being asked waits for nobody."""
    commit(bench, 1, 2)
    bench.act(bench.log.begin_transfer(ReplicaId(1), 1000, bench.now_ms))
    call_id = transferring(bench, 2)
    echo(bench, 1, read_round=2)
    assert bench.role == "leader"
    echo(bench, 2, read_round=2)
    assert reply_of(bench, call_id).error is ErrorCode.NONE


def test_the_only_voter_has_nobody_to_hand_over_to() -> None:
    """There is no other voter."""
    bench = Bench(voters=(0,), quorum_state=stored(5))
    bench.to_role("leader")
    assert reply_of(bench, bench.call(transfer(1))).error is ErrorCode.INVALID_REQUEST
