"""Whether a run drifts: each quantity of each replica, within the lives of its processes and from life to life.

Owns the quantities, from when on each is judged, and how much of a rise is noise. What could not be judged is unknown,
and never called steady.

Whether numbers rise with time, and go on rising: by the pairs of them, so that no outlier counts for much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nemesis.drift.series import Floats, Life, Series

WARM_UP_WINDOWS = 4
"""So many windows of each life, and of the run, count for nothing: caches and buffers fill."""
WINDOWS_MIN = 8
"""Fewer of one life can show no trend: if each is above the one before, that is just certain."""
LIVES_MIN = 5
"""Fewer processes at the same age can rise from one to the next by chance."""


class Drift(StrEnum):
    """What can be said of a quantity, and of a run."""

    NONE = "no drift"
    FOUND = "drift"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A rise counts that is both ``floor`` and ``share`` of the median, over the time that was judged, or more.

    ``scale`` is how many of the unit that people read one is.
    """

    words: str
    unit: str
    floor: float
    share: float
    scale: float = 1.0
    is_of_process: bool = True


QUANTITIES = {
    "resident_bytes": Quantity(words="resident memory", unit="MiB", floor=4.0, share=0.05, scale=2**-20),
    "descriptors": Quantity(words="open descriptors", unit="", floor=8.0, share=0.1),
    "threads": Quantity(words="threads", unit="", floor=4.0, share=0.1),
    "processor": Quantity(words="processor", unit="% of a core", floor=5.0, share=0.5, scale=100.0),
    "data_bytes": Quantity(words="disk", unit="MiB", floor=0.5, share=0.25, scale=2**-20, is_of_process=False),
    "latency_p50_ms": Quantity(words="median latency", unit="ms", floor=2.0, share=0.5, is_of_process=False),
    "latency_p99_ms": Quantity(
        words="99th percentile of latency", unit="ms", floor=50.0, share=1.0, is_of_process=False
    ),
}
"""What is judged, by the name of its series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is known of one quantity of one replica, or of the cluster, in its unit; ``trend`` is of what was compared:
    numbers of one life, or those of several lives at the same age."""

    quantity: str
    node: int | None
    compared: str
    drift: Drift
    trend: Trend | None
    windows: int

    @property
    def told(self) -> str:
        """One line."""
        quantity = QUANTITIES[self.quantity]
        whose = quantity.words if self.node is None else f"{quantity.words} of replica {self.node}"
        if self.trend is None:
            return f"{whose}, {self.compared}: {self.drift}: {self.windows} windows are too few"
        unit = f" {quantity.unit}" if quantity.unit else ""
        rise = f"{self.trend.growth:+.3g}{unit} in {self.trend.span_s / 60:.1f} min"
        median = f"median {self.trend.median:.3g}{unit}"
        return f"{whose}, {self.compared}: {self.drift}: {median}, {rise}, z {self.trend.z:.1f}"


def judge(series: Sequence[Series], window_s: float) -> tuple[Judged, ...]:
    """Every quantity, in the order of the series."""
    return tuple(judged for one in series for judged in _judged(one, window_s))


def verdict_of(judged: Sequence[Judged]) -> Drift:
    """What is true of all together: drift where anything drifts, and no drift if all are known to have none."""
    found = {one.drift for one in judged}
    return next(
        (drift for drift in (Drift.FOUND, Drift.UNKNOWN) if drift in found), Drift.NONE if found else Drift.UNKNOWN
    )


def _judged(series: Series, window_s: float) -> Iterator[Judged]:
    """Within lives, which must be judged; and from life to life, where there are enough of them."""
    quantity = QUANTITIES[series.quantity]
    warm = [_warm(life, WARM_UP_WINDOWS * window_s) for life in series.lives]
    yield _compared(series, "within a process" if quantity.is_of_process else "all the time", warm, WINDOWS_MIN)
    same = _same_ages(series.lives, window_s)
    if quantity.is_of_process and max((len(time_s) for time_s, _ in same), default=0) >= LIVES_MIN:
        yield _compared(series, "from process to process", same, LIVES_MIN)


