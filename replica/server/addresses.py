"""Which address to dial for which replica.

Owns the table that every dial goes through: the voters' advertised addresses, overridden entry by entry by the table
given at start, so that each directed link can be led through a proxy. Knows nothing of connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from replica.ids import ReplicaId

_ENTRY = re.compile(r"(?P<replica_id>\d+)=(?P<address>.*)", re.DOTALL)
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
_PORT_MAX = 65535


class InvalidAddressError(ValueError):
    """An address, or an entry of an address table, that cannot be used; the message says what it should look like."""


class AddressTable:
    """Replica id -> ``HOST:PORT`` to dial. ``overrides`` win over ``advertised``."""

    def __init__(self, *, advertised: Mapping[ReplicaId, str], overrides: Mapping[ReplicaId, str]) -> None:
        self._addresses = {**advertised, **overrides}
        for address in self._addresses.values():
            check_address(address)

    def address_of(self, replica_id: ReplicaId) -> str:
        """Return the address to dial; raises InvalidAddressError for a replica that the table does not name."""
        address = self._addresses.get(replica_id)
        if address is None:
            known = ", ".join(str(known_id) for known_id in sorted(self._addresses)) or "none"
            raise InvalidAddressError(f"no address is known for replica {replica_id}; the table names {known}")
        return address

    def as_mapping(self) -> dict[ReplicaId, str]:
        """Return the whole table, in order of replica id."""
        return dict(sorted(self._addresses.items()))


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
