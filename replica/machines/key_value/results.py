"""What the key-value store answers: one frozen class per result, and the revision at which it was given.

Owns the results and the closed set of errors. Knows nothing of bytes (``encoding``).

Source: etcd's ``rpc.proto``; ``ErrCompacted``, ``ErrFutureRev``, ``ErrLeaseNotFound``, ``ErrGRPCDuplicateKey``.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replica.machines.key_value.values import KeyValue, LeaseId, Tombstone


class KeyValueError(StrEnum):
    """Why a command was not done, or a question not answered. Nothing has changed."""

    EMPTY_KEY = "EMPTY_KEY"
    KEY_TOO_LARGE = "KEY_TOO_LARGE"
    VALUE_TOO_LARGE = "VALUE_TOO_LARGE"
    TOO_MANY_OPERATIONS = "TOO_MANY_OPERATIONS"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    """A list of a transaction writes a key twice."""
    NOT_A_NUMBER = "NOT_A_NUMBER"
    """The value to increment is no number of 64 bits, or the sum is none."""
    LEASE_NOT_FOUND = "LEASE_NOT_FOUND"
    TOO_MANY_LEASES = "TOO_MANY_LEASES"
    INVALID_TTL = "INVALID_TTL"
    FUTURE_REVISION = "FUTURE_REVISION"
    """The store has not come to this revision."""
    ANSWER_TOO_LARGE = "ANSWER_TOO_LARGE"
    """The keys that a transaction gets hold too many bytes together."""


class PutResult(Struct, frozen=True, kw_only=True):
    """The key is as it was put, at the revision of the answer."""


class CompareAndSetResult(Struct, frozen=True, kw_only=True):
    """Whether the key was set, and in either case what stands there now."""

    succeeded: bool
    current: KeyValue | None


class DeleteResult(Struct, frozen=True, kw_only=True):
    """How many keys were deleted; without any there is no new revision."""

    deleted: int


class IncrementResult(Struct, frozen=True, kw_only=True):
    """The sum."""

    number: int


class GetResult(Struct, frozen=True, kw_only=True):
    """The key, if it is there."""

    found: KeyValue | None


class RangeResult(Struct, frozen=True, kw_only=True):
    """Keys in their order; ``more`` tells whether the range goes on behind them."""

    found: tuple[KeyValue, ...]
    more: bool


class TransactionResult(Struct, frozen=True, kw_only=True):
    """Whether all comparisons held, and the results of the list that was done, one each."""

    succeeded: bool
    results: tuple[OperationResult, ...]


class LeaseResult(Struct, frozen=True, kw_only=True):
    """A lease was granted, or kept alive: it has ``ttl_ms`` from now on."""

    lease_id: LeaseId
    ttl_ms: int


class CompactResult(Struct, frozen=True, kw_only=True):
    """What was before is forgotten."""


class WatchResult(Struct, frozen=True, kw_only=True):
    """Changes in the order of revisions, within one in the order of keys. Go on from ``next_revision``."""

    events: tuple[Event, ...]
    next_revision: int


class DescribeLeaseResult(Struct, frozen=True, kw_only=True):
    """What a lease was granted, what it has left, and its keys in their order."""

    ttl_ms: int
    left_ms: int
    keys: tuple[bytes, ...]


class DescribeStoreResult(Struct, frozen=True, kw_only=True):
    """``compact_revision`` is the first that can be read, 0 if nothing was forgotten; ``keys`` and ``leases`` count."""

    compact_revision: int
    keys: int
    leases: int


class Compacted(Struct, frozen=True, kw_only=True):
    """The revision that was asked for is forgotten: ``compact_revision`` is the first that is not."""

    compact_revision: int


class Rejected(Struct, frozen=True):
    """Not done, not answered, and why."""

    error: KeyValueError
    message: str


Event = KeyValue | Tombstone
"""A key was put, or deleted."""
OperationResult = PutResult | DeleteResult | IncrementResult | GetResult | RangeResult
Failure = Compacted | Rejected
Result = (
    OperationResult
    | CompareAndSetResult
    | TransactionResult
    | LeaseResult
    | CompactResult
    | WatchResult
    | DescribeLeaseResult
    | DescribeStoreResult
    | Failure
)


class Response(Struct, frozen=True, kw_only=True):
    """A result, and the store's revision after it: what a command has changed, it changed there."""

    revision: int
    result: Result