def _compared(series: Series, how: str, blocks: Sequence[tuple[Floats, Floats]], least: int) -> Judged:
    quantity = QUANTITIES[series.quantity]
    longest = max((len(time_s) for time_s, _ in blocks), default=0)
    trend = trend_of([(time_s, value * quantity.scale) for time_s, value in blocks]) if longest >= least else None
    if trend is None:
        drift = Drift.UNKNOWN
    else:
        is_much = trend.growth >= max(quantity.floor, quantity.share * trend.median)
        drift = Drift.FOUND if is_much and trend.goes_on else Drift.NONE
    return Judged(quantity=series.quantity, node=series.node, compared=how, drift=drift, trend=trend, windows=longest)


def _same_ages(lives: Sequence[Life], window_s: float) -> list[tuple[Floats, Floats]]:
    """For each age, in windows, the numbers of all processes at that age."""
    if not lives:
        return []
    time_s, value = (np.concatenate([getattr(life, name) for life in lives]) for name in ("time_s", "value"))
    age = np.floor_divide(np.concatenate([life.age_s for life in lives]), window_s)
    return [(time_s[age == one], value[age == one]) for one in np.unique(age)]


def _warm(life: Life, warm_up_s: float) -> tuple[Floats, Floats]:
    late = life.age_s > warm_up_s
    return life.time_s[late], life.value[late]


Z_MIN = 3.0
"""Of chance alone one series in 740 comes to this."""
STEADY_SHARE = 0.5
"""So much of its share in the whole rise each third must bring: what settles down, and what rises once, is no drift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """``growth`` is what the median slope comes to over ``span_s``, the time between the first and the last number of
    the longest block; ``z`` is Mann and Kendall's over all blocks. ``steadiness`` is the smaller rise from one third to
    the next, as a share of what it would be if numbers rose evenly by the median slope.
    """

    growth: float
    span_s: float
    z: float
    steadiness: float
    median: float

    @property
    def goes_on(self) -> bool:
        """Whether numbers rise for certain, and to the end."""
        return self.z >= Z_MIN and self.growth > 0 and self.steadiness >= STEADY_SHARE


def trend_of(blocks: Sequence[tuple[Floats, Floats]]) -> Trend:
    """The trend of blocks of times and numbers, of which one at least has two numbers."""
    slope, score, variance = _pairs_compared(blocks)
    span_s = max(float(time_s[-1] - time_s[0]) for time_s, _ in blocks if len(time_s))
    return Trend(
        growth=slope * span_s,
        span_s=span_s,
        z=(abs(score) - 1) * np.sign(score) / variance**0.5 if variance and score else 0.0,
        steadiness=_steadiness(blocks, slope) if slope > 0 else 0.0,
        median=float(np.median(np.concatenate([value for _, value in blocks]))),
    )


def _pairs_compared(blocks: Sequence[tuple[Floats, Floats]]) -> tuple[float, int, float]:
    """The median slope of all pairs, how many more rise than fall, and the variance of that where there is no trend."""
    slopes, score, variance = [np.empty(0)], 0, 0.0
    for time_s, value in blocks:
        first, second = np.triu_indices(len(value), 1)
        rise = value[second] - value[first]
        slopes.append(rise / (time_s[second] - time_s[first]))
        score += int(np.sign(rise).sum())
        _, ties = np.unique(value, return_counts=True)
        variance += (_spread(len(value)) - sum(_spread(int(count)) for count in ties)) / 18
    together = np.concatenate(slopes)
    return float(np.median(together)) if len(together) else 0.0, score, variance


def _steadiness(blocks: Sequence[tuple[Floats, Floats]], slope: float) -> float:
    """How the smaller rise from third to third compares with an even one, where longer blocks count for more."""
    rises, even = np.zeros(2), 0.0
    for time_s, value in blocks:
        if len(value) >= 3:
            thirds = [np.median(third) for third in np.array_split(value, 3)]
            rises += len(value) * np.diff(thirds)
            even += len(value) * slope * float(time_s[-1] - time_s[0]) / 3
    return float(rises.min()) / even if even else 0.0


def _spread(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)
