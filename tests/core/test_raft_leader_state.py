"""What a leader counts: high watermarks of one to three voters, and of sets that change; check quorum; no votes.

Names are those of Kafka's ``LeaderStateTest``. The epoch of the leader begins with a LeaderChange record.
"""

from __future__ import annotations

import pytest

from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset
from tests.core.harness import Bench, stored
from tests.core.membership_scenarios import acknowledge, add, added, fetch_from, ids, remove, settled_leader
from tests.core.scenarios import fetch, fetched, leader_bench, produce, vote, voted


def write(bench: Bench, count: int) -> None:
    """Append so many records, and flush them."""
    for _ in range(count):
        bench.call(produce(acks=1))
    bench.flush_all()


def fetch_up_to(bench: Bench, voter: int, offset: int) -> int | None:
    """Let a voter that has everything below ``offset`` fetch; return the high watermark then."""
    last_epoch = bench.log.log.epoch_below(Offset(offset)) or 0
    assert fetched(bench, fetch(offset, last_epoch, 6, replica=voter)).error is ErrorCode.NONE
    return bench.high_watermark


# --- high watermarks ------------------------------------------------------------------------------------------------


def test_update_high_watermark_quorum_size_one() -> None:
    """A lone leader knows no high watermark up to its epoch's start, and then what it has flushed."""
    bench = Bench(voters=(0,), log=[(5, 15)], quorum_state=stored(5))
    bench.to_role("leader")
    assert (bench.disk.flushed_end, bench.disk.end, bench.high_watermark) == (15, 16, None)
    bench.flush()
    assert bench.high_watermark == 16
    bench.call(produce(acks=1))
    assert bench.high_watermark == 16
    bench.flush()
    assert bench.high_watermark == 17


def test_update_high_watermark_quorum_size_two() -> None:
    """Of two voters the one that has less decides, once it has a record of the leader's epoch."""
    bench = leader_bench(voters=(0, 1), log=[(5, 15)])
    assert bench.high_watermark is None
    assert [fetch_up_to(bench, 1, offset) for offset in (13, 15, 16)] == [None, None, 16]


def test_update_high_watermark_quorum_size_three() -> None:
    """Of three voters the middle one decides, once that is a record of the leader's epoch."""
    bench = leader_bench(log=[(5, 10)])
    write(bench, 4)
    assert [fetch_up_to(bench, voter, 10) for voter in (1, 2)] == [None, None]
    assert fetch_up_to(bench, 2, 15) == 15
    write(bench, 5)
    assert bench.high_watermark == 15
    assert fetch_up_to(bench, 1, 20) == 20
    assert fetch_up_to(bench, 2, 20) == 20


def test_non_monotonic_high_watermark_update() -> None:
    """A voter that comes back with less takes nothing of the high watermark back."""
    bench = leader_bench(voters=(0, 1), log=[(5, 15)])
    write(bench, 1)
    assert fetch_up_to(bench, 1, 17) == 17
    assert fetch_up_to(bench, 1, 16) == 17
    assert fetch_up_to(bench, 1, 0) == 17


def test_idempotent_end_offset_update() -> None:
    """The same fetch again changes nothing, and tells nobody anything."""
    bench = leader_bench(voters=(0, 1), log=[(5, 15)])
    assert fetch_up_to(bench, 1, 16) == 16
    waiting = bench.call(fetch(16, 6, 6, replica=9, wait_ms=300, high_watermark=Offset(16)))
    assert fetch_up_to(bench, 1, 16) == 16
    assert waiting in bench.open_calls


def test_get_non_leader_followers_by_fetch_offset_descending() -> None:
    """Successors are named in the order of what they have fetched, the longest log first."""
    bench = leader_bench(voters=(0, 1, 2, 3, 4), log=[(5, 10)])
    write(bench, 4)
    for voter, offset in ((1, 11), (2, 15), (4, 14)):
        fetch_up_to(bench, voter, offset)
    bench.step(ev.ResignRequested())
    told = bench.requests(m.EndQuorumEpochRequest)
    assert {request.preferred_candidates for request in told.values()} == {(2, 4, 1, 3)}


# --- high watermarks of sets that change ----------------------------------------------------------------------------


def test_high_watermark_does_increase_from_new_voter() -> None:
    """What a leader and one of two others have is committed, as soon as that one votes and not before."""
    bench = settled_leader(initial=(0, 1))
    write(bench, 3)
    acknowledge(bench, 2)
    assert (ids(bench), bench.high_watermark) == ((0, 1), 2), "an observer has it"
    add(bench, 2)
    acknowledge(bench, 2)
    assert (ids(bench), bench.high_watermark) == ((0, 1, 2), 5)
    write(bench, 1)
    assert bench.high_watermark == 5, "only the leader has what came with the set and after it"
    acknowledge(bench, 2)
    assert bench.high_watermark == 7


