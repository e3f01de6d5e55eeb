"""What pytest loads: options, the marker ``nemesis``, the fixtures, and what is said at the end.

Owns what pytest sees. Everything that a run needs is a process of its own, so that loading this and collecting tests
costs nothing but this file and what the command line is made of.

From the reports of all tests to the cases that are told of.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nemesis.ci.cases import Case, case_of, undecided
from nemesis.ci.command import Execute, execute
from nemesis.ci.judged import UNKNOWN, VALID, NotJudgedError, judged_run
from nemesis.cli.cluster import NAMES
from nemesis.cli.settings import SettingError, words_of
from nemesis.plugin.chaos import Chaos, GivenOptions, merged
from nemesis.plugin.cluster import Cluster

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

MARKER = "nemesis"
FIXTURES = ("chaos", "cluster")
STORE_DEFAULT = "store"
NAME_MAX = 120
_PASSED = pytest.StashKey[bool]()
_FOLDER = pytest.StashKey[Path]()
_NAMES = pytest.StashKey[Path]()
WORKER_INPUT = "nemesis_names"
"""Where a worker of pytest-xdist is told the file for the names of our tests."""


def _seconds(text: str) -> float:
    """A time limit within the bounds of ``nemesis run``."""
    from nemesis.cli.words import TIME_LIMIT_S_MAX
    from nemesis.schedules.drawn import TIME_LIMIT_S_MIN

    seconds = float(text)
    if not TIME_LIMIT_S_MIN <= seconds <= TIME_LIMIT_S_MAX:
        raise ArgumentTypeError(f"{text} is not in the range {TIME_LIMIT_S_MIN:g} to {TIME_LIMIT_S_MAX:g}")
    return seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of all runs."""
    group = parser.getgroup("nemesis", "chaos tests of replicated logs")
    group.addoption("--nemesis-seed", type=int, metavar="N", help="seed of every run, to repeat one")
    group.addoption(
        "--nemesis-time-limit",
        type=_seconds,
        metavar="S",
        help="seconds of workload under faults that are drawn, as --time-limit of nemesis run",
    )
    group.addoption(
        "--nemesis-schedule",
        metavar="FILE",
        help="what every run does: the schedule.json of a run, or the name of a directed schedule",
    )
    group.addoption(
        "--nemesis-store", metavar="DIR", help=f"where runs are kept [default: {STORE_DEFAULT} in the root directory]"
    )
    group.addoption("--nemesis-keep-all", action="store_true", help="keep valid runs whole as well")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "nemesis(faults=[...], seed=..., time_limit=..., variant=..., schedule=..., workload=..., ...): what the "
        "fixtures chaos and cluster are given: the options of `nemesis run`, by name",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test's own marker without a fixture that reads it would be a test of nothing that is green."""
    if _is_marked(item) and not _asks(item):
        pytest.fail("the marker nemesis does nothing here: ask for the fixture chaos or cluster", pytrace=False)


def _is_marked(item: pytest.Item) -> bool:
    return any(mark.name == MARKER for mark in item.own_markers)


