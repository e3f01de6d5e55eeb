"""What the store holds, how keys are selected, and how large things may be.

Owns the values that commands and replies share. Knows nothing of what is done with them.

Source: etcd's ``mvccpb.KeyValue``, and its ``--max-txn-ops``.
"""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

LeaseId = NewType("LeaseId", int)
"""One lease for ever: 1 or more, and counted up."""

KEY_BYTES_MAX = 4_096
VALUE_BYTES_MAX = 1 << 20
OPERATIONS_MAX = 128
"""How many comparisons, and how many operations in either list, a transaction may have."""
RANGE_KEYS_MAX = 10_000
ANSWER_BYTES_MAX = 1 << 20
"""How many bytes of keys and values one range, watch or transaction answers with; what exceeds it is the last of it."""
WATCH_CHANGES_MAX = 100_000
"""How many changes are looked at for one answer."""
LEASES_MAX = 100_000
LEASE_TTL_MS_MAX = 365 * 86_400_000


class KeyValue(Struct, frozen=True, kw_only=True):
    """A key as it stands at some revision.

    ``create_revision`` is that of its last creation, ``mod_revision`` that of its last change, and ``version`` counts
    the changes since its creation, from 1. Its lease, if it has one, takes it along when it ends.
    """

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease_id: LeaseId | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of key and value."""
        return len(self.key) + len(self.value)


class Tombstone(Struct, frozen=True, kw_only=True):
    """A key has been deleted at ``mod_revision``."""

    key: bytes
    mod_revision: int

    @property
    def size_bytes(self) -> int:
        """The bytes of the key."""
        return len(self.key)


class KeyRange(Struct, frozen=True, kw_only=True):
    """The keys from ``start`` (inclusive) to ``end`` (exclusive) in the order of bytes; without an end, to the last."""

    start: bytes
    end: bytes | None

    def contains(self, key: bytes) -> bool:
        """Tell whether a key is in the range."""
        return self.start <= key and (self.end is None or key < self.end)


ALL_KEYS = KeyRange(start=b"", end=None)


def prefix(start: bytes) -> KeyRange:
    """All keys that begin with ``start``."""
    stem = start.rstrip(b"\xff")
    return KeyRange(start=start, end=stem[:-1] + bytes([stem[-1] + 1]) if stem else None)


def single(key: bytes) -> KeyRange:
    """One key and no other."""
    return KeyRange(start=key, end=key + b"\0")
