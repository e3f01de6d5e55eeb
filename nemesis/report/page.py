"""The page: template, style, drawing and script in one file that needs nothing else.

Owns the making of HTML. Every text passes autoescape; the data of the drawing is JSON in which nothing can end the
script element; a content policy forbids the page to load anything from anywhere.

The legend of the drawing, as entries that the page draws beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from markupsafe import Markup

from nemesis.checks.promises import Kept
from nemesis.faults.look import LOOKS
from nemesis.history.events import FINAL_READ, METADATA_LOG, ON_LOGS
from nemesis.history.whole_files import write_whole
from nemesis.report.conviction_run import NO_PICTURES, Pictures, pictures_of
from nemesis.report.data import view_of
from nemesis.report.figures import (
    ANOMALY_COLOUR,
    LEADER_COLOUR,
    MARK_LOOKS,
    OFFLINE_COLOUR,
    OUTCOME_COLOURS,
    QUANTILE_COLOUR,
    REPLICA_COLOURS,
    lanes_of,
    picture,
)
from nemesis.report.folder import read_run_files
from nemesis.report.headlines import counted_marks, is_by
from nemesis.report.template import VERDICT_WORDS, environment
from nemesis.report.timeline import FAULTS_MAX, MARKS_MAX
from nemesis.report.values import MarkKind, Outcome, RunView

REPORT_NAME = "report.html"

KEPT_SIGNS = {Kept.KEPT: "✔", Kept.VIOLATED: "✘", Kept.UNDECIDED: "!", Kept.ALLOWED: "~", Kept.NOT_JUDGED: "?"}


def write_report(folder: Path) -> Path:
    """Write ``report.html`` into the run folder and return its path; an older report is replaced in one step.

    Works on whatever the folder holds. Raises ``NotADirectoryError`` when there is no such folder, ``OSError`` when the
    page cannot be written.
    """
    files = read_run_files(folder)
    page = render_page(view_of(files), pictures_of(files))
    return write_whole(folder, REPORT_NAME, page)


def render_page(run: RunView, pictures: Pictures = NO_PICTURES) -> str:
    """The whole page as text: some ten thousand characters of its own, all else is what was recorded."""
    sign, word, meaning = VERDICT_WORDS[run.judgement.verdict]
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            run=run,
            pictures=pictures,
            judgement=run.judgement,
            sign=sign,
            word=word,
            meaning=meaning,
            kept_signs=KEPT_SIGNS,
            legend=legend_of(run),
            faults_max=FAULTS_MAX,
            marks_max=MARKS_MAX,
            lost_by=lambda election: sum(is_by(record, election) for record in run.judgement.lost),
            drawing_words=_drawing_words(run),
            picture=_json_for_script(picture(run)),
            **_captions(run),
        )
    )


def _captions(run: RunView) -> Mapping[str, Any]:
    """What the words beside the drawing depend on, so that they speak of nothing that it does not show."""
    functions = {row.f for row in run.operations}
    replicas = enumerate(run.timeline.replicas)
    return {
        "key_word": "Partition" if functions <= ON_LOGS else "Object or partition" if functions & ON_LOGS else "Object",
        "leads_metadata": any(reign.log == METADATA_LOG for reign in run.timeline.leaderships),
        "has_unreturned": any(row.returned_s is None for row in run.operations),
        "has_cuts": any(view.cuts for view in run.log_views),
        "replica_colours": [(replica, REPLICA_COLOURS[at % len(REPLICA_COLOURS)]) for at, replica in replicas],
    }


def _json_for_script(document: Mapping[str, Any]) -> Markup:
    """JSON that is safe inside a script element: no character of it can begin a tag, an entity or a comment."""
    text = json.dumps(document, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _drawing_words(run: RunView) -> str:
    """What the drawing shows, for those who cannot see it."""
    return (
        f"Plots over {run.duration_s:.0f} seconds: which of {len(run.timeline.replicas)} replicas led and which were "
        f"under a fault ({len(run.timeline.faults)} faults, {', '.join(counted_marks(run.timeline))}); then throughput "
        f"and latency of each function. "
        f"The tables below the plots hold the same operations, faults and elections."
    )


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
