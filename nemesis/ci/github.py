"""GitHub Actions: annotations beside the code, and the summary of a step.

Owns their forms and when they are written: annotations where ``GITHUB_ACTIONS`` is ``true``, the summary where
``GITHUB_STEP_SUMMARY`` names its file. Source: GitHub's page on workflow commands. A case that is valid gets no
annotation: a page has room for ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nemesis.ci.cases import Case
from nemesis.ci.judged import INVALID, VERDICTS, worst

ROWS_MAX = 200
"""Rows of a summary: GitHub drops one that is longer than a megabyte."""
TEXTS_MAX = 10
TEXT_MAX = 20_000
SIGNS = {"valid": "✅", "invalid": "❌", "unknown": "❓"}


def annotated(cases: Sequence[Case], environment: Mapping[str, str]) -> Iterator[str]:
    """The lines to print: one for each case that is not valid, where GitHub reads them."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    for case in cases:
        if not case.is_passed:
            where = {"file": case.file, "line": str(case.line)} if case.file else {}
            given = {**where, "title": f"nemesis: {case.verdict}: {case.name}"}
            fields = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in given.items())
            yield f"::error {fields}::{_escaped(case.text or case.message)}"


def _escaped(text: str, more: str = "") -> str:
    for character in ("%", "\r", "\n", *more):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def append_summary(cases: Sequence[Case], environment: Mapping[str, str], *, name: str = "nemesis") -> None:
    """Append to the step's summary, where there is one."""
    target = environment.get("GITHUB_STEP_SUMMARY")
    if target and cases:
        with Path(target).open("a", encoding="utf-8") as summary:
            summary.write(summary_of(cases, name=name))


def summary_of(cases: Sequence[Case], *, name: str = "nemesis") -> str:
    """The cases as a table in Markdown, those that are not valid first, and below it what was found."""
    order = sorted(cases, key=lambda case: -VERDICTS.index(case.outcome))
    verdict = worst([case.outcome for case in cases])
    counts = ", ".join(f"{sum(case.verdict == word for case in cases)} {word}" for word in VERDICTS)
    lines = [f"### {SIGNS[verdict]} {_cell(name)}: {verdict} ({counts})", ""]
    lines += ["| run | verdict | why | seed |", "|---|---|---|---|"]
    lines += [_row(case) for case in order[:ROWS_MAX]]
    if len(order) > ROWS_MAX:
        lines.append(f"| {len(order) - ROWS_MAX} more | | | |")
    return "\n".join([*lines, "", *_details(order), ""])


def _row(case: Case) -> str:
    word = f"{SIGNS[case.outcome]} {case.verdict}{', as expected' if case.is_expected else ''}"
    cells = (case.name, word, case.message, case.properties.get("nemesis_seed", ""))
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Text in a cell: no character of it ends the cell or begins an element."""
    for character, shown in (("&", "&amp;"), ("<", "&lt;"), ("|", "&#124;"), ("\r", ""), ("\n", " ")):
        text = text.replace(character, shown)
    return text


def _details(cases: Sequence[Case]) -> Iterator[str]:
    for case in [case for case in cases if not case.is_passed][:TEXTS_MAX]:
        text = (case.text or case.message)[:TEXT_MAX]
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        yield from (f"<details{' open' if case.verdict == INVALID else ''}>", f"<summary>{_cell(case.name)}</summary>")
        yield from ("", fence, text, fence, "", "</details>", "")
