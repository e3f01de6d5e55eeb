"""A leader changes who votes: one voter more, one less, itself; what it refuses, and what it leaves unknown.

Names are those of Kafka's ``KafkaRaftClientReconfigTest`` where there is one.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.records import decode_voters
from replica.voters import Voter
from tests.core.harness import CONFIG, LOG, Bench, disk_id, voter, voters_of
from tests.core.membership_scenarios import (
    IDS,
    acknowledge,
    add,
    added,
    changed,
    fetch_from,
    first_leader,
    fresh_bench,
    fresh_follower,
    ids,
    order_of,
    remove,
    settled_leader,
)
from tests.core.scenarios import fetched, follow, lead, produce, reply_of
from tests.core.test_raft_transfer import transfer

THROTTLED, TIMED_OUT = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.REQUEST_TIMED_OUT


@pytest.fixture
def bench() -> Bench:
    """Replica 0, which leads three voters, and has committed something in its epoch."""
    return settled_leader()


def test_leader_writes_bootstrap_records() -> None:
    """Who was formatted without voters learns them from the log: the first record after LeaderChange names them."""
    bench = first_leader()
    assert [decode_voters(batch) for batch in bench.disk.batches] == [None, voters_of(0, 1, 2)]
    acknowledge(bench, 1)
    bench.restart()
    lead(bench)
    assert len(bench.disk.batches) == 3, "a later leader does not"


def test_add_voter(bench: Bench) -> None:
    """A replica that has caught up votes from the append of its set on; the answer comes with its commit."""
    call_id = added(bench, 3)
    assert order_of(bench.effects) == ["StoreVoters", "Append", "Flush"], "with its fetch"
    assert ids(bench) == (0, 1, 2, 3)
    acknowledge(bench, 1)
    assert call_id in bench.open_calls
    acknowledge(bench, 3)
    assert changed(bench, call_id) == m.ChangeVotersResponse(
        error=ErrorCode.NONE, current_leader=bench.log.current_leader
    )


def test_the_voters_are_stored_before_the_record_is_appended(bench: Bench) -> None:
    """A crash between the two leaves an entry without a record, which recovery sees, and never the reverse."""
    remove(bench, 2)
    assert order_of(bench.effects) == ["StoreVoters", "Append", "Flush"]


def test_a_new_voter_is_asked_to_fetch_at_once(bench: Bench) -> None:
    """Its parked fetch is answered when it is to be added, and its next one proves that it lives."""
    parked = bench.call(fetch_from(bench, 3, wait_ms=500, high_watermark=Offset(2)))
    other = bench.call(fetch_from(bench, 4, wait_ms=500, high_watermark=Offset(2)))
    add(bench, 3)
    assert parked in bench.replies
    assert other in bench.open_calls
    assert ids(bench) == (0, 1, 2)


@pytest.mark.parametrize("ids_after", [(0, 1), (0, 2)])
def test_remove_voter(bench: Bench, ids_after: tuple[int, ...]) -> None:
    """The others decide from the append on, and the removed one is an observer, as far as it was."""
    acknowledge(bench, 1, 2)
    (gone,) = {1, 2} - set(ids_after)
    call_id = remove(bench, gone)
    assert ids(bench) == ids_after
    acknowledge(bench, gone)
    assert call_id in bench.open_calls
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert [(observer.replica_id, observer.directory_id) for observer in described.observers] == [(gone, disk_id(gone))]
    acknowledge(bench, *ids_after[1:])
    assert changed(bench, call_id).error is ErrorCode.NONE


def test_remove_voter_is_leader(bench: Bench) -> None:
    """It leads on without counting itself, and when it is committed it answers, names successors, and observes."""
    acknowledge(bench, 1)
    call_id = remove(bench, 0, directory_id=disk_id(0))
    assert (ids(bench), bench.role) == ((1, 2), "leader")
    acknowledge(bench, 2)
    assert (bench.role, call_id in bench.open_calls) == ("leader", True)
    acknowledge(bench, 1)
    assert changed(bench, call_id).error is ErrorCode.NONE
    assert bench.role == "resigned"
    told = bench.requests(m.EndQuorumEpochRequest)
    assert {replica_id: request.preferred_candidates for replica_id, request in told.items()} == {
        1: (1, 2),
        2: (1, 2),
    }
    bench.to_role("unattached")
    bench.elapse(60_000)
    assert bench.role == "unattached", "it asks who leads, and for no votes"


def test_writes_that_wait_for_a_leader_that_leaves_are_committed_without_it(bench: Bench) -> None:
    """What it appended with its own removal is acknowledged by the two that are left, both of them."""
    acknowledge(bench, 1, 2)
    remove(bench, 0)
    call_id = bench.call(produce())
    acknowledge(bench, 1)
    assert call_id in bench.open_calls
    acknowledge(bench, 2)
    assert reply_of(bench, call_id).error is ErrorCode.NONE


def test_one_to_five_and_back() -> None:
    """Voters come one by one, and go one by one; in between every write needs a majority of those there are."""
    bench = settled_leader(initial=(0,))
    for new in (1, 2, 3, 4):
        call_id = added(bench, new)
        acknowledge(bench, *range(1, new + 1))
        assert changed(bench, call_id).error is ErrorCode.NONE
    assert bench.log.majority == 3
    for old in (4, 3, 2, 1):
        call_id = remove(bench, old)
        acknowledge(bench, *range(1, old))
        assert changed(bench, call_id).error is ErrorCode.NONE
    assert (ids(bench), bench.log.majority) == ((0,), 1)


def test_a_voter_is_replaced_by_another_disk(bench: Bench) -> None:
    """Its id is taken until it is removed; then it may come back on the new disk."""
    assert changed(bench, add(bench, 2, disk=1)).error is ErrorCode.DUPLICATE_VOTER
    call_id = remove(bench, 2)
    acknowledge(bench, 1)
    assert changed(bench, call_id).error is ErrorCode.NONE
    call_id = add(bench, 2, disk=1)
    fetched(bench, fetch_from(bench, 2))
    assert ids(bench) == (0, 1), "that was the old disk"
    fetched(bench, fetch_from(bench, 2, disk=1))
    acknowledge(bench, 1)
    assert changed(bench, call_id).error is ErrorCode.NONE
    assert bench.log.voters.find(ReplicaId(2)) == voter(2, 1)


# --- refused --------------------------------------------------------------------------------------------------------


def test_changes_are_refused_in_order() -> None:
    """Another cluster, then no leader, then what is under way, then what is asked for."""
    follower = fresh_follower()
    assert changed(follower, add(follower, 3, cluster_id="another")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    refused = changed(follower, add(follower, 1))
    assert (refused.error, refused.current_leader) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        follower.log.current_leader,
    )
    fresh = first_leader()
    assert changed(fresh, add(fresh, 1)).error is THROTTLED
    assert refused.not_appended


@pytest.mark.parametrize(
    ("removed", "directory_id", "error"),
    [
        (3, None, ErrorCode.VOTER_NOT_FOUND),
        (2, disk_id(2, 1), ErrorCode.VOTER_NOT_FOUND),
        (2, disk_id(2), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_remove_voter_with_wrong_key(bench: Bench, removed: int, directory_id: str | None, error: ErrorCode) -> None:
    """Who is named by id and disk votes on that disk; without a disk any is meant."""
    response = changed(bench, remove(bench, removed, directory_id=directory_id, timeout_ms=0))
    assert response.error is error
    assert response.not_appended is (error is ErrorCode.VOTER_NOT_FOUND)


def test_the_last_voter_is_not_removed() -> None:
    """A log without voters could never be changed again."""
    bench = settled_leader(initial=(0,))
    assert changed(bench, remove(bench, 0)).error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("directory_id", "address"),
    [
        (None, "host:1"),
        ("disk-3", "host:1"),
        ("A" * 22, "host:1"),
        *(
            (disk_id(3), address)
            for address in ("nowhere", ":1", "h:0", "h:65536", "a b:1", "a:b:1", "\u00fc:1", "h" * 261 + ":1")
        ),
    ],
)
def test_a_voter_that_nobody_could_tell_or_dial_is_refused(
    bench: Bench, directory_id: str | None, address: str
) -> None:
    """A directory id has 16 bytes, not all of them 0 (that is any disk); an address has a host that is not too long."""
    new = Voter(replica_id=ReplicaId(3), directory_id=directory_id, address=address)
    request = m.AddVoterRequest(topic_partition=LOG, voter=new, timeout_ms=1)
    response = bench.answered(request, m.ChangeVotersResponse)
    assert (response.error, response.not_appended) == (ErrorCode.INVALID_REQUEST, True)


def test_what_is_kept_of_an_observer_is_small(bench: Bench) -> None:
    """A replica that names its disk by a long text is turned away."""
    fetch = fetched(bench, fetch_from(bench, 7, replica_directory_id="x" * 65))
    assert fetch.error is ErrorCode.INVALID_REQUEST


def test_two_changes_at_once_are_refused(bench: Bench) -> None:
    """While one waits for its voter, or for its commit, another is not begun."""
    first = add(bench, 3)
    assert changed(bench, remove(bench, 2)).error is THROTTLED
    fetched(bench, fetch_from(bench, 3))
    assert changed(bench, add(bench, 4)).error is THROTTLED
    acknowledge(bench, 1, 3)
    assert changed(bench, first).error is ErrorCode.NONE
    added(bench, 4)


def test_no_change_during_a_transfer(bench: Bench) -> None:
    """The leader takes no records then; who has caught up is added when the transfer has failed."""
    bench.call(transfer(1, timeout_ms=300))
    assert changed(bench, remove(bench, 2)).error is THROTTLED
    bench.elapse(301)
    call_id = add(bench, 3)
    bench.call(transfer(2, timeout_ms=300))
    fetched(bench, fetch_from(bench, 3))
    assert ids(bench) == (0, 1, 2)
    bench.elapse(301)
    assert ids(bench) == (0, 1, 2, 3)
    assert call_id in bench.open_calls


# --- catching up ----------------------------------------------------------------------------------------------------


def test_add_voter_timeout(bench: Bench) -> None:
    """Who does not catch up in time is not added, and that is certain."""
    call_id = add(bench, 3, timeout_ms=700)
    fetched(bench, fetch_from(bench, 3, behind=1))
    bench.elapse(699)
    assert call_id in bench.open_calls
    bench.elapse(1)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended, ids(bench)) == (TIMED_OUT, True, (0, 1, 2))
    added(bench, 4)


def test_who_has_nothing_is_waited_for() -> None:
    """A voter that has not caught up would stop every commit until it has."""
    bench = settled_leader()
    add(bench, 3)
    assert ids(bench) == IDS


def test_a_fetch_from_before_the_request_is_not_enough(bench: Bench) -> None:
    """Who had everything then may be gone by now."""
    early = fetch_from(bench, 3)
    fetched(bench, early)
    add(bench, 3)
    fetched(bench, early)
    assert ids(bench) == (0, 1, 2), "it has not heard of the round"
    fetched(bench, fetch_from(bench, 3))
    assert ids(bench) == (0, 1, 2, 3)


def test_a_slow_round_is_followed_by_another(bench: Bench) -> None:
    """What has come while a voter caught up for long is to be fetched as well; a round that is short is the last."""
    add(bench, 3)
    for _ in range(2):
        asked = fetch_from(bench, 3)
        bench.call(produce(acks=1))
        for _ in range(11):
            bench.elapse(100)
            acknowledge(bench, 1)
        fetched(bench, asked)
        assert ids(bench) == (0, 1, 2)
    fetched(bench, fetch_from(bench, 3))
    assert ids(bench) == (0, 1, 2, 3)


def test_the_wait_is_bounded_by_the_configuration() -> None:
    """However long a caller would wait."""
    bench = settled_leader(config=replace(CONFIG, change_voters_timeout_max_ms=50))
    call_id = add(bench, 3, timeout_ms=1 << 40)
    bench.elapse(50)
    assert changed(bench, call_id).error is TIMED_OUT


# --- an unknown end -------------------------------------------------------------------------------------------------


def test_a_change_that_is_not_committed_in_time_is_unknown(bench: Bench) -> None:
    """The record stands in the log, and may yet be committed; the set is in force all the while."""
    call_id = add(bench, 3, timeout_ms=700)
    acknowledge(bench, 3)
    bench.elapse(700)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended, ids(bench)) == (TIMED_OUT, False, (0, 1, 2, 3))


@pytest.mark.parametrize("is_appended", [False, True])
def test_leadership_lost_in_between(bench: Bench, is_appended: bool) -> None:
    """Before the append nothing has changed, after it nobody knows; the set is in force as long as it stands."""
    call_id = add(bench, 3)
    if is_appended:
        acknowledge(bench, 3)
    follow(bench, 1, 9)
    response = changed(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, not is_appended)
    assert (3 in ids(bench)) is is_appended


# --- who is counted -------------------------------------------------------------------------------------------------


def test_an_old_majority_does_not_commit() -> None:
    """The set is in force before it is committed."""
    bench = settled_leader()
    call_id = added(bench, 3)
    acknowledge(bench, 1)
    assert call_id in bench.open_calls, "two of three have it, and two of four"
    acknowledge(bench, 3)
    assert changed(bench, call_id).error is ErrorCode.NONE


def test_a_wiped_voter_acknowledges_nothing() -> None:
    """Its fetches are an observer's: for commits, for check quorum and for reads."""
    bench = first_leader()
    fetched(bench, fetch_from(bench, 1, disk=1))
    assert bench.high_watermark is None
    bench = settled_leader()
    for _ in range(30):
        bench.elapse(100)
        if bench.role == "leader":
            fetched(bench, fetch_from(bench, 1, disk=1))
            fetched(bench, fetch_from(bench, 2, disk=1))
    assert bench.role == "resigned"
    bench = settled_leader()
    bench.act(bench.log.begin_read_round(bench.now_ms))
    fetched(bench, fetch_from(bench, 1, disk=1))
    assert bench.log.confirmed_read_round == 0
    fetched(bench, fetch_from(bench, 1))
    assert bench.log.confirmed_read_round == 1


