"""The legend of the drawing, as entries that the page draws beside it.

Owns which colour and shape stands for what, in words. It is HTML and not part of the drawing so that it wraps in a
narrow window and is read aloud as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemesis.faults.look import LOOKS
from nemesis.history.events import FINAL_READ, METADATA_LOG
from nemesis.report.figures import (
    ANOMALY_COLOUR,
    LEADER_COLOUR,
    MARK_LOOKS,
    OFFLINE_COLOUR,
    OUTCOME_COLOURS,
    QUANTILE_COLOUR,
    lanes_of,
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
    STAR = "star"
    TRIANGLE = "triangle"
    TRIANGLE_DOWN = "triangle-down"
    DIAMOND = "diamond"
    CROSS = "cross"
    SQUARE = "square"
    RING = "ring"


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
    outcomes = {operation.outcome for operation in run.operations}
    functions = {operation.f for operation in run.operations}
    is_ok = Outcome.OK in outcomes
    lanes = lanes_of(timeline.leaderships)
    leads = "controls" if any(reign.log == METADATA_LOG for reign in lanes) else "leads"
    entries = (
        (bool(run.judgement.anomalies), Swatch.RING, ANOMALY_COLOUR, "of an anomaly"),
        (bool(lanes), Swatch.BAR, LEADER_COLOUR, f"{leads}, in this epoch"),
        *((look in looks, Swatch(look.swatch), look.colour, look.words) for look in LOOKS),
        *((kind in marks, swatch, MARK_LOOKS[kind].colour, words) for kind, swatch, words in _MARKS),
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
    (MarkKind.CONTROLLER, Swatch.STAR, "controller election"),
    (MarkKind.ELECTION, Swatch.TRIANGLE, "leader election"),
    (MarkKind.UNCLEAN, Swatch.DIAMOND, "unclean election"),
    (MarkKind.TRUNCATION, Swatch.CROSS, "truncation"),
    (MarkKind.ISR_SHRINK, Swatch.TRIANGLE_DOWN, "ISR shrink"),
)
_OUTCOMES = (
    (Outcome.OK, Swatch.LINE, "ok (points: dots)"),
    (Outcome.FAIL, Swatch.DASHED, "fail (points: crosses)"),
    (Outcome.INFO, Swatch.DOTTED, "info (points: diamonds)"),
)
