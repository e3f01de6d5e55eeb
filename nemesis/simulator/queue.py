"""Virtual time: what will happen, in the order in which it will.

Owns the one clock of a simulated world, in microseconds, and its agenda. Two things due at the same instant happen in
the order in which they were put down, so that a run is a function of its seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]

US_PER_MS = 1000
US_PER_S = 1_000_000


class EventQueue:
    """Actions by the time at which they are due."""

    def __init__(self) -> None:
        self.now_us = 0
        self.happened = 0
        """How many actions have been taken."""
        self._due: list[tuple[int, int, Action]] = []
        self._sequence = 0

    def at(self, due_us: int, action: Action) -> None:
        """Let ``action`` happen at ``due_us``; what is due in the past happens next."""
        self._sequence += 1
        heapq.heappush(self._due, (due_us if due_us > self.now_us else self.now_us, self._sequence, action))

    def after(self, delay_us: int, action: Action) -> None:
        """Let ``action`` happen ``delay_us`` from now."""
        self.at(self.now_us + delay_us, action)

    def run_until(self, end_us: int, stop: Callable[[], bool] | None = None) -> bool:
        """Let time pass until ``end_us``, or until ``stop`` holds after some action; tell whether ``stop`` held."""
        due = self._due
        while due and due[0][0] <= end_us:
            self.now_us, _, action = heapq.heappop(due)
            self.happened += 1
            action()
            if stop is not None and stop():
                return True
        self.now_us = max(self.now_us, end_us)
        return False
