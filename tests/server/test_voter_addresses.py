"""Where voters are reached by their logs: also those that a record has just removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica.core.quorum.voter_history import VoterHistory
from replica.ids import Offset, ReplicaId
from replica.rpc.addresses import AddressTable
from replica.server.voter_addresses import VoterAddresses
from replica.voters import Voter, VoterEntry, VoterSet

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)


def voters_at(addresses: Mapping[ReplicaId, str]) -> VoterSet:
    return VoterSet.of(
        Voter(replica_id=replica_id, directory_id=None, address=address) for replica_id, address in addresses.items()
    )


def history_of(*sets: Mapping[ReplicaId, str]) -> VoterHistory:
    """A history of these sets: the first is its base, and each of the others has a record."""
    base, *others = map(voters_at, sets)
    entries = [VoterEntry(offset=Offset(number), voters=voters) for number, voters in enumerate(others)]
    return VoterHistory(base=base).extended(entries)


def addresses_by(*histories: VoterHistory) -> VoterAddresses:
    return VoterAddresses(lambda: histories)


def test_a_leader_that_removed_itself_can_still_be_dialled() -> None:
    """Its followers hold the record, and must fetch once more so that it is committed."""
    removed = addresses_by(history_of({ONE: "a:1"}, {ONE: "a:1", TWO: "b:2"}, {TWO: "b:2"}))
    table = AddressTable(advertised={}, overrides={}, learned=(removed.latest, removed.former))
    assert (table.address_of(ONE), table.address_of(TWO)) == ("a:1", "b:2")


def test_the_last_set_counts_before_those_that_were() -> None:
    """A voter that came back elsewhere is dialled there, even if another log knows only where it was."""
    moved = history_of({ONE: "a:1", TWO: "b:2"}, {TWO: "b:2"}, {ONE: "a:9", TWO: "b:2"})
    left = history_of({ONE: "a:1", THREE: "c:3"}, {THREE: "c:3"})
    both = addresses_by(moved, left)
    assert both.latest() == {ONE: "a:9", TWO: "b:2", THREE: "c:3"}
    assert both.former() == {ONE: "a:1", TWO: "b:2", THREE: "c:3"}
    assert addresses_by(moved).former() == {ONE: "a:9", TWO: "b:2"}


def test_the_later_log_counts_for_more() -> None:
    """Where two logs have different addresses for a voter, that of the last log is taken."""
    both = addresses_by(history_of({ONE: "a:1"}), history_of({ONE: "a:2"}))
    assert (both.latest(), both.former()) == ({ONE: "a:2"}, {ONE: "a:2"})


def test_a_record_is_heard_of_and_taken_back() -> None:
    """What a log appends and truncates shows at once; as long as nothing changes nothing is computed."""
    before = history_of({ONE: "a:1"})
    added = before.extended([VoterEntry(offset=Offset(3), voters=voters_at({ONE: "a:1", TWO: "b:2"}))])
    now = [before]

    def histories() -> Iterable[VoterHistory]:
        return now

    addresses = VoterAddresses(histories)
    assert addresses.latest() == {ONE: "a:1"}
    now[:] = [added]
    seen = addresses.latest()
    assert (seen, addresses.former()) == ({ONE: "a:1", TWO: "b:2"}, {ONE: "a:1", TWO: "b:2"})
    assert addresses.latest() is seen
    now[:] = [added.truncated(Offset(3))]
    assert (addresses.latest(), addresses.former()) == ({ONE: "a:1"}, {ONE: "a:1"})
