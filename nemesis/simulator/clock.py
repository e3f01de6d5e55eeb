"""A replica's own clock: it runs a little fast or slow, started somewhere, and sometimes jumps ahead.

Owns the translation between the world's time and the replica's. The clock is monotonic, as a server's is: it never goes
back. What a jump is in the real world: a machine that was suspended, or a process that was not scheduled.
"""

from __future__ import annotations

PPM = 1_000_000


class NodeClock:
    """Milliseconds as one replica counts them. ``drift_ppm`` is how many microseconds a second it gains."""

    def __init__(self, *, offset_ms: int, drift_ppm: int) -> None:
        self._offset_us = offset_ms * 1000
        self._drift_ppm = drift_ppm

    def now_ms(self, now_us: int) -> int:
        """What the clock shows at ``now_us`` of the world."""
        return (now_us + now_us * self._drift_ppm // PPM + self._offset_us) // 1000

    def world_us(self, local_ms: int) -> int:
        """The first instant of the world at which the clock shows ``local_ms``, rounded up; perhaps in the past."""
        since_us = local_ms * 1000 - self._offset_us
        return -(-since_us * PPM // (PPM + self._drift_ppm)) + 1

    def jump(self, by_ms: int) -> None:
        """Let the clock leap ahead."""
        assert by_ms >= 0, by_ms
        self._offset_us += by_ms * 1000
