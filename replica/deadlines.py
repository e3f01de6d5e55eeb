"""Many deadlines, of which the earliest comes first: who wants to be called when, and what expires by log time.

Owns nothing but the order: that of times, and of keys where those are equal. To set one costs O(log n). Source: the
lazy deletion idiom of ``heapq``.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Generic, TypeVar

from replica.ids import ReplicaId, TopicPartition

OUTDATED_MAX = 64
"""How many entries may be outdated beyond one for each key, before the heap is made anew."""

K = TypeVar("K", TopicPartition, ReplicaId, int, str)


class Deadlines(Generic[K]):
    """One deadline for each key, or none."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    def set(self, key: K, deadline_ms: int | None) -> None:
        """Let this be the one deadline of ``key``; none removes it, which need not be there."""
        if self._due.get(key) == deadline_ms:
            return
        self._due.pop(key, None)
        if deadline_ms is not None:
            self._due[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))
            if len(self._heap) > 2 * len(self._due) + OUTDATED_MAX:
                self._heap = [(due_ms, waiting) for waiting, due_ms in self._due.items()]
                heapq.heapify(self._heap)

    def at_ms(self, key: K) -> int:
        """The deadline of ``key``, which has one."""
        return self._due[key]

    def all_ms(self) -> Mapping[K, int]:
        """All deadlines as they are now: a copy, which nothing changes later."""
        return self._due.copy()

    @property
    def earliest_ms(self) -> int | None:
        """The earliest deadline of all."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)  # Outdated.
        return heap[0][0] if heap else None

    def take_due(self, now_ms: int, at_most: int | None = None) -> list[K]:
        """Remove and return the keys whose deadline has come, in the order of deadlines, or so many of them."""
        due: list[K] = []
        if not self._heap or self._heap[0][0] > now_ms:
            return due  # Nearly always.
        while (earliest_ms := self.earliest_ms) is not None and earliest_ms <= now_ms and len(due) != at_most:
            key = heapq.heappop(self._heap)[1]
            del self._due[key]
            due.append(key)
        return due