def test_a_fetch_without_a_disk_is_an_observers() -> None:
    """A fetch from a disk that it does not name is no voter's."""
    bench = first_leader()
    fetched(bench, fetch_from(bench, 1, replica_directory_id=None))
    assert bench.high_watermark is None


def test_high_watermark_does_not_decrease_from_new_voter(bench: Bench) -> None:
    """What two of three have committed stays so when three of four do not have it."""
    bench.call(produce(acks=1))
    acknowledge(bench, 1)
    before = bench.high_watermark
    added(bench, 3)
    assert bench.high_watermark == before


def test_a_leader_outside_the_set_needs_a_majority_of_it() -> None:
    """It counts itself neither for check quorum nor for reads."""
    bench = settled_leader(initial=(0, 1, 2, 3))
    remove(bench, 0)
    bench.flush_all()
    bench.act(bench.log.begin_read_round(bench.now_ms))
    acknowledge(bench, 1)
    assert bench.log.confirmed_read_round == 0
    fetched(bench, fetch_from(bench, 2, behind=1))
    assert bench.log.confirmed_read_round == 1
    bench = settled_leader(initial=(0, 1, 2, 3))
    acknowledge(bench, 1, 2)
    remove(bench, 0)
    for _ in range(40):
        bench.elapse(100)
        if bench.role == "leader":
            fetched(bench, fetch_from(bench, 1, behind=1))
    assert bench.role == "resigned", "one of three"


