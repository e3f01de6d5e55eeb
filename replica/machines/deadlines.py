"""What ends when: ids with a log time at which each expires.

Owns the order of deadlines. Knows nothing of what expires. Setting, removing and expiring one cost O(log n).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from sortedcontainers import SortedList

Id = TypeVar("Id", int, str)


class Deadlines(Generic[Id]):
    """A deadline for each id; it has expired when log time has reached it."""

    def __init__(self) -> None:
        self._at: dict[Id, int] = {}
        self._ordered = SortedList()

    def set(self, identifier: Id, at_ms: int) -> None:
        """Let ``identifier`` expire at ``at_ms``, and not when it would have."""
        if self._at.get(identifier) == at_ms:  # heard of twice at one log time
            return
        self.remove(identifier)
        self._at[identifier] = at_ms
        self._ordered.add((at_ms, identifier))

    def remove(self, identifier: Id) -> None:
        """Let it expire no more; it need not be there."""
        at_ms = self._at.pop(identifier, None)
        if at_ms is not None:
            self._ordered.remove((at_ms, identifier))

    def at_ms(self, identifier: Id) -> int:
        """When ``identifier``, which is there, expires."""
        return self._at[identifier]

    def all_ms(self) -> Mapping[Id, int]:
        """When each expires, as it is now: a copy, which nothing changes later."""
        return self._at.copy()

    def expire(self, time_ms: int) -> list[Id]:
        """Take out what has expired by ``time_ms``: in the order of deadlines, and of ids where those are equal."""
        expired: list[Id] = []
        while self._ordered and self._ordered[0][0] <= time_ms:
            _, identifier = self._ordered.pop(0)
            del self._at[identifier]
            expired.append(identifier)
        return expired
