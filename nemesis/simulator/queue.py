"""Virtual time: what will happen, in the order in which it will.

Owns the one clock of a simulated world, in microseconds, and its agenda. Two things due at the same instant happen in
the order in which they were put down, so that a run is a function of its seed.

A replica has a ``NodeClock`` of its own: it runs a little fast or slow, started somewhere, sometimes jumps ahead or
stands still.
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


PPM = 1_000_000
NEVER_US = 1 << 62
"""An instant that no world comes to."""


class NodeClock:
    """Milliseconds as one replica counts them. ``drift_ppm`` is how many microseconds a second it gains."""

    def __init__(self, *, offset_ms: int, drift_ppm: int) -> None:
        self._offset_us = offset_ms * 1000
        self._drift_ppm = drift_ppm
        self._stands_at_us: int | None = None
        """What it shows while it stands still."""
        self._stopped_by: set[int] = set()
        """The keys of those who want it to stand still."""

    def now_ms(self, now_us: int) -> int:
        """What the clock shows at ``now_us`` of the world."""
        return self._shown_us(now_us) // 1000

    def _shown_us(self, now_us: int) -> int:
        return self._running_us(now_us) + self._offset_us if self._stands_at_us is None else self._stands_at_us

    def _running_us(self, now_us: int) -> int:
        return now_us + now_us * self._drift_ppm // PPM

    def world_us(self, local_ms: int) -> int:
        """The first instant of the world at which the clock shows ``local_ms``, rounded up; perhaps in the past.

        While it stands still, what it does not show yet it never will.
        """
        if self._stands_at_us is not None:
            return NEVER_US if local_ms * 1000 > self._stands_at_us else 0
        since_us = local_ms * 1000 - self._offset_us
        return -(-since_us * PPM // (PPM + self._drift_ppm)) + 1

    def jump(self, by_ms: int) -> None:
        """Let the clock leap ahead."""
        assert by_ms >= 0, by_ms
        self._offset_us += by_ms * 1000
        if self._stands_at_us is not None:
            self._stands_at_us += by_ms * 1000

    def stop(self, key: int, now_us: int) -> None:
        """Let the clock stand still until ``go_on(key)``."""
        self._stopped_by.add(key)
        self._stands_at_us = self._shown_us(now_us)

    def go_on(self, key: int, now_us: int) -> None:
        """Let the clock count on from what it shows, if nobody else wants it to stand still."""
        self._stopped_by.discard(key)
        if self._stopped_by:
            return
        self._offset_us = self._shown_us(now_us) - self._running_us(now_us)
        self._stands_at_us = None