def test_begin_quorum_epoch_names_the_voters_disks() -> None:
    """So that whoever has come back with another disk tells that it is not meant."""
    bench = first_leader()
    told = bench.requests(m.BeginQuorumEpochRequest)
    assert {to: request.voter_directory_id for to, request in told.items()} == {1: disk_id(1), 2: disk_id(2)}


def test_describe_quorum_names_disks_and_addresses(bench: Bench) -> None:
    """Of voters the address that their log knows, of observers the disk that they fetch from."""
    fetched(bench, fetch_from(bench, 1, disk=1))
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert [(v.replica_id, v.directory_id, v.address, v.log_end_offset) for v in described.current_voters] == [
        (0, disk_id(0), "replica-0:9092", 2),
        (1, disk_id(1), "replica-1:9092", 2),
        (2, disk_id(2), "replica-2:9092", None),
    ]
    assert [(o.replica_id, o.directory_id, o.address) for o in described.observers] == [(1, disk_id(1, 1), "")]
    remove(bench, 0)
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert [v.replica_id for v in described.current_voters] == [1, 2]


def test_an_empty_set_of_initial_voters_waits_to_be_added() -> None:
    """A disk without a vote asks those whom its operator named who leads, one after the other, and never campaigns."""
    bench = fresh_bench(initial=(), voters=(0, 1), replica_id=5)
    assert set(bench.requests(m.FetchRequest)) == {0}
    bench.fail(bench.send_to(0, m.FetchRequest))
    bench.elapse(20)
    assert set(bench.requests(m.FetchRequest)) == {1}
    bench.fail(bench.send_to(1, m.FetchRequest))
    bench.elapse(60_000)
    assert bench.role == "unattached"
