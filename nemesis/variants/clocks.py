"""A replica's clocks that can be set while it runs: their rate, leaps ahead, and the wall clock's offset.

Owns what settings mean for a clock that counts already. They lie in a file that is looked for whenever somebody asks
for the time, so that a running replica can be told; no wait is longer than until the next look. Everything that the
core waits for goes by these clocks; how long an answer of the network is waited for goes by the machine's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nemesis.faults.dials import TRUE_PERCENT, read_dials

LOOK_S = 0.05
_NS_PER_MS = 1_000_000


class DialledClocks:
    """Clocks by the settings at ``path``. The timers' clock begins at the machine's, whatever leaps there were."""

    def __init__(
        self,
        path: Path,
        count_ns: Callable[[], int] = time.monotonic_ns,
        date_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = path
        self._count_ns = count_ns
        self._date_ns = date_ns
        self._stamp = self._looked()
        self._dials = read_dials(path)
        self._since_ns = self._counted_ns = count_ns()

    def monotonic_ms(self) -> int:
        """Return what is counted by the settings."""
        self._look()
        return self._now_ns() // _NS_PER_MS

    def unix_ms(self) -> int:
        """Return the machine's time of day, and what the settings add to it."""
        self._look()
        return self._date_ns() // _NS_PER_MS + self._dials.wall_ms

    def seconds_until(self, deadline_ms: int) -> float:
        """Until then by the present rate, or until the next look."""
        left_ms = max(0, deadline_ms - self.monotonic_ms())
        percent = self._dials.percent
        return min(LOOK_S, left_ms / 1000 * TRUE_PERCENT / percent) if percent else LOOK_S

    def _now_ns(self) -> int:
        """What was counted by the settings before, and since then by these."""
        return self._counted_ns + (self._count_ns() - self._since_ns) * self._dials.percent // TRUE_PERCENT

    def _look(self) -> None:
        """Go by the settings that lie there now, from now on."""
        stamp = self._looked()
        if stamp == self._stamp:
            return
        before, self._stamp = self._dials, stamp
        self._counted_ns, self._since_ns = self._now_ns(), self._count_ns()
        self._dials = read_dials(self._path)
        self._counted_ns += max(0, self._dials.leaps_ms - before.leaps_ms) * _NS_PER_MS

    def _looked(self) -> tuple[int, int] | None:
        """What tells one file from the next."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns
