"""Which address to dial for which replica.

Owns the table that every dial goes through: the voters' advertised addresses, those under which other brokers have
registered, and over both, entry by entry, the table given at start, so that each directed link can be led through a
proxy. Knows nothing of connections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from replica.ids import ReplicaId

_ENTRY = re.compile(r"(?P<replica_id>\d+)=(?P<address>.*)", re.DOTALL)
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
_PORT_MAX = 65535


class InvalidAddressError(ValueError):
    """An address, or an entry of an address table, that cannot be used; the message says what it should look like."""


def _nobody() -> Mapping[ReplicaId, str]:
    return {}


class AddressTable(Mapping[ReplicaId, str]):
    """Replica id -> ``HOST:PORT`` to dial, in order of replica id. ``overrides`` win over ``advertised``.

    ``registered`` is asked anew every time: who is in neither table is dialled where it says that it is.
    """

    def __init__(
        self,
        *,
        advertised: Mapping[ReplicaId, str],
        overrides: Mapping[ReplicaId, str],
        registered: Callable[[], Mapping[ReplicaId, str]] = _nobody,
    ) -> None:
        self._given = {**advertised, **overrides}
        self._registered = registered
        for address in self._given.values():
            check_address(address)

    def __getitem__(self, replica_id: ReplicaId) -> str:
        return self._given[replica_id] if replica_id in self._given else self._registered()[replica_id]

    def __iter__(self) -> Iterator[ReplicaId]:
        return iter(sorted({*self._registered(), *self._given}))

    def __len__(self) -> int:
        return len({*self._registered(), *self._given})

    def address_of(self, replica_id: ReplicaId) -> str:
        """Return the address to dial; raises InvalidAddressError where none is known, or one that nobody can dial."""
        address = self.get(replica_id)
        if address is None:
            known = ", ".join(map(str, self)) or "none"
            raise InvalidAddressError(f"no address is known for replica {replica_id}; the table names {known}")
        check_address(address)
        return address


def check_address(address: str, *, port_min: int = 1) -> None:
    """Raise InvalidAddressError unless ``address`` is ``HOST:PORT`` (an IPv6 host in brackets)."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InvalidAddressError(f"{address!r} is not HOST:PORT (for example 127.0.0.1:9092)")
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
