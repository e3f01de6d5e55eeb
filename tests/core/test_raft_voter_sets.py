"""Sets of voters, and which of them counts where in a log.

Names are those of Kafka's ``VoterSetTest`` and ``VoterSetHistoryTest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest

from replica.core.config import ReplicaConfig
from replica.core.quorum.voter_history import VoterHistory, formatted_history
from replica.ids import Offset, ReplicaId
from replica.voters import ReplicaKey, Voter, VoterEntry, VoterSet
from tests.core.harness import CLUSTER, disk_id, voter, voters_of

THREE, FOUR, FIVE = voters_of(1, 2, 3), voters_of(1, 2, 3, 4), voters_of(1, 2, 3, 4, 5)
CONFIG = ReplicaConfig(
    cluster_id=CLUSTER,
    replica_id=ReplicaId(1),
    directory_id=disk_id(1),
    voters=(ReplicaId(1), ReplicaId(2)),
    initial_voters=THREE,
)


def key(replica_id: int, disk: int = 0) -> ReplicaKey:
    """A replica on one of its disks."""
    return ReplicaKey(ReplicaId(replica_id), disk_id(replica_id, disk))


# --- sets -----------------------------------------------------------------------------------------------------------


def test_voter_ids() -> None:
    """A set has its ids in order, however it was put together, and none twice."""
    assert VoterSet.of([voter(3), voter(1), voter(2)]).ids == (1, 2, 3)
    with pytest.raises(AssertionError):
        VoterSet.of([voter(1), voter(1, disk=1)])


def test_empty_voter_set() -> None:
    """Of a log of which no voters are known nobody votes, and no number of votes is none (Kafka has no such set)."""
    empty = VoterSet(())
    assert (empty.ids, empty.majority, empty.has(key(1))) == ((), 1, False)


def test_add_voter() -> None:
    """A set with one voter more has all that were there, as they were; an id that is there is not added again."""
    assert THREE.with_voter(voter(4)) == FOUR
    assert THREE.ids == (1, 2, 3)
    with pytest.raises(AssertionError):
        THREE.with_voter(voter(3, disk=1))


def test_remove_voter() -> None:
    """A set without a voter has all the others, as they were; who is not there is not missed."""
    assert FOUR.without(ReplicaId(4)) == THREE
    assert FOUR.without(ReplicaId(2)).ids == (1, 3, 4)
    assert THREE.without(ReplicaId(4)) == THREE


def test_is_voter_with_directory_id() -> None:
    """Who comes from another disk, or names none, does not vote."""
    asked = (key(1), key(1, 1), ReplicaKey(ReplicaId(1), None), key(4))
    assert [THREE.has(replica) for replica in asked] == [True, False, False, False]


def test_voter_node() -> None:
    """A voter is found by its id, with the disk and the address under which it was added."""
    found = THREE.find(ReplicaId(2))
    assert found == Voter(replica_id=ReplicaId(2), directory_id=disk_id(2), address="replica-2:9092")
    assert THREE.find(ReplicaId(4)) is None


def test_is_only_voter_in_standalone() -> None:
    """One voter is a majority of one."""
    assert (voters_of(1).majority, voters_of(1).has(key(1))) == (1, True)


def test_is_only_voter_in_not_standalone() -> None:
    """One voter is no majority of two or more, and half of them is none."""
    assert [voters_of(*range(count)).majority for count in (2, 3, 4, 5)] == [2, 2, 3, 3]


def majorities(voters: VoterSet) -> Iterator[frozenset[ReplicaId]]:
    """All smallest majorities of a set."""
    return (frozenset(chosen) for chosen in combinations(voters.ids, voters.majority))


def meet(one: VoterSet, other: VoterSet) -> bool:
    """Whether each majority of the one has a voter in common with each of the other."""
    return all(first & second for first in majorities(one) for second in majorities(other))


@pytest.mark.parametrize("count", range(1, 8))
def test_overlapping_majority(count: int) -> None:
    """A set and one with one voter more or less never decide without each other."""
    voters = voters_of(*range(count))
    assert meet(voters, voters)
    assert meet(voters, voters.with_voter(voter(count)))
    if count > 1:
        assert meet(voters, voters.without(ReplicaId(0)))


def test_nonoverlapping_majority() -> None:
    """Sets that differ by more than one voter may: that is why one goes or comes at a time."""
    assert not meet(THREE, FIVE)
    assert not meet(THREE, voters_of(3))
    assert not meet(THREE, voters_of(1, 2, 4, 5))
    assert not meet(THREE, voters_of(4, 5, 6))


# --- histories ------------------------------------------------------------------------------------------------------


def entry(offset: int, voters: VoterSet) -> VoterEntry:
    """A set that counts from a record on."""
    return VoterEntry(offset=Offset(offset), voters=voters)


def value_at(history: VoterHistory, offset: int) -> VoterSet:
    """Who votes as of everything up to and with this offset."""
    return history.as_of(Offset(offset + 1)).latest


HISTORY = VoterHistory(base=THREE).extended([entry(100, FOUR), entry(200, FIVE)])


def test_no_static_voter_set() -> None:
    """A disk that was formatted without voters knows of none before a record names some."""
    history = formatted_history(replace(CONFIG, initial_voters=VoterSet(())))
    assert (history.latest.ids, history.latest_offset) == ((), None)
    named = history.extended([entry(1, THREE)])
    assert [value_at(named, offset).ids for offset in (0, 1)] == [(), (1, 2, 3)]


def test_add_at() -> None:
    """Each set counts from its own record on, up to the next one."""
    assert [value_at(HISTORY, offset) for offset in (0, 99, 100, 199, 200, 1000)] == [
        THREE,
        THREE,
        FOUR,
        FOUR,
        FIVE,
        FIVE,
    ]
    assert (HISTORY.latest, HISTORY.latest_offset, HISTORY.previous) == (FIVE, 200, FOUR)


def test_bootstrap_add_at() -> None:
    """What a disk was formatted with counts until the first record, which may name the same voters."""
    history = formatted_history(replace(CONFIG, initial_voters=THREE))
    assert (history.latest, history.latest_offset) == (THREE, None)
    history = history.extended([entry(1, THREE), entry(100, FOUR), entry(200, THREE)])
    assert [value_at(history, offset) for offset in (0, 1, 99, 100, 199, 200)] == [
        THREE,
        THREE,
        THREE,
        FOUR,
        FOUR,
        THREE,
    ]


def test_truncate_to() -> None:
    """A log that is cut has the sets whose records are left; the record at the cut is not."""
    cuts = {end: HISTORY.truncated(Offset(end)) for end in (201, 200, 101, 100, 0)}
    assert {end: history.latest for end, history in cuts.items()} == {
        201: FIVE,
        200: FOUR,
        101: FOUR,
        100: THREE,
        0: THREE,
    }
    assert {end: history.latest_offset for end, history in cuts.items()} == {
        201: 200,
        200: 100,
        101: 100,
        100: None,
        0: None,
    }


def test_trim_prefix_to() -> None:
    """A snapshot stands for the records below its end, and the last set below counts on; later ones stay."""
    for end_offset, base, kept in ((99, THREE, (100, 200)), (100, THREE, (100, 200)), (101, FOUR, (200,))):
        history = HISTORY.begun_at(Offset(end_offset))
        assert (history.base, tuple(later.offset for later in history.entries)) == (base, kept)
        assert history.latest == FIVE
    whole = HISTORY.begun_at(Offset(201))
    assert (whole.base, whole.base_offset, whole.entries, whole.latest_offset) == (FIVE, 200, (), 200)
