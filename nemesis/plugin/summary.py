"""From the reports of all tests to the cases that are told of.

Owns how a run is found again in a report: by its properties, which travel from the workers of pytest-xdist as well; and
that no test that has failed is told of as if all was well, whatever its runs say. What was found in a run is
read from its folder, where that is still there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.ci.cases import Case, case_of, undecided
from nemesis.ci.judged import UNKNOWN, VALID, NotJudgedError, judged_run

SEED, VERDICT, STORE, ERROR = "nemesis_seed", "nemesis_verdict", "nemesis_store", "nemesis_error"
FAILED = "nemesis_failed"
"""The property of a report that says that a test of this plugin has failed, and in which phase."""
ASKED = "nemesis_asked"
"""The property of the report of a setup that says that the test is one of this plugin's, whatever becomes of it."""
RERUN = "rerun"
"""The outcome that pytest-rerunfailures gives to a failure after which it tries again."""


def reports_told(
    reports: Iterable[pytest.TestReport], ours: Collection[str] = ()
) -> dict[str, list[pytest.TestReport]]:
    """The reports of each test that has run something or could have, by its name; those of its phases together.

    Of a test in which a worker of pytest-xdist died, the last report is made by whoever has started the worker, and
    has no properties: that of its setup says whose test it is, or, where it died in there, its name among ``ours``.
    """
    found: dict[str, list[pytest.TestReport]] = {}
    for report in reports:
        found.setdefault(report.nodeid, []).append(report)
    return {nodeid: of_test for nodeid, of_test in found.items() if nodeid in ours or any(map(_is_told, of_test))}


def _is_told(report: pytest.TestReport) -> bool:
    return any(name in (STORE, FAILED, ASKED) for name, _ in getattr(report, "user_properties", ()))


def cases_of(told: Mapping[str, Sequence[pytest.TestReport]], root: Path) -> Iterator[Case]:
    """One case for each run, and one for a test that failed without any.

    A run that is not valid in a test that passed is what the test expected. In a test that failed although each of its
    runs is valid, the last one's case is *unknown*.
    """
    for nodeid, reports in told.items():
        fullest = max(reports, key=lambda report: len(report.user_properties))
        failures = [report for report in reports if report.failed or report.outcome == RERUN]
        cases = [_case(nodeid, properties) for properties in _runs(fullest)]
        if failures and all(case.verdict == VALID for case in cases):
            cases[-1:] = [_failed(failures[-1], *cases[-1:])]
        file, line, _ = fullest.location
        for case in cases:
            is_expected = not failures and case.verdict != VALID
            yield replace(case, file=_from_workspace(root / file), line=(line or 0) + 1, is_expected=is_expected)


def _runs(report: pytest.TestReport) -> list[dict[str, str]]:
    """The properties of each run: those from its seed to the next one's."""
    runs: list[dict[str, str]] = []
    for name, value in report.user_properties:
        if name == SEED:
            runs.append({})
        if runs and name in (SEED, VERDICT, STORE, ERROR):
            runs[-1][name] = str(value)
    return runs


def _case(nodeid: str, properties: Mapping[str, str]) -> Case:
    if ERROR in properties:
        return replace(undecided(group="pytest", name=nodeid, reason=properties[ERROR]), properties=properties)
    try:
        return case_of(judged_run(Path(properties[STORE])), group="pytest", name=nodeid)
    except NotJudgedError as error:
        verdict = properties[VERDICT]
        return Case(group="pytest", name=nodeid, verdict=verdict, message=str(error), properties=properties)


def _failed(report: pytest.TestReport, run: Case | None = None) -> Case:
    """The case of a test that failed by itself, with what is known of its last run."""
    crash = getattr(report.longrepr, "reprcrash", None)
    # What is said of a worker that died is a text, before which ``longreprtext`` puts the worker's Python.
    text = report.longrepr if isinstance(report.longrepr, str) else report.longreprtext
    said = (crash.message if crash else text).strip() or "it does not say why"
    message = f"the test failed: {said.splitlines()[0]}"
    if run is None:
        return replace(undecided(group="pytest", name=report.nodeid, reason=said), message=message)
    return replace(run, verdict=UNKNOWN, message=message, text=f"the test failed: {said}\n\n{run.text}")


def _from_workspace(file: Path) -> str:
    """The file as GitHub calls it."""
    return os.path.relpath(file, os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
