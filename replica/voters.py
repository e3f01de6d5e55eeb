"""Who votes in a quorum: voters with their disks, sets of them, and where in a log a set begins to count.

Owns the values and the arithmetic of majorities. Knows nothing of logs, elections or encodings.
A voter is a replica *on a disk*: who comes back with another directory is somebody else, because it may have forgotten
how it voted. Source: KIP-853 (``ReplicaKey``, ``VoterSet``).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable

from msgspec import Struct

from replica.bounds import ADDRESS_BYTES_MAX, DIRECTORY_ID_BYTES_MAX, Address, DirectoryId
from replica.ids import Offset, ReplicaId

DIRECTORY_ID_BYTES = 16
"""How many bytes a directory id stands for (Kafka's ``Uuid``)."""

_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_PORT_MAX = (1 << 16) - 1


def directory_id_bytes(directory_id: str) -> bytes:
    """Turn the text of a directory id, URL-safe base64 of 22 characters, into its bytes. Raises ValueError."""
    data = urlsafe_b64decode(directory_id + "==")
    if directory_id_of(data) != directory_id or len(data) != DIRECTORY_ID_BYTES:
        raise ValueError(f"{directory_id!r} is no directory id: that is 16 bytes in URL-safe base64, 22 characters")
    return data


def directory_id_of(data: bytes) -> str:
    """Turn the bytes of a directory id into its text."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def is_directory_id(directory_id: str | None) -> bool:
    """Tell whether this is the text of a directory id that a voter can have."""
    try:
        return directory_id is not None and any(directory_id_bytes(directory_id))
    except ValueError:
        return False


def is_directory_name(directory_id: str | None) -> bool:
    """Tell whether this can name the disk of a replica at all, which need not be one that votes by it."""
    return directory_id is None or len(directory_id) <= DIRECTORY_ID_BYTES_MAX


def is_address(address: str) -> bool:
    """Tell whether this is ``HOST:PORT`` (an IPv6 host in brackets), and short enough to be kept in a log."""
    match = _ADDRESS.fullmatch(address)
    return match is not None and len(address) <= ADDRESS_BYTES_MAX and 0 < int(match["port"]) <= _PORT_MAX


class ReplicaKey(Struct, frozen=True, order=True):
    """A replica on a disk. ``directory_id`` is absent where any disk of the replica is meant, or none was told."""

    replica_id: ReplicaId
    directory_id: DirectoryId | None


class Voter(Struct, frozen=True, kw_only=True):
    """One voter: ``address`` (``HOST:PORT``) is where others reach it; empty where that is configured elsewhere."""

    replica_id: ReplicaId
    directory_id: DirectoryId | None
    address: Address = ""

    @property
    def key(self) -> ReplicaKey:
        """The voter without its address."""
        return ReplicaKey(self.replica_id, self.directory_id)


class VoterSet(Struct, frozen=True):
    """Voters in ascending order of their ids, no id twice. May be empty: of such a log nobody is known to vote."""

    voters: tuple[Voter, ...]

    def __post_init__(self) -> None:
        ids = self.ids
        assert list(ids) == sorted(set(ids)), ids

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """Put voters, no id twice, into order."""
        return cls(tuple(sorted(voters, key=lambda voter: voter.replica_id)))

    @property
    def ids(self) -> tuple[ReplicaId, ...]:
        """The voters' ids, ascending."""
        return tuple([voter.replica_id for voter in self.voters])

    @property
    def majority(self) -> int:
        """How many voters are more than half of them."""
        return len(self.voters) // 2 + 1

    def find(self, replica_id: ReplicaId) -> Voter | None:
        """Find the voter of this id, on whatever disk."""
        for voter in self.voters:
            if voter.replica_id == replica_id:
                return voter
        return None

    def has(self, key: ReplicaKey) -> bool:
        """Tell whether this replica votes on this disk."""
        voter = self.find(key.replica_id)
        return voter is not None and voter.directory_id == key.directory_id

    def with_voter(self, voter: Voter) -> VoterSet:
        """Make the set with one voter more; its id must not be there."""
        return VoterSet.of((*self.voters, voter))

    def without(self, replica_id: ReplicaId) -> VoterSet:
        """Make the set without the voter of this id."""
        return VoterSet(tuple(voter for voter in self.voters if voter.replica_id != replica_id))


class VoterEntry(Struct, frozen=True, kw_only=True):
    """``voters`` count from the record at ``offset`` on, committed or not, until a later entry."""

    offset: Offset
    voters: VoterSet
