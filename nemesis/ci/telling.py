"""Everything that is told to continuous integration about a number of cases, in one call.

Owns what is told where: the JUnit file that was asked for, and GitHub's annotations and summary where it runs there.

GitHub Actions: annotations beside the code, and the summary of a step.

A JUnit file: the form in which every CI system reads results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import click

from nemesis.ci.cases import Case, case_of_folder
from nemesis.ci.judged import INVALID, UNKNOWN, VERDICTS, worst


def tell_ci(
    cases: Sequence[Case],
    *,
    junit: Path | None = None,
    name: str = "nemesis",
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Write the JUnit file if one is wanted; annotate and summarise where GitHub runs this."""
    if junit is not None:
        write_junit(junit, cases, name=name)
    for line in annotated(cases, environment):
        click.echo(line, err=True)
    append_summary(cases, environment, name=name)


def tell_ci_of_runs(folders: Sequence[Path], *, junit: Path | None = None) -> None:
    """Tell of runs that were judged: each has its ``results.json``. Raises NotJudgedError for one that has not."""
    tell_ci([case_of_folder(folder) for folder in folders], junit=junit)


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


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, cases: Sequence[Case], *, name: str = "nemesis") -> None:
    """Write the file, whole or not at all; folders on the way to it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(junit_of(cases, name=name), encoding="utf-8")
    unfinished.replace(path)


def junit_of(cases: Sequence[Case], *, name: str = "nemesis") -> str:
    """The document; ``seconds`` are summed."""
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.outcome == INVALID for case in cases)),
        "errors": str(sum(case.outcome == UNKNOWN for case in cases)),
        "skipped": "0",
        "time": _seconds(sum(case.seconds for case in cases)),
    }
    suites = ElementTree.Element("testsuites", {"name": _text(name), **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _text(name), **counts})
    for case in cases:
        _add(suite, case)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _add(suite: ElementTree.Element, case: Case) -> None:
    named = {"classname": _text(case.group), "name": _text(case.name), "time": _seconds(case.seconds)}
    element = ElementTree.SubElement(suite, "testcase", named)
    if case.properties:
        properties = ElementTree.SubElement(element, "properties")
        for name, value in case.properties.items():
            ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
    if not case.is_passed:
        kind = "failure" if case.verdict == INVALID else "error"
        said = ElementTree.SubElement(element, kind, {"message": _text(case.message), "type": case.verdict})
        said.text = _text(case.text or case.message)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _text(text: str) -> str:
    """XML 1.0 has no form for most control characters: they become question marks."""
    return _NOT_XML.sub("?", text)
