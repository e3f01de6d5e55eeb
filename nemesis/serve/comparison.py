"""Two runs side by side: what was run, how it was judged, and in what they differ.

Owns the rows and their order. Reads the documents only, never a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemesis.history.document import TEST_NAME
from nemesis.serve.summary import RESULTS_NAME, Summary, read_json, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing of both runs; ``change`` is the second less the first where both are numbers, with its sign."""

    name: str
    first: str
    second: str
    change: str = ""

    @property
    def differs(self) -> bool:
        """Whether the runs differ in it."""
        return self.first != self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Lines about one subject."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both runs, and the parts in which they are compared."""

    first: Summary
    second: Summary
    parts: Sequence[Part]


def compare(first: tuple[Summary, Path], second: tuple[Summary, Path]) -> Comparison:
    """Two runs, each with its folder."""
    tests = [read_json(folder / TEST_NAME) for _, folder in (first, second)]
    results = [read_json(folder / RESULTS_NAME) for _, folder in (first, second)]
    runs = (first[0], second[0])
    parts = (
        Part(title="Outcome", lines=_lines(map(_outcome, runs))),
        Part(title="Anomalies that convict, by kind", lines=_lines(run.found or {} for run in runs)),
        Part(title="Promises", lines=_lines(map(_promises, results))),
        Part(title="What the run did", lines=_lines(_part(result, "stats") for result in results)),
        Part(title="Settings", lines=_lines(_part(test, "options") for test in tests)),
        Part(title="Versions", lines=_lines(_part(test, "versions") for test in tests)),
    )
    return Comparison(first=runs[0], second=runs[1], parts=[part for part in parts if part.lines])


def _outcome(run: Summary) -> Mapping[str, Any]:
    return {
        "verdict": run.standing.value,
        "duration in seconds": None if run.duration_s is None else round(run.duration_s, 1),
        "workload": run.workload,
        "system": run.system,
        "faults": ", ".join(run.faults),
        "seed": run.seed,
        "started": run.started_at,
    }


def _promises(results: Mapping[str, Any]) -> Mapping[str, Any]:
    checks = _part(results, "checks")
    return {name: check.get("kept") for name, check in checks.items() if isinstance(check, dict)}


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _lines(sides: Iterable[Mapping[str, Any]]) -> Sequence[Line]:
    """A line for each name that one of them has; those of a count that both have as 0 say nothing."""
    first, second = sides
    lines = (_line(name, first.get(name), second.get(name)) for name in {**first, **second})
    return [line for line in lines if (line.first, line.second) not in (("0", "0"), ("", ""))]


def _line(name: str, first: Any, second: Any) -> Line:
    numbers = [value for value in (first, second) if isinstance(value, int | float) and not isinstance(value, bool)]
    change = "" if len(numbers) < 2 or first == second else f"{second - first:+,}"
    if isinstance(first, float) or isinstance(second, float):
        change = "" if not change else f"{second - first:+,.1f}"
    return Line(name=name.replace("_", " "), first=text_of(first), second=text_of(second), change=change)
