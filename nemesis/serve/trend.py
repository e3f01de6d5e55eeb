"""How the runs of each commit ended, as the bars of a small drawing.

Owns the order of commits, which is that of their first runs, and the geometry. Values only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nemesis.serve.summary import Standing, Summary

COMMITS_MAX = 40
HEIGHT, BAR_WIDTH, BAR_STEP = 64.0, 14, 18
DRAWN = (Standing.VALID, Standing.UNKNOWN, Standing.INVALID)
"""From the bottom of a bar to its top; what has no verdict is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a bar: how many runs of one verdict, from ``y`` downwards."""

    standing: Standing
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One commit, with the time of its first run. ``pieces`` lie above each other, and are as high as their share."""

    commit: str
    since: str
    counts: Mapping[Standing, int]
    x: int
    pieces: Sequence[Piece]

    @property
    def told(self) -> str:
        """Its runs in words."""
        return ", ".join(f"{self.counts[one]} {one}" for one in DRAWN if self.counts.get(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The last commits, the oldest first. ``left_out`` is how many older ones are not drawn."""

    bars: Sequence[Bar]
    left_out: int

    @property
    def width(self) -> int:
        """Of the drawing."""
        return max(len(self.bars) * BAR_STEP, 1)


def trend_of(runs: Iterable[Summary]) -> Trend:
    """The trend of those runs that have a verdict and whose commit is known."""
    counts: dict[str, Counter[Standing]] = {}
    since: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: run.started_at):
        if run.commit and run.standing in DRAWN:
            since.setdefault(run.commit, run.started_at)
            counts.setdefault(run.commit, Counter())[run.standing] += 1
    shown = list(counts)[-COMMITS_MAX:]
    bars = [
        Bar(commit=commit, since=since[commit], counts=counts[commit], x=at * BAR_STEP, pieces=_pieces(counts[commit]))
        for at, commit in enumerate(shown)
    ]
    return Trend(bars=bars, left_out=len(counts) - len(shown))


def _pieces(counts: Mapping[Standing, int]) -> Sequence[Piece]:
    """All bars are equally high: what counts is the share of what is not valid."""
    total, top = sum(counts.values()), HEIGHT
    pieces = []
    for standing in DRAWN:
        if counts.get(standing):
            height = HEIGHT * counts[standing] / total
            top -= height
            pieces.append(Piece(standing=standing, y=round(top, 1), height=round(height, 1)))
    return pieces
