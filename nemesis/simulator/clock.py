"""A replica's own clock: it runs a little fast or slow, started somewhere, sometimes jumps ahead or stands still.

Owns the translation between the world's time and the replica's. The clock is monotonic, as a server's is: it never goes
back. What a jump is in the real world: a machine that was suspended, or a process that was not scheduled. Where a clock
does not count the time of a suspension, it stands still instead.
"""

from __future__ import annotations

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
