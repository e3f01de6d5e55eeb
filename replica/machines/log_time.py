"""Log time: the only clock of a state machine, and how a leader stamps it.

Owns the arithmetic of stamps. Knows no clock: its caller says what time it is. Used by whoever leads the log.

Log time runs while somebody leads and stands still while nobody does. So what was given a time to live has it in full
even if the cluster was away for an hour, as etcd extends leases with a new leader; and no leader's wall clock, however
wrong, can take log time years ahead, which would expire everything and then stop the time of all later leaders.
"""

from __future__ import annotations

LOG_TIME_MS_MAX = 1 << 62
"""Log time goes no further, so that what expires some time later still has a number of 64 bits."""


class LeaderClock:
    """The stamps of one leadership: log time as it was when that began, and what has passed since.

    A leader makes one when it has applied everything before its epoch, since log time is then that of all its log.
    ``now_ms`` is of a monotonic clock.
    """

    def __init__(self, *, log_time_ms: int, now_ms: int) -> None:
        assert log_time_ms >= 0, log_time_ms
        self._log_time_ms = log_time_ms
        self._since_ms = now_ms

    def stamp(self, now_ms: int) -> int:
        """Log time at ``now_ms``, in milliseconds."""
        assert now_ms >= self._since_ms, (now_ms, self._since_ms)
        return self._log_time_ms + (now_ms - self._since_ms)
