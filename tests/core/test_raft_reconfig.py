"""What a leader refuses when its voters are to change, one mistake at a time, and what becomes of a change that waits.

Names are those of Kafka's ``KafkaRaftClientReconfigTest``; how changes go is in ``test_raft_membership``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CallId, ReplicaId
from replica.voters import Voter
from tests.core.harness import LOG, Bench, disk_id, voters_of
from tests.core.membership_scenarios import (
    FOUR,
    acknowledge,
    add,
    added,
    changed,
    fetch_from,
    first_leader,
    fresh_bench,
    fresh_follower,
    ids,
    joining_follower,
    naming,
    remove,
    settled_leader,
    stored_offsets,
)
from tests.core.scenarios import (
    answer_fetch,
    fetch,
    fetch_error,
    fetched,
    follow,
    pending_fetch,
    records,
)

THROTTLED, TIMED_OUT = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.REQUEST_TIMED_OUT


def assert_refused(bench: Bench, ask: Callable[[Bench], CallId], error: ErrorCode) -> m.ChangeVotersResponse:
    """A change is refused at once and for certain; the log, and what is stored of voters, stay as they are."""
    before = (bench.log.voters, bench.disk.end, bench.disk.voters)
    response = changed(bench, ask(bench))
    assert (response.error, response.not_appended) == (error, True)
    assert (bench.log.voters, bench.disk.end, bench.disk.voters) == before
    return response


# --- adding ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def bench() -> Bench:
    """Replica 0, which leads three voters, and has committed something in its epoch."""
    return settled_leader()


def test_add_voter_invalid_cluster_id(bench: Bench) -> None:
    """A voter of another cluster is not added; a request that names no cluster is taken."""
    assert_refused(bench, lambda b: add(b, 3, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert_refused(bench, lambda b: add(b, 3, cluster_id=""), ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert add(bench, 3, cluster_id=None) in bench.open_calls


def test_add_voter_to_not_leader() -> None:
    """Only the leader adds voters, and who does not lead says who does."""
    bench = fresh_follower()
    response = assert_refused(bench, lambda b: add(b, 3), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert response.current_leader == bench.log.current_leader


def test_add_voter_with_pending_add_voter(bench: Bench) -> None:
    """While one voter is added, waiting or appended, another is not."""
    first = add(bench, 3)
    assert_refused(bench, lambda b: add(b, 4), THROTTLED)
    acknowledge(bench, 3)
    assert ids(bench) == (0, 1, 2, 3)
    assert_refused(bench, lambda b: add(b, 4), THROTTLED)
    acknowledge(bench, 1, 3)
    assert changed(bench, first).error is ErrorCode.NONE
    assert add(bench, 4) in bench.open_calls


def test_add_voter_without_fenced_previous_leaders() -> None:
    """Before a record of its own epoch is committed a leader adds nobody: an earlier change may be on its way."""
    bench = first_leader()
    assert_refused(bench, lambda b: add(b, 3), THROTTLED)
    acknowledge(bench, 1)
    assert add(bench, 3) in bench.open_calls


@pytest.mark.parametrize("disk", [0, 1])
def test_add_voter_with_existing_voter(disk: int) -> None:
    """Who votes already is not added, on no disk: the one that has the vote has to go first."""
    assert_refused(settled_leader(), lambda b: add(b, 2, disk=disk), ErrorCode.DUPLICATE_VOTER)


def test_add_voter_with_lagging_new_voter(bench: Bench) -> None:
    """Who fetches, but does not get to the end, is not added, and the leader goes on with the voters that it has."""
    call_id = add(bench, 3, timeout_ms=700)
    for _ in range(6):
        bench.elapse(100)
        acknowledge(bench, 1)
        fetched(bench, fetch_from(bench, 3, behind=1))
    bench.elapse(100)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended, ids(bench)) == (TIMED_OUT, True, (0, 1, 2))
    acknowledge(bench, 3)
    assert ids(bench) == (0, 1, 2), "it comes too late"


def test_add_voter_fails_when_losing_leadership(bench: Bench) -> None:
    """Who resigns or is deposed adds nobody afterwards, whatever still fetches."""
    call_id = add(bench, 3)
    asked = fetch_from(bench, 3)
    follow(bench, 1, 9)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    fetched(bench, asked)
    assert (ids(bench), bench.disk.end) == ((0, 1, 2), 2)


def test_add_voter_with_missing_directory_id() -> None:
    """A voter without a disk could come back without its memory and nobody would know: it is refused."""
    new = Voter(replica_id=ReplicaId(3), directory_id=None, address="replica-3:9092")
    request = m.AddVoterRequest(topic_partition=LOG, voter=new, timeout_ms=5000)
    assert_refused(settled_leader(), lambda b: b.call(request), ErrorCode.INVALID_REQUEST)


def test_add_voter_with_pending_remove_voter(bench: Bench) -> None:
    """While one voter goes, none comes."""
    gone = remove(bench, 2)
    assert_refused(bench, lambda b: add(b, 3), THROTTLED)
    acknowledge(bench, 1)
    assert changed(bench, gone).error is ErrorCode.NONE
    assert add(bench, 3) in bench.open_calls


# --- removing -------------------------------------------------------------------------------------------------------


def test_remove_voter_invalid_cluster_id(bench: Bench) -> None:
    """No voter goes for another cluster's sake; a request that names no cluster is taken."""
    assert_refused(bench, lambda b: remove(b, 2, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert_refused(bench, lambda b: remove(b, 2, cluster_id=""), ErrorCode.INCONSISTENT_CLUSTER_ID)
    remove(bench, 2, cluster_id=None)
    assert ids(bench) == (0, 1)


def test_remove_voter_to_not_leader() -> None:
    """Only the leader removes voters, and who does not lead says who does."""
    bench = fresh_follower()
    response = assert_refused(bench, lambda b: remove(b, 2), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert response.current_leader == bench.log.current_leader


def test_remove_voter_with_pending_remove_voter() -> None:
    """While one voter goes, another does not: together they could leave two majorities that do not meet."""
    bench = settled_leader(initial=(0, 1, 2, 3))
    first = remove(bench, 3)
    assert_refused(bench, lambda b: remove(b, 2), THROTTLED)
    acknowledge(bench, 1)
    assert changed(bench, first).error is ErrorCode.NONE
    remove(bench, 2)
    assert ids(bench) == (0, 1)


def test_remove_voter_without_fenced_previous_leaders() -> None:
    """Before a record of its own epoch is committed a leader removes nobody."""
    bench = first_leader()
    assert_refused(bench, lambda b: remove(b, 2), THROTTLED)
    acknowledge(bench, 1)
    remove(bench, 2)
    assert ids(bench) == (0, 1)


def test_remove_voter_with_none_voter(bench: Bench) -> None:
    """Who is named with another disk than it votes on is not removed."""
    assert_refused(bench, lambda b: remove(b, 2, directory_id=disk_id(2, 1)), ErrorCode.VOTER_NOT_FOUND)


@pytest.mark.parametrize("directory_id", [None, disk_id(3)])
def test_remove_voter_with_none_voter_id(directory_id: str | None) -> None:
    """Who does not vote is not removed, named with a disk or without."""
    assert_refused(settled_leader(), lambda b: remove(b, 3, directory_id=directory_id), ErrorCode.VOTER_NOT_FOUND)


@pytest.mark.parametrize("directory_id", [None, disk_id(0)])
def test_remove_voter_to_empty_voter_set(directory_id: str | None) -> None:
    """The last voter stays: a log without voters could never be changed again."""
    bench = settled_leader(initial=(0,))
    assert_refused(bench, lambda b: remove(b, 0, directory_id=directory_id), ErrorCode.INVALID_REQUEST)


def test_remove_voter_timed_out() -> None:
    """A removal that is not committed in time may be yet: its end is unknown, and the set stays in force."""
    bench = settled_leader()
    call_id = remove(bench, 2, timeout_ms=700)
    bench.elapse(699)
    assert call_id in bench.open_calls
    bench.elapse(1)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended, ids(bench)) == (TIMED_OUT, False, (0, 1))
    assert_refused(bench, lambda b: add(b, 3), THROTTLED)


def test_remove_voter_fails_when_losing_leadership(bench: Bench) -> None:
    """A removal that was appended may be committed by the next leader: its end is unknown."""
    call_id = remove(bench, 2)
    follow(bench, 1, 9)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended, ids(bench)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False, (0, 1))


def test_remove_voter_with_pending_add_voter(bench: Bench) -> None:
    """While one voter comes, waiting or appended, none goes."""
    call_id = add(bench, 3)
    assert_refused(bench, lambda b: remove(b, 2), THROTTLED)
    acknowledge(bench, 3)
    assert_refused(bench, lambda b: remove(b, 3), THROTTLED)
    acknowledge(bench, 1, 3)
    assert changed(bench, call_id).error is ErrorCode.NONE


# --- what a log begins with -----------------------------------------------------------------------------------------


def test_bootstrap_checkpoint_is_not_returned_on_fetch() -> None:
    """What a disk was formatted with is no snapshot: who has nothing fetches from the log's beginning."""
    answer = fetched(first_leader(), fetch(0, 0, 1, replica_directory_id=disk_id(1)))
    assert (answer.error, answer.snapshot_id, answer.diverging_epoch) == (ErrorCode.NONE, None, None)
    assert answer.records


def test_follower_does_not_request_leader_bootstrap_snapshot() -> None:
    """A replica that has nothing, formatted with voters or without, fetches records and asks for no snapshot."""
    for bench in (fresh_follower(), joining_follower()):
        assert set(bench.requests(m.FetchSnapshotRequest)) == set()
        assert (pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (0, 0)


def test_follower_reads_kraft_bootstrap_records() -> None:
    """Who was formatted without voters goes by those that the log names, before it has a vote of the operator."""
    bench = joining_follower(replica_id=3)
    assert (ids(bench), bench.log.is_voter) == ((), False)
    answer_fetch(bench, records([naming(voters_of(0, 1, 2), 0, 5)], leader_id=1, epoch=5))
    assert (ids(bench), bench.log.is_voter, stored_offsets(bench)) == ((0, 1, 2), False, [0])
    bench.flush_all()
    answer_fetch(bench, records([naming(FOUR, 1, 5)], leader_id=1, epoch=5))
    assert (ids(bench), bench.log.is_voter, stored_offsets(bench)) == ((0, 1, 2, 3), True, [0, 1])


def test_observer_discovers_leader_with_unknown_voters() -> None:
    """Who knows no voters asks those whom its operator named, and follows the leader of whom it is told."""
    bench = fresh_bench(initial=(), voters=(0, 1), replica_id=5)
    assert (ids(bench), set(bench.requests(m.FetchRequest))) == ((), {0})
    answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 3))
    assert (bench.role, bench.log.leader_id, set(bench.requests(m.FetchRequest))) == ("follower", 7, {7})
    assert pending_fetch(bench).current_leader_epoch == 3


def test_a_voter_that_was_added_may_go_again(bench: Bench) -> None:
    """A set and the one after it differ by one voter, in whichever direction; the last one counts."""
    coming = added(bench, 3)
    acknowledge(bench, 1, 3)
    assert changed(bench, coming).error is ErrorCode.NONE
    going = remove(bench, 3)
    acknowledge(bench, 1)
    assert (changed(bench, going).error, ids(bench)) == (ErrorCode.NONE, (0, 1, 2))
