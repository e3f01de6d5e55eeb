"""From the reports of all tests to the cases that are told of.

Owns how a run is found again in a report: by its properties, which travel from the workers of pytest-xdist as well.
What was found in a run is read from its folder, where that is still there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.ci.cases import Case, case_of
from nemesis.ci.judged import VALID, NotJudgedError, judged_run

SEED, VERDICT, STORE = "nemesis_seed", "nemesis_verdict", "nemesis_store"


def runs_told(reports: Iterable[pytest.TestReport]) -> dict[str, list[pytest.TestReport]]:
    """The reports of each test that has run something, by its name; those of its phases together."""
    found: dict[str, list[pytest.TestReport]] = {}
    for report in reports:
        if any(name == STORE for name, _ in getattr(report, "user_properties", ())):
            found.setdefault(report.nodeid, []).append(report)
    return found


def cases_of(told: Mapping[str, Sequence[pytest.TestReport]], root: Path) -> Iterator[Case]:
    """One case for each run. A run that is not valid in a test that passed is what the test expected."""
    for nodeid, reports in told.items():
        fullest = max(reports, key=lambda report: len(report.user_properties))
        failed = any(report.failed for report in reports)
        values = {name: [str(v) for n, v in fullest.user_properties if n == name] for name in (SEED, VERDICT, STORE)}
        for seed, verdict, store in zip(values[SEED], values[VERDICT], values[STORE], strict=True):
            case = _case(nodeid, seed, verdict, store)
            file, line, _ = fullest.location
            is_expected = not failed and verdict != VALID
            yield replace(case, file=_from_workspace(root / file), line=(line or 0) + 1, is_expected=is_expected)


def _case(nodeid: str, seed: str, verdict: str, store: str) -> Case:
    try:
        return case_of(judged_run(Path(store)), group="pytest", name=nodeid)
    except NotJudgedError as error:
        properties = {SEED: seed, VERDICT: verdict, STORE: store}
        return Case(group="pytest", name=nodeid, verdict=verdict, message=str(error), properties=properties)


def _from_workspace(file: Path) -> str:
    """The file as GitHub calls it."""
    return os.path.relpath(file, os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
