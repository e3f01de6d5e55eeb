"""A histogram in plain numbers: to count a value is an increment and an addition, whatever reads it later.

Owns the counts, and how Prometheus wants them: each bucket with all below it. Objects of ``prometheus_client`` take a
lock and look labels up at each value; here that waits until somebody asks for the page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client.core import HistogramMetricFamily


class Histogram:
    """How many values there were up to each of the ``bounds``, which ascend, and above the last; and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Show it as one metric of a family. For any thread: the counts are read at once."""
        counts, total, buckets = list(self._counts), 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric(labels, buckets, self._sum)
