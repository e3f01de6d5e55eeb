"""The legend of the drawing, as entries that the page draws beside it.

Owns which colour and shape stands for what, in words. It is HTML and not part of the drawing so that it wraps in a
narrow window and is read aloud as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemesis.faults.look import LOOKS
from nemesis.report.figures import (
    LEADER_COLOUR,
    MARK_COLOURS,
    OFFLINE_COLOUR,
    OUTCOME_COLOURS,
    QUANTILE_COLOUR,
)
from nemesis.report.values import MarkKind, Outcome


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


LEGEND = (
    LegendEntry(swatch=Swatch.BAR, colour=LEADER_COLOUR, words="leads; where there are many logs, controls"),
    *(LegendEntry(swatch=Swatch(look.swatch), colour=look.colour, words=look.words) for look in LOOKS),
    LegendEntry(swatch=Swatch.DASHED, colour=MARK_COLOURS[MarkKind.CONTROLLER], words="controller election (star)"),
    LegendEntry(swatch=Swatch.TRIANGLE, colour=MARK_COLOURS[MarkKind.ELECTION], words="leader election"),
    LegendEntry(swatch=Swatch.DIAMOND, colour=MARK_COLOURS[MarkKind.UNCLEAN], words="unclean election (diamond)"),
    LegendEntry(swatch=Swatch.BAR, colour=OFFLINE_COLOUR, words="a partition without a leader"),
    LegendEntry(swatch=Swatch.CROSS, colour=MARK_COLOURS[MarkKind.TRUNCATION], words="truncation"),
    LegendEntry(swatch=Swatch.TRIANGLE, colour=MARK_COLOURS[MarkKind.ISR_SHRINK], words="ISR shrink (points down)"),
    LegendEntry(swatch=Swatch.LINE, colour=OUTCOME_COLOURS[Outcome.OK], words="ok (points: circles)"),
    LegendEntry(swatch=Swatch.DASHED, colour=OUTCOME_COLOURS[Outcome.FAIL], words="fail (crosses)"),
    LegendEntry(swatch=Swatch.DOTTED, colour=OUTCOME_COLOURS[Outcome.INFO], words="info (diamonds)"),
    LegendEntry(swatch=Swatch.SQUARE, colour=OUTCOME_COLOURS[Outcome.OK], words="final read"),
    LegendEntry(swatch=Swatch.LINE, colour=QUANTILE_COLOUR, words="median of ok"),
    LegendEntry(swatch=Swatch.DASHED, colour=QUANTILE_COLOUR, words="99th percentile of ok"),
)
