"""The judges' book of voters: what logs have named, what is committed, and what may not be."""

from __future__ import annotations

import pytest

from nemesis.simulator.disk import directory_id_for
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_administrator import is_living
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import voter_of
from replica.ids import Epoch, Offset, ReplicaId
from replica.records import RecordBatch, voters_batch
from replica.voters import VoterSet

A, B = ReplicaId(1), ReplicaId(2)


def voters(*numbers: int, wiped: int = 0) -> VoterSet:
    """These machines, on their disks after so many before them."""
    return VoterSet.of(voter_of(ReplicaId(number), directory_id_for(ReplicaId(number), wiped)) for number in numbers)


def batch(offset: int, named: VoterSet) -> RecordBatch:
    return voters_batch(voters=named, base_offset=Offset(offset), leader_epoch=Epoch(1))


def book(*appended: tuple[ReplicaId, int, VoterSet]) -> VoterBook:
    """A book of machines 1 and 2, at first voted in by 1 to 3, with what they have appended."""
    kept = VoterBook(voters(1, 2, 3), (A, B))
    for replica_id, offset, named in appended:
        kept.append(replica_id, batch(offset, named))
    return kept


def test_a_set_counts_from_its_append_on() -> None:
    """Who has the record goes by it, committed or not; who has not goes by what was before."""
    kept = book((A, 5, voters(1, 2)))

    assert (kept.in_force(A), kept.in_force(B)) == (voters(1, 2), voters(1, 2, 3))
    assert kept.latest_committed == voters(1, 2, 3)
    assert kept.possible() == {voters(1, 2), voters(1, 2, 3)}


def test_a_truncation_takes_sets_back() -> None:
    """What is dropped does not count, what stands below does."""
    kept = book((A, 5, voters(1, 2)), (A, 9, voters(2)))
    kept.truncate(A, Offset(9))
    assert (kept.in_force(A), kept.taken_back) == (voters(1, 2), 1)
    kept.truncate(A, Offset(6))
    assert (kept.in_force(A), kept.taken_back) == (voters(1, 2), 1)
    kept.truncate(A, Offset(5))
    assert (kept.in_force(A), kept.taken_back) == (voters(1, 2, 3), 2)


def test_a_snapshot_stands_for_what_is_committed_below_its_end() -> None:
    """A log that begins anew has the sets of the committed log; an empty disk has none, an earlier one its own."""
    kept = book((B, 9, voters(3)))
    kept.commit(batch(5, voters(1, 2)))
    kept.begin_after(B, Offset(6))
    assert kept.in_force(B) == voters(1, 2)
    kept.begin_after(B, Offset(5))
    assert kept.in_force(B) == voters(1, 2, 3)
    kept.append(B, batch(5, voters(1, 2)))
    named = kept.exchange(B, [])
    assert kept.latest_of(B) is None
    kept.exchange(B, named)
    assert kept.in_force(B) == voters(1, 2)


def test_who_is_behind_may_still_go_by_an_old_set() -> None:
    """The sets that are possible are those of every log from its last committed one on."""
    kept = book((A, 5, voters(1, 2)), (A, 9, voters(1)))
    kept.commit(batch(5, voters(1, 2)))

    assert kept.possible() == {voters(1, 2, 3), voters(1, 2), voters(1)}


def test_a_change_on_its_way_may_still_be_made_of_every_set() -> None:
    """What the cluster can do without, it must be able to do without after the change as well.

    1. A, B and C vote, and A is asked to remove A. 2. C loses its disk. 3. A does it: B and C vote, and C is gone.
    """
    kept = book((B, 5, voters(1, 2)))
    kept.on_its_way = lambda named: named.without(ReplicaId(1))

    assert kept.possible() == {voters(1, 2, 3), voters(1, 2), voters(2, 3), voters(2)}


@pytest.mark.parametrize(
    ("first", "second"),
    [(voters(1, 2), voters(1, 3)), (voters(1, 2), voters(1, 2, 3, 4)), (voters(2), voters(2, wiped=1))],
    ids=["another", "two more", "another disk"],
)
def test_two_voters_at_once_convict(first: VoterSet, second: VoterSet) -> None:
    """A majority of one set and a majority of the next could have nobody in common."""
    kept = VoterBook(first, (A, B))

    with pytest.raises(BrokenInvariantError, match="one-voter-at-a-time"):
        kept.commit(batch(5, second))


@pytest.mark.parametrize(
    ("named", "lost", "expected"),
    [((1, 2, 3), (), True), ((1, 2, 3), (3,), True), ((1, 2, 3), (1, 3), False), ((1, 2), (2,), False)],
)
def test_a_majority_on_its_disks_is_living(named: tuple[int, ...], lost: tuple[int, ...], *, expected: bool) -> None:
    """A voter whose disk is another now is none of them."""
    disks = {ReplicaId(number): directory_id_for(ReplicaId(number), int(number in lost)) for number in range(1, 6)}

    assert is_living(voters(*named), disks) is expected
