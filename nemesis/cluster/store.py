"""The small protocol through which a run uses the objects of a replicated state machine, whatever it is.

Owns the words between the workloads on objects and a store of keys and numbers. Imports neither our replicas nor our
client, so that another store can be put to the same test. Failures are those of ``system``: NotDoneError and
UnknownOutcomeError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Verb(StrEnum):
    """What a system's clients may be able to do: a workload says which of it it needs, a system which of it it has."""

    APPEND = "append"
    """And poll: the clients are those of logs (``LogClient``)."""
    GET = "get"
    GET_ALL = "get-all"
    PUT = "put"
    COMPARE_AND_SET = "compare-and-set"
    LEND = "lend"
    """A compare-and-set with ``ttl_ms``."""
    DELETE_IF = "delete-if"
    INCREMENT = "increment"
    PUT_ALL_IF = "put-all-if"


ON_OBJECTS = frozenset(Verb) - {Verb.APPEND}
"""All that a ``StoreClient`` can do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a key holds, and the revision of the store at which it came to hold that; absent where none is told."""

    value: int
    changed_at: int | None

    @property
    def revision(self) -> int:
        """``changed_at``, of a store that tells it."""
        assert self.changed_at is not None, f"nobody told at which revision a key came to hold {self.value}"
        return self.changed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the store answered.

    ``revision`` is the place of the operation in the one order of all: what it changed, it changed there; what changes
    nothing has seen all up to there. It is absent of a store that claims no such order. ``done`` is false where a
    condition did not hold. ``found`` is what was seen, by key; keys that are not there are absent.
    """

    revision: int | None
    done: bool = True
    found: Mapping[str, Found] = field(default_factory=dict)


class StoreClient(Protocol):
    """A client of the store, for one process of the workload. All calls raise NotDoneError or UnknownOutcomeError."""

    async def get(self, key: str) -> Answer:
        """Read one key."""

    async def get_all(self, prefix: str) -> Answer:
        """Read all keys that begin so, at one revision."""

    async def put(self, key: str, value: int) -> Answer:
        """Write one key."""

    async def compare_and_set(self, key: str, expected: int | None, value: int, *, ttl_ms: int | None = None) -> Answer:
        """Write a key if it holds what is expected, None if it is not there; else tell what it holds.

        With ``ttl_ms`` the key goes away by itself, so long after this call began at the earliest.
        """

    async def delete_if(self, key: str, expected: int) -> Answer:
        """Delete a key if it holds what is expected; else tell what it holds."""

    async def increment(self, key: str, amount: int) -> Answer:
        """Add to a key, of which one that is not there holds 0; tell the sum."""

    async def put_all_if(self, prefix: str, unchanged_since: Mapping[str, int], values: Mapping[str, int]) -> Answer:
        """Write keys at one revision if those of ``unchanged_since`` were last changed then; 0: are not there.

        Else tell what all keys hold that begin with ``prefix``.
        """

    async def close(self) -> None:
        """Give the session and the connections back."""
