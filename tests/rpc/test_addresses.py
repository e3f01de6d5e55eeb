"""The address table: overrides win, and what is malformed is named."""

from __future__ import annotations

import pytest

from replica.ids import ReplicaId
from replica.rpc.addresses import AddressTable, InvalidAddressError, check_address, parse_entries, parse_voters
from replica.voters import Voter

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
DISK, DISK_2 = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def test_an_override_wins_over_the_advertised_address() -> None:
    """A replica that the given table names is dialled there, any other at its advertised address."""
    table = AddressTable(advertised={ONE: "a:1", TWO: "b:2"}, overrides={TWO: "proxy:9"})
    assert (table.address_of(ONE), table.address_of(TWO)) == ("a:1", "proxy:9")
    assert dict(table) == {ONE: "a:1", TWO: "proxy:9"}


def test_who_is_in_no_table_is_dialled_where_it_has_registered() -> None:
    """A broker that is no voter has the address of its newest registration, unless the given table names it."""
    registered = {TWO: "b:2", THREE: "c:3"}
    table = AddressTable(advertised={ONE: "a:1"}, overrides={THREE: "proxy:9"}, learned=[lambda: registered])
    assert (table.address_of(TWO), table.address_of(THREE)) == ("b:2", "proxy:9")
    assert dict(table) == {ONE: "a:1", TWO: "b:2", THREE: "proxy:9"}
    registered[TWO] = "b:4"
    assert table.address_of(TWO) == "b:4"


def test_what_a_log_says_of_its_voters_wins_over_registrations() -> None:
    """Of the tables that are asked anew every time, the first that names a replica counts."""
    voters = {TWO: "b:2"}
    table = AddressTable(
        advertised={ONE: "a:1"}, overrides={}, learned=[lambda: voters, lambda: {ONE: "x:1", TWO: "x:2", THREE: "c:3"}]
    )
    assert dict(table) == {ONE: "a:1", TWO: "b:2", THREE: "c:3"}
    del voters[TWO]
    assert table.address_of(TWO) == "x:2"


def test_a_registered_address_that_nobody_can_dial_is_refused() -> None:
    """What another process says of itself is looked at before it is dialled."""
    table = AddressTable(advertised={}, overrides={}, learned=[lambda: {TWO: "nowhere"}])
    with pytest.raises(InvalidAddressError, match="is not HOST:PORT"):
        table.address_of(TWO)


def test_an_unknown_replica_is_an_error_that_names_the_known_ones() -> None:
    """Asking for a replica without an address fails with the replicas that have one."""
    table = AddressTable(advertised={ONE: "a:1"}, overrides={})
    with pytest.raises(InvalidAddressError, match="replica 3; the table names 1"):
        table.address_of(ReplicaId(3))


def test_entries_are_read() -> None:
    """ID=HOST:PORT entries become a table, an IPv6 host in brackets included."""
    assert parse_entries(["1=127.0.0.1:9092", "2=[::1]:9093"]) == {ONE: "127.0.0.1:9092", TWO: "[::1]:9093"}


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        (["localhost:9092"], "is not ID=HOST:PORT"),
        (["x=localhost:9092"], "is not ID=HOST:PORT"),
        (["1=localhost"], "is not HOST:PORT"),
        (["1=:9092"], "is not HOST:PORT"),
        (["1=localhost:0"], "is not between 1 and 65535"),
        (["1=localhost:65536"], "is not between 1 and 65535"),
        (["1=localhost:\u0661\u0662"], "is not HOST:PORT"),
        (["1=::1:9092"], "is not HOST:PORT"),
        (["1=a:1", "1=b:1"], "replica 1 is named twice"),
    ],
)
def test_malformed_entries_are_named(entries: list[str], complaint: str) -> None:
    """An entry that cannot be used is refused with what it should look like."""
    with pytest.raises(InvalidAddressError, match=complaint):
        parse_entries(entries)


def test_a_listener_may_ask_for_any_free_port() -> None:
    """Port 0 is accepted where the caller allows it."""
    check_address("127.0.0.1:0", port_min=0)


def test_voters_are_read() -> None:
    """ID=HOST:PORT=DIRECTORY_ID entries become a set in the order of ids."""
    voters = parse_voters([f"2=[::1]:9093={DISK_2}", f" 1=a:1={DISK}"])
    assert voters.voters == (
        Voter(replica_id=ONE, directory_id=DISK, address="a:1"),
        Voter(replica_id=TWO, directory_id=DISK_2, address="[::1]:9093"),
    )


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([""], "'' is not ID=HOST:PORT=DIRECTORY_ID"),
        (["1=a:1"], "is not ID=HOST:PORT=DIRECTORY_ID"),
        ([f"x=a:1={DISK}"], "is not ID=HOST:PORT=DIRECTORY_ID"),
        ([f"1=a={DISK}"], "'a' is not HOST:PORT"),
        ([f"1=a:0={DISK}"], "is not between 1 and 65535"),
        (["1=a:1="], "'' is no directory id"),
        (["1=a:1=disk"], "'disk' is no directory id, which is 22 characters"),
        (["1=a:1=AAAAAAAAAAAAAAAAAAAAAA"], "is no directory id"),
        ([f"1=a:1={DISK}", f"1=b:1={DISK_2}"], "replica 1 is named twice"),
        ([f"1=a:1={DISK}", f"2=b:1={DISK}"], f"directory id {DISK} is named twice"),
    ],
)
def test_malformed_voters_are_named(entries: list[str], complaint: str) -> None:
    """An entry that is no voter, or a second one of a replica or a disk, is refused with what it should look like."""
    with pytest.raises(InvalidAddressError, match=complaint):
        parse_voters(entries)
