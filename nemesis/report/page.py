"""The page: template, style, drawing and script in one file that needs nothing else.

Owns the making of HTML. Every text passes autoescape; the data of the drawing is JSON in which nothing can end the
script element; a content policy forbids the page to load anything from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from nemesis.checks.promises import Kept
from nemesis.history.events import METADATA_LOG, ON_LOGS
from nemesis.history.whole_files import write_whole
from nemesis.report.conviction_run import NO_PICTURES, Pictures, pictures_of
from nemesis.report.data import view_of
from nemesis.report.figures import REPLICA_COLOURS, picture
from nemesis.report.folder import read_run_files
from nemesis.report.headlines import counted_marks, is_by
from nemesis.report.legend import legend_of
from nemesis.report.template import VERDICT_WORDS, environment
from nemesis.report.timeline import FAULTS_MAX, MARKS_MAX
from nemesis.report.values import RunView

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
