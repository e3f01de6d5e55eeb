"""Whether numbers rise with time, and go on rising: by the pairs of them, so that no outlier counts for much.

Owns the statistics. Numbers come in blocks, such as the lives of a process, and only numbers of one block are compared.
Sources: Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau" (1968); Hirsch and Slack, "A
Nonparametric Trend Test for Seasonal Data with Serial Dependence" (1984), for tests over blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
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
    slope, score, variance = _compared(blocks)
    span_s = max(float(time_s[-1] - time_s[0]) for time_s, _ in blocks if len(time_s))
    return Trend(
        growth=slope * span_s,
        span_s=span_s,
        z=(abs(score) - 1) * np.sign(score) / variance**0.5 if variance and score else 0.0,
        steadiness=_steadiness(blocks, slope) if slope > 0 else 0.0,
        median=float(np.median(np.concatenate([value for _, value in blocks]))),
    )


def _compared(blocks: Sequence[tuple[Floats, Floats]]) -> tuple[float, int, float]:
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
