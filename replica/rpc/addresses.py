"""Which address to dial for which replica.

Owns the table that every dial goes through: the voters' advertised addresses, those that quorum logs have for their
voters, those under which other brokers have registered, and over all, entry by entry, the table given at start, so that
each directed link can be led through a proxy. What clients are told differs where brokers say so.
Owns how voters are written on a command line. Knows nothing of
connections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from replica.bounds import ADDRESS_BYTES_MAX
from replica.core.metadata.image import BrokerRegistration
from replica.ids import ReplicaId
from replica.voters import Voter, VoterSet, is_directory_id

_ENTRY = re.compile(r"(?P<replica_id>[0-9]{1,10})=(?P<address>.*)", re.DOTALL)
_VOTER = re.compile(r"(?P<replica_id>[0-9]{1,10})=(?P<address>[^=]*)=(?P<directory_id>.*)", re.DOTALL)
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65535


class InvalidAddressError(ValueError):
    """An address, or an entry of an address table, that cannot be used; the message says what it should look like."""


class AddressTable(Mapping[ReplicaId, str]):
    """Replica id -> ``HOST:PORT`` to dial, in order of replica id. ``overrides`` win over ``advertised``.

    ``learned`` are asked anew every time, in this order, for who is in neither of these tables.
    """

    def __init__(
        self,
        *,
        advertised: Mapping[ReplicaId, str],
        overrides: Mapping[ReplicaId, str],
        learned: Sequence[Callable[[], Mapping[ReplicaId, str]]] = (),
    ) -> None:
        self._given = {**advertised, **overrides}
        self._learned = learned
        for address in self._given.values():
            check_address(address)

    def __getitem__(self, replica_id: ReplicaId) -> str:
        for table in self._tables():
            if replica_id in table:
                return table[replica_id]
        raise KeyError(replica_id)

    def __iter__(self) -> Iterator[ReplicaId]:
        return iter(sorted({replica_id for table in self._tables() for replica_id in table}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _tables(self) -> Iterator[Mapping[ReplicaId, str]]:
        yield self._given
        for ask in self._learned:
            yield ask()

    def address_of(self, replica_id: ReplicaId) -> str:
        """Return the address to dial; raises InvalidAddressError where none is known, or one that nobody can dial."""
        address = self.get(replica_id)
        if address is None:
            known = ", ".join(map(str, self)) or "none"
            raise InvalidAddressError(f"no address is known for replica {replica_id}; the table names {known}")
        check_address(address)
        return address


class ClientAddresses(Mapping[ReplicaId, str]):
    """Replica id -> ``HOST:PORT`` for clients: as in ``table``, but where a broker says that this is for replicas."""

    def __init__(
        self, table: Mapping[ReplicaId, str], brokers: Callable[[], Mapping[ReplicaId, BrokerRegistration]]
    ) -> None:
        self._table = table
        self._brokers = brokers

    def __getitem__(self, replica_id: ReplicaId) -> str:
        broker = self._brokers().get(replica_id)
        return broker.address if broker is not None and broker.peer_address else self._table[replica_id]

    def __iter__(self) -> Iterator[ReplicaId]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def check_address(address: str, *, port_min: int = 1) -> None:
    """Raise InvalidAddressError unless ``address`` is ``HOST:PORT`` (an IPv6 host in brackets)."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InvalidAddressError(f"{address!r} is not HOST:PORT (for example 127.0.0.1:9092)")
    if len(address) > ADDRESS_BYTES_MAX:
        raise InvalidAddressError(f"an address has at most {ADDRESS_BYTES_MAX} characters, not {len(address)}")
    if not port_min <= int(match["port"]) <= _PORT_MAX:
        raise InvalidAddressError(f"the port in {address!r} is not between {port_min} and {_PORT_MAX}")


def parse_entries(entries: Iterable[str]) -> dict[ReplicaId, str]:
    """Read ``ID=HOST:PORT`` entries; raises InvalidAddressError for a malformed or a repeated one."""
    table: dict[ReplicaId, str] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            raise InvalidAddressError(f"{entry!r} is not ID=HOST:PORT (for example 1=127.0.0.1:9092)")
        replica_id = ReplicaId(int(match["replica_id"]))
        if replica_id in table:
            raise InvalidAddressError(f"replica {replica_id} is named twice; give each replica one address")
        check_address(match["address"])
        table[replica_id] = match["address"]
    return table


def parse_voters(entries: Iterable[str]) -> VoterSet:
    """Read ``ID=HOST:PORT=DIRECTORY_ID`` entries; raises InvalidAddressError as above, also for a repeated disk."""
    voters: dict[ReplicaId, Voter] = {}
    for entry in entries:
        match = _VOTER.fullmatch(entry.strip())
        if match is None:
            raise InvalidAddressError(f"{entry!r} is not ID=HOST:PORT=DIRECTORY_ID")
        replica_id, directory_id = ReplicaId(int(match["replica_id"])), match["directory_id"]
        check_directory_id(directory_id)
        if replica_id in voters:
            raise InvalidAddressError(
                f"replica {replica_id} is named twice; give each replica one address and one disk"
            )
        if any(voter.directory_id == directory_id for voter in voters.values()):
            raise InvalidAddressError(f"directory id {directory_id} is named twice; every disk has one of its own")
        check_address(match["address"])
        voters[replica_id] = Voter(replica_id=replica_id, directory_id=directory_id, address=match["address"])
    return VoterSet.of(voters.values())


def check_directory_id(directory_id: str) -> None:
    """Raise InvalidAddressError unless a voter's disk can have this id."""
    if not is_directory_id(directory_id):
        raise InvalidAddressError(
            f"{directory_id!r} is no directory id, which is 22 characters of URL-safe base64; "
            "`replica random-id` prints a fresh one"
        )


def addresses_of(voters: VoterSet) -> dict[ReplicaId, str]:
    """Where these voters are reached, as far as the set says."""
    return {voter.replica_id: voter.address for voter in voters.voters if voter.address}
