"""A leader stays one while a majority fetches, and makes itself known to those who do not."""

from __future__ import annotations

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset
from tests.core.harness import Bench, leader, stored
from tests.core.scenarios import commit, fetch, leader_bench, produce, reply_of


def keep_fetching(bench: Bench, ms: int, *replicas: int) -> None:
    """Let time pass while these replicas fetch every 100 ms from the leader's log end."""
    for _ in range(ms // 100):
        bench.elapse(100)
        for replica_id in replicas:
            if bench.role == "leader":
                bench.call(fetch(bench.disk.end, 6, 6, replica=replica_id))


def test_leader_should_resign_leadership_if_not_get_fetch_request_from_majority_voters() -> None:
    """A leader that no majority fetches from resigns after 1.5 fetch timeouts; an observer's fetches do not count."""
    bench = leader_bench(voters=(0, 1, 2, 3, 4))
    timeout_ms = bench.config.quorum.check_quorum_timeout_ms
    keep_fetching(bench, 3 * timeout_ms, 1, 3)
    assert bench.role == "leader", "two voters and the leader are a majority of five"
    keep_fetching(bench, timeout_ms - 100, 1, 9)
    assert bench.role == "leader"
    keep_fetching(bench, 200, 1, 9)
    assert bench.role == "resigned"


def test_a_fetch_that_is_fenced_does_not_keep_a_leader(bench: Bench) -> None:
    """Only valid fetches of its own epoch tell a leader that it is still followed."""
    bench.elapse(bench.config.quorum.check_quorum_timeout_ms - 1)
    for voter in (1, 2):
        bench.call(fetch(2, 5, 5, replica=voter))
    bench.elapse(1)
    assert bench.role == "resigned"


def test_leader_should_not_resign_leadership_if_only_one_voters() -> None:
    """A lone voter is its own majority."""
    bench = leader_bench(voters=(0,))
    bench.elapse(1_000_000)
    assert bench.role == "leader"


def test_fetch_should_be_treated_as_leader_acknowledgement(bench: Bench) -> None:
    """A new leader makes itself known to every voter, again and again until that voter fetches."""
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {1, 2}
    bench.sends = []
    commit(bench, 1)
    bench.elapse(bench.config.quorum.begin_quorum_epoch_interval_ms)
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {2}


def test_response_of_a_newer_epoch_deposes_a_leader(bench: Bench) -> None:
    """A voter's answer that names a newer epoch ends the leadership, durably, and answers those who wait."""
    call_id = bench.call(produce())
    answer = m.BeginQuorumEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader(2, 8))
    bench.respond(bench.send_to(1, m.BeginQuorumEpochRequest), answer)
    assert (bench.role, bench.log.leader_id, bench.disk.quorum_state) == ("follower", 2, stored(8, leader_id=2))
    assert reply_of(bench, call_id).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.disk.end == Offset(3), "what was appended stays until a leader says otherwise"
