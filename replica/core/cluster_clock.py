"""What time of day it is for a broker: the cluster's, which no single machine can put wrong.

Owns the arithmetic: readings of this machine's clock, what the controller says that the brokers' clocks agree on, and
how long that has gone on as time does. Between two readings the monotonic clock, which nobody sets, carries both on.
Used where records bear times and where they are old; nothing of the protocol's safety hangs on it. Ours: in Kafka each
broker believes its own clock.
"""

from __future__ import annotations

from collections.abc import Iterable


class ClusterClock:
    """Times of day are milliseconds since 1970. A step of more than ``skew_max_ms`` between two answers is a jump."""

    def __init__(self, *, skew_max_ms: int) -> None:
        self._skew_max_ms = skew_max_ms
        self._own_offset_ms: int | None = None
        self._cluster_offset_ms: int | None = None
        self._jumped_at_ms: int | None = None

    def on_read(self, unix_ms: int, now_ms: int) -> None:
        """Take what this machine's own clock shows."""
        self._own_offset_ms = unix_ms - now_ms

    def on_told(self, unix_ms: int, now_ms: int) -> None:
        """Take what time it is for the cluster."""
        before, self._cluster_offset_ms = self._cluster_offset_ms, unix_ms - now_ms
        if before is not None and abs(self._cluster_offset_ms - before) > self._skew_max_ms:
            self._jumped_at_ms = now_ms

    def own_unix_ms(self, now_ms: int) -> int | None:
        """What this machine's own clock shows; absent before anybody has looked."""
        return None if self._own_offset_ms is None else now_ms + self._own_offset_ms

    def unix_ms(self, now_ms: int) -> int | None:
        """What time it is: the cluster's, and this machine's own until the controller has told that."""
        offset_ms = self._own_offset_ms if self._cluster_offset_ms is None else self._cluster_offset_ms
        return None if offset_ms is None else now_ms + offset_ms

    def times_ms(self, now_ms: int, *, doubt_ms: int) -> tuple[int, ...]:
        """What time it may be, the likeliest first: for ``doubt_ms`` after a jump this machine's own, then the other.

        Nothing if nobody has said what time it is.
        """
        told_ms, own_ms, steady_ms = self.unix_ms(now_ms), self.own_unix_ms(now_ms), self.steady_ms(now_ms)
        if told_ms is None:
            return ()
        if own_ms is None or steady_ms is None or steady_ms >= doubt_ms:
            return (told_ms,)
        return own_ms, told_ms

    def steady_ms(self, now_ms: int) -> int | None:
        """How long the cluster's time has gone on without a jump; absent if it is not known, or has never jumped."""
        return None if self._jumped_at_ms is None else now_ms - self._jumped_at_ms

    @property
    def is_known(self) -> bool:
        """Whether the controller has told the cluster's time."""
        return self._cluster_offset_ms is not None


def agreed_offset_ms(offsets_ms: Iterable[int], *, brokers: int) -> int | None:
    """The offset on which clocks agree: the lower median, so that of two the one that is ahead is not believed.

    Absent while no more than half of ``brokers`` have told theirs: the few might be those that are wrong.
    """
    told = sorted(offsets_ms)
    if not told or 2 * len(told) <= brokers:
        return None
    return told[(len(told) - 1) // 2]
