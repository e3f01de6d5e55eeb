"""Where calls wait for something to happen, each at most until its own deadline (Kafka's word for it).

Owns the order of deadlines; knows nothing of what the calls wait for. Bounded: ``is_full`` is asked before ``add``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from replica.ids import CallId


class Parked(Protocol):
    """A call that waits."""

    @property
    def call_id(self) -> CallId:
        """Which call."""

    @property
    def deadline_ms(self) -> int:
        """When it gives up waiting."""


P = TypeVar("P", bound=Parked)


class Purgatory(Generic[P]):
    """Parked calls in the order in which they came."""

    def __init__(self, capacity: int, size_bytes: Callable[[P], int] = lambda _: 0) -> None:
        self.size_bytes = 0
        """What the calls that wait hold in all, by the measure that was given."""
        self._capacity = capacity
        self._size_bytes = size_bytes
        self._parked: dict[CallId, P] = {}
        self._deadlines: list[tuple[int, CallId]] = []

    def __len__(self) -> int:
        return len(self._parked)

    def __iter__(self) -> Iterator[P]:
        return iter(self._parked.values())

    @property
    def is_full(self) -> bool:
        """Whether another call would be one too many."""
        return len(self._parked) >= self._capacity

    def add(self, parked: P) -> None:
        """Let ``parked`` wait."""
        assert not self.is_full, self._capacity
        assert parked.call_id not in self._parked, parked.call_id
        self._parked[parked.call_id] = parked
        self.size_bytes += self._size_bytes(parked)
        if len(self._deadlines) > 2 * self._capacity:
            # Most of these are of calls that have left; the heap is made anew so that it stays bounded as well.
            self._deadlines = [(waiting.deadline_ms, call_id) for call_id, waiting in self._parked.items()]
            heapq.heapify(self._deadlines)
            return
        heapq.heappush(self._deadlines, (parked.deadline_ms, parked.call_id))

    def take(self, call_id: CallId) -> P:
        """Remove and return one call, which waits."""
        taken = self._remove(call_id)
        self._forget_deadlines_when_empty()
        return taken

    @property
    def deadline_ms(self) -> int | None:
        """The earliest deadline of all; it may be of a call that has left, which only costs a needless look."""
        return self._deadlines[0][0] if self._deadlines else None

    def take_expired(self, now_ms: int) -> list[P]:
        """Remove and return the calls whose deadline has come."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, call_id = heapq.heappop(self._deadlines)
            if call_id in self._parked:
                expired.append(self._remove(call_id))
        return expired

    def take_while(self, condition: Callable[[P], bool]) -> list[P]:
        """Remove and return the oldest calls up to the first that does not meet ``condition``."""
        taken = []
        for parked in list(self._parked.values()):
            if not condition(parked):
                break
            taken.append(self._remove(parked.call_id))
        self._forget_deadlines_when_empty()
        return taken

    def take_if(self, condition: Callable[[P], bool]) -> list[P]:
        """Remove and return all calls that meet ``condition``."""
        taken = [parked for parked in self._parked.values() if condition(parked)]
        for parked in taken:
            self._remove(parked.call_id)
        self._forget_deadlines_when_empty()
        return taken

    def take_all(self) -> list[P]:
        """Remove and return all calls."""
        return self.take_if(lambda _: True)

    def _remove(self, call_id: CallId) -> P:
        removed = self._parked.pop(call_id)
        self.size_bytes -= self._size_bytes(removed)
        return removed

    def _forget_deadlines_when_empty(self) -> None:
        if not self._parked:
            self._deadlines.clear()