def _asks(item: pytest.Item) -> bool:
    return not set(FIXTURES).isdisjoint(getattr(item, "fixturenames", ()))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Say to a worker of pytest-xdist where it leaves the names of our tests, for it may not live to report on them."""
    if _NAMES not in node.config.stash:
        node.config.stash[_NAMES] = Path(tempfile.mkdtemp(prefix="nemesis-tests-"))
    node.workerinput[WORKER_INPUT] = str(node.config.stash[_NAMES] / node.gateway.id)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave them there."""
    path = getattr(session.config, "workerinput", {}).get(WORKER_INPUT)
    if path is not None:
        ours = [item.nodeid for item in session.items if _asks(item) or _is_marked(item)]
        with suppress(OSError):  # A worker on another machine has no such folder.
            Path(path).write_text(json.dumps(ours), encoding="utf-8")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take the folder of names away."""
    if _NAMES in config.stash:
        shutil.rmtree(config.stash[_NAMES], ignore_errors=True)


def _names_of_workers(config: pytest.Config) -> frozenset[str]:
    """The names of our tests, as the workers of pytest-xdist have left them; nothing where there are none."""
    if _NAMES not in config.stash:
        return frozenset()
    found: set[str] = set()
    for path in config.stash[_NAMES].iterdir():
        with suppress(ValueError):  # It died when it wrote them.
            found |= set(json.loads(path.read_text(encoding="utf-8")))
    return frozenset(found)


def given_options(config: pytest.Config) -> GivenOptions:
    """What the command line says."""
    store = config.getoption("--nemesis-store")
    return GivenOptions(
        store=config.rootpath / STORE_DEFAULT if store is None else config.invocation_params.dir / store,
        seed=config.getoption("--nemesis-seed"),
        time_limit=config.getoption("--nemesis-time-limit"),
        schedule=_schedule(config),
        keep_all=config.getoption("--nemesis-keep-all"),
    )


def _schedule(config: pytest.Config) -> str | None:
    """The schedule that was asked for; a path is one from where pytest was started."""
    given: str | None = config.getoption("--nemesis-schedule")
    if given is None:
        return None
    path = config.invocation_params.dir / given
    return str(path) if path.is_file() else given


def _marked(node: pytest.Item) -> dict[str, Any]:
    return merged([(mark.args, mark.kwargs) for mark in node.iter_markers(MARKER)])


def folder_name(nodeid: str) -> str:
    """A test's name as that of a folder, its end kept where it is too long."""
    return re.sub(r"[^\w.-]+", "_", nodeid).strip("_")[-NAME_MAX:]


@pytest.fixture(scope="session")
def nemesis_execute() -> Execute:
    """How ``nemesis`` is run: as a process. A port; override it to test without a cluster."""
    return execute


@pytest.fixture
def chaos(request: pytest.FixtureRequest, nemesis_execute: Execute) -> Iterator[Chaos]:
    """Run a workload under faults and judge it: ``chaos.run()``. Settings come from the marker ``nemesis``."""
    item, options = request.node, given_options(request.config)
    asked = Chaos(
        test=item.nodeid,
        store=options.store / folder_name(item.nodeid),
        marked=_marked(item),
        options=options,
        execute=nemesis_execute,
        # Not by record_property, which warns under the form of JUnit files that pytest has by default.
        note=lambda name, value: item.user_properties.append((name, value)),
    )
    yield asked
    if not asked.runs and item.stash.get(_PASSED, False):
        pytest.fail("the test asked for chaos and ran none: call chaos.run()", pytrace=False)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of replicas that is ready, with ports and a folder of its own; it ends with the test."""
    item = request.node
    settings = _of_cluster(_marked(item), item.fixturenames)
    folder = item.stash[_FOLDER] = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, words_of(settings)) as started:
        yield started


def _of_cluster(settings: Mapping[str, Any], fixtures: Sequence[str]) -> dict[str, Any]:
    """What of the marker a cluster is made of. Raises SettingError for what would do nothing."""
    useless = sorted(set(settings) - {*NAMES, "variant"})
    if useless and "chaos" not in fixtures:
        raise SettingError(f"the fixture cluster has no use for {', '.join(useless)}: that is for the fixture chaos")
    return {name: value for name, value in settings.items() if name not in useless}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether the test itself passed and whose it is, and say where a failed one's cluster left its logs."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    if _asks(item) or _is_marked(item):
        if call.when == "setup":
            report.user_properties.append((ASKED, True))
        if report.failed:
            report.user_properties.append((FAILED, report.when))
    if report.failed and _FOLDER in item.stash:
        report.sections.append(("nemesis", f"logs of the replicas: {item.stash[_FOLDER]}/nodes/*/replica.log"))
    return report


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Tell of every run, and tell GitHub, where it runs this."""
    from nemesis.ci.telling import tell_ci

    if hasattr(config, "workerinput"):
        # A worker of pytest-xdist has a summary as well; whoever gathers all of them tells of each once.
        return
    reports = [report for kind in terminalreporter.stats.values() for report in kind if hasattr(report, "nodeid")]
    cases = list(cases_of(reports_told(reports, _names_of_workers(config)), config.rootpath))
    if not cases:
        return
    terminalreporter.section("nemesis")
    for case in cases:
        expected = ", as expected" if case.is_expected else ""
        seed = f", seed {case.properties[SEED]}" if SEED in case.properties else ""
        terminalreporter.line(f"{case.verdict}{expected}: {case.name}{seed}: {case.message}")
    tell_ci(cases, name="pytest")


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
