"""The legend of the drawing, as entries that the page draws beside it.

Owns which colour and shape stands for what, in words. It is HTML and not part of the drawing so that it wraps in a
narrow window and is read aloud as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemesis.faults.look import LOOKS
from nemesis.history.events import FINAL_READ
from nemesis.report.figures import (
    LEADER_COLOUR,
    MARK_COLOURS,
    OFFLINE_COLOUR,
    OUTCOME_COLOURS,
    QUANTILE_COLOUR,
)
from nemesis.report.values import MarkKind, Outcome, RunView


class Swatch(StrEnum):
    """The shapes of a legend."""

    BAR = "bar"
    HATCHED = "hatched"
    CROSSED = "crossed"
    LINE = "line"
    DASHED = "dashed"
    DOTTED = "dotted"
    TRIANGLE = "triangle"
    DIAMOND = "diamond"
    CROSS = "cross"
    SQUARE = "square"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """One shape in one colour and what it stands for."""

    swatch: Swatch
    colour: str
    words: str


def legend_of(run: RunView) -> tuple[LegendEntry, ...]:
    """What the drawing of this run has, and nothing else."""
    timeline = run.timeline
    looks = [fault.look for fault in timeline.faults]
    marks = {mark.kind for mark in timeline.marks}
    outcomes = {outcome for counts in run.counts for outcome, count in counts.counts.items() if count}
    functions = {counts.f for counts in run.counts}
    is_ok = Outcome.OK in outcomes
    entries = (
        (bool(timeline.leaderships), Swatch.BAR, LEADER_COLOUR, "leads; where there are many logs, controls"),
        *((look in looks, Swatch(look.swatch), look.colour, look.words) for look in LOOKS),
        *((kind in marks, swatch, MARK_COLOURS[kind], words) for kind, swatch, words in _MARKS),
        (bool(timeline.offline), Swatch.BAR, OFFLINE_COLOUR, "a partition without a leader"),
        *((outcome in outcomes, swatch, OUTCOME_COLOURS[outcome], words) for outcome, swatch, words in _OUTCOMES),
        (FINAL_READ in functions, Swatch.SQUARE, OUTCOME_COLOURS[Outcome.OK], "final read"),
        (is_ok, Swatch.LINE, QUANTILE_COLOUR, "median of ok"),
        (is_ok, Swatch.DASHED, QUANTILE_COLOUR, "99th percentile of ok"),
    )
    return tuple(
        LegendEntry(swatch=swatch, colour=colour, words=words) for occurs, swatch, colour, words in entries if occurs
    )


_MARKS = (
    (MarkKind.CONTROLLER, Swatch.DASHED, "controller election (star)"),
    (MarkKind.ELECTION, Swatch.TRIANGLE, "leader election"),
    (MarkKind.UNCLEAN, Swatch.DIAMOND, "unclean election (diamond)"),
    (MarkKind.TRUNCATION, Swatch.CROSS, "truncation"),
    (MarkKind.ISR_SHRINK, Swatch.TRIANGLE, "ISR shrink (points down)"),
)
_OUTCOMES = (
    (Outcome.OK, Swatch.LINE, "ok (points: circles)"),
    (Outcome.FAIL, Swatch.DASHED, "fail (crosses)"),
    (Outcome.INFO, Swatch.DOTTED, "info (diamonds)"),
)
