"""What can be asked of the key-value store: one frozen class per command and per question.

Owns the commands, which stand in the log, and the requests, which one replica answers. Knows nothing of bytes
(``encoding``), nor of how they are performed (``machine``).

A command changes the store by one revision, or not at all. Get and Range are both: as requests they are read at one
replica, as commands or in a transaction they take their place in the log.

Source: etcd's ``rpc.proto``; compare-and-set and increment, which etcd spells as transactions, are commands here.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replica.machines.key_value.values import KeyRange, LeaseId


class Put(Struct, frozen=True, kw_only=True):
    """Let ``key`` be ``value``. It is attached to the lease that is given, and to no other; to none without one."""

    key: bytes
    value: bytes
    lease_id: LeaseId | None = None


class CompareAndSetValue(Struct, frozen=True, kw_only=True):
    """Put if the key's value is ``expected``; absent: if there is no such key."""

    key: bytes
    expected: bytes | None
    value: bytes
    lease_id: LeaseId | None = None


class CompareAndSetRevision(Struct, frozen=True, kw_only=True):
    """Put if the key was last changed at ``mod_revision``; 0: if there is no such key."""

    key: bytes
    mod_revision: int
    value: bytes
    lease_id: LeaseId | None = None


class Delete(Struct, frozen=True, kw_only=True):
    """Delete all keys in a range, at one revision."""

    keys: KeyRange


class Increment(Struct, frozen=True, kw_only=True):
    """Add to a number of 64 bits in decimal digits; a key that is not there counts as 0. Its lease stays."""

    key: bytes
    delta: int = 1


class Get(Struct, frozen=True, kw_only=True):
    """One key as it stands now, or as it stood at ``revision``."""

    key: bytes
    revision: int | None = None


class Range(Struct, frozen=True, kw_only=True):
    """The keys of a range in their order, now or at ``revision``; ``limit`` of them at most."""

    keys: KeyRange
    limit: int | None = None
    revision: int | None = None


class Operator(StrEnum):
    """How a comparison compares what is there with what it names."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    GREATER = ">"


class NumberField(StrEnum):
    """Which number of a key is compared. All are 0 for a key that is not there."""

    VERSION = "version"
    CREATE_REVISION = "create_revision"
    MOD_REVISION = "mod_revision"


class CompareValue(Struct, frozen=True, kw_only=True):
    """Compare a key's value. False for a key that is not there, whatever the operator (as in etcd)."""

    key: bytes
    operator: Operator
    value: bytes


class CompareNumber(Struct, frozen=True, kw_only=True):
    """Compare one of a key's numbers."""

    key: bytes
    field: NumberField
    operator: Operator
    number: int


Comparison = CompareValue | CompareNumber
Operation = Put | Delete | Increment | Get | Range
"""What a transaction may do."""


class Transaction(Struct, frozen=True, kw_only=True):
    """If all comparisons hold, do ``then``, else ``otherwise``: one after the other, all at one revision.

    An operation sees what those before it have done. No list may write one key twice.
    """

    comparisons: tuple[Comparison, ...]
    then: tuple[Operation, ...]
    otherwise: tuple[Operation, ...]


class GrantLease(Struct, frozen=True, kw_only=True):
    """Make a lease that lives for ``ttl_ms`` of log time."""

    ttl_ms: int


class KeepLeaseAlive(Struct, frozen=True, kw_only=True):
    """Let a lease live for its whole time from now on."""

    lease_id: LeaseId


class RevokeLease(Struct, frozen=True, kw_only=True):
    """End a lease, and delete its keys, at one revision."""

    lease_id: LeaseId


class Compact(Struct, frozen=True, kw_only=True):
    """Forget what was before ``revision``; what stood at it can still be read."""

    revision: int


Command = (
    Operation
    | CompareAndSetValue
    | CompareAndSetRevision
    | Transaction
    | GrantLease
    | KeepLeaseAlive
    | RevokeLease
    | Compact
)


class Watch(Struct, frozen=True, kw_only=True):
    """What has happened to the keys of a range from ``from_revision`` (inclusive) on.

    Revisions are told whole: the answer ends with the one that brings it to ``limit`` events. It says from which
    revision to go on.
    """

    keys: KeyRange
    from_revision: int
    limit: int | None = None


class DescribeLease(Struct, frozen=True, kw_only=True):
    """How long a lease has, and which keys are attached to it."""

    lease_id: LeaseId


class DescribeStore(Struct, frozen=True, kw_only=True):
    """How far the store goes back, and how much is in it."""


Request = Get | Range | Watch | DescribeLease | DescribeStore