def test_update_high_watermark_removing_follower_from_voter_states() -> None:
    """What a voter that goes has made committed stays so, and the two that are left decide from then on."""
    bench = settled_leader()
    write(bench, 5)
    fetched(bench, fetch_from(bench, 1))
    fetched(bench, fetch_from(bench, 2, behind=5))
    assert bench.high_watermark == 7
    remove(bench, 1)
    bench.flush_all()
    acknowledge(bench, 1)
    assert bench.high_watermark == 7, "it votes no more"
    fetched(bench, fetch_from(bench, 2, behind=4))
    assert bench.high_watermark == 7
    acknowledge(bench, 2)
    assert bench.high_watermark == 8


def test_update_high_watermark_quorum_removing_leader_from_voter_states() -> None:
    """A leader that goes takes nothing back, and commits what both of those that are left have, not its own."""
    bench = settled_leader()
    write(bench, 5)
    fetched(bench, fetch_from(bench, 1))
    fetched(bench, fetch_from(bench, 2, behind=5))
    assert bench.high_watermark == 7
    remove(bench, 0)
    bench.call(produce(acks=1))
    bench.flush_all()
    assert (ids(bench), bench.disk.end) == ((1, 2), 9)
    seen = []
    for voter, behind in ((1, 1), (2, 3), (2, 2), (2, 1)):
        fetched(bench, fetch_from(bench, voter, behind=behind))
        seen.append(bench.log.log.high_watermark)
    assert (seen, bench.role) == ([7, 7, 7, 8], "resigned")


# --- check quorum ---------------------------------------------------------------------------------------------------


def silence_ms(bench: Bench) -> int:
    """How long this leader leads on if nobody fetches from now on."""
    for ms in range(0, 10 * bench.config.quorum.check_quorum_timeout_ms, 10):
        if bench.role != "leader":
            return ms
        bench.elapse(10)
    raise AssertionError("it leads for ever")


def test_check_quorum() -> None:
    """A majority that has fetched counts from the last of it on; a single voter and an observer do not make one."""
    bench = leader_bench(voters=(0, 1, 2, 3, 4))
    timeout_ms = bench.config.quorum.check_quorum_timeout_ms
    bench.elapse(timeout_ms // 2)
    for voter in (1, 2):
        fetch_up_to(bench, voter, 1)
    bench.elapse(timeout_ms // 2)
    for replica in (3, 9):
        fetch_up_to(bench, replica, 1)
    assert silence_ms(bench) == timeout_ms - timeout_ms // 2
    assert bench.role == "resigned"


def test_check_quorum_with_one_voter() -> None:
    """A lone leader needs nobody, whoever observes."""
    bench = leader_bench(voters=(0,))
    fetch_up_to(bench, 9, 1)
    bench.elapse(100 * bench.config.quorum.check_quorum_timeout_ms)
    assert bench.role == "leader"


@pytest.mark.parametrize("both", [False, True])
def test_check_quorum_after_voter_set_changes(both: bool) -> None:
    """Of four voters two others must fetch; as long as there were three, one had been enough."""
    bench = settled_leader()
    timeout_ms = bench.config.quorum.check_quorum_timeout_ms
    bench.elapse(timeout_ms // 2)
    acknowledge(bench, 1)
    added(bench, 3)
    bench.elapse(timeout_ms // 2)
    acknowledge(bench, *((1, 2) if both else (1,)))
    assert silence_ms(bench) == (timeout_ms if both else timeout_ms - timeout_ms // 2)


@pytest.mark.parametrize("both", [False, True])
def test_check_quorum_of_a_leader_that_leaves(both: bool) -> None:
    """Its own word does not count any more: two of the three that are left must fetch."""
    bench = settled_leader(initial=(0, 1, 2, 3))
    timeout_ms = bench.config.quorum.check_quorum_timeout_ms
    acknowledge(bench, 1, 2)
    remove(bench, 0)
    bench.elapse(timeout_ms // 2)
    for voter in (1, 2) if both else (1,):
        fetched(bench, fetch_from(bench, voter, behind=1))
    assert silence_ms(bench) == (timeout_ms if both else timeout_ms - timeout_ms // 2)


def test_begin_quorum_epoch_timer(bench: Bench) -> None:
    """A leader makes itself known at once, and at every interval to who has not fetched since."""
    interval_ms = bench.config.quorum.begin_quorum_epoch_interval_ms
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {1, 2}
    bench.sends = []
    bench.elapse(interval_ms - 1)
    assert bench.sends == []
    bench.elapse(1)
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {1, 2}
    bench.sends = []
    fetch_up_to(bench, 2, 1)
    bench.elapse(interval_ms)
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {1}


# --- votes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("candidate", [1, 2])
def test_grant_vote(bench: Bench, candidate: int, pre_vote: bool) -> None:
    """A leader votes for nobody in its epoch, however long the log, and leads on; nothing of it is stored."""
    before = bench.disk.quorum_state
    # A candidate of its own epoch can have no record of that; who asks in advance can.
    for last in ((0, 0), (5, 99), (6, 99) if pre_vote else (5, 1)):
        assert not voted(bench, vote(6, candidate=candidate, last=last, pre_vote=pre_vote)).vote_granted
    assert (bench.role, bench.disk.quorum_state) == ("leader", before)
