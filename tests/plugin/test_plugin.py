"""The plugin as a project sees it that has it installed; runs are made up, so that no cluster starts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nemesis.ci.cases import properties_of
from nemesis.ci.judged import judged_run
from nemesis.plugin.hooks import cases_of, reports_told
from nemesis.schedules.schedule import Schedule
from tests.ci.runs import write_run

pytest_plugins = ["pytester"]

ALONE = ("-p", "nemesis.plugin.hooks", "-p", "no:cacheprovider")
HEAVY = ("grpc", "numpy", "pyarrow", "pandas", "pyspark", "py4j", "replica", "structlog")
CONFTEST = """
import pytest
from tests.ci.runs import FakeRuns

RUNS = FakeRuns({verdicts})

@pytest.fixture(scope="session")
def nemesis_execute():
    return RUNS
"""
PASSES = """
import pytest

@pytest.mark.nemesis(faults=["kill"], time_limit=8)
def test_kept(chaos):
    chaos.run()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project in which nothing but this plugin is loaded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def run(project: pytest.Pytester, test: str, *arguments: str, verdicts: str = "'valid'") -> pytest.RunResult:
    """Run one test file in which every run ends as told."""
    project.makeconftest(CONFTEST.format(verdicts=verdicts))
    project.makepyfile(test)
    return project.runpytest_inprocess(*ALONE, *arguments)


def commands(project: pytest.Pytester) -> list[list[str]]:
    """The commands of all runs that were made, in order."""
    return [json.loads(path.read_text())["argv"] for path in sorted(project.path.glob("store/*/append/*/test.json"))]


def test_the_plugin_is_an_entry_point(pytestconfig: pytest.Config) -> None:
    """Whoever installs the package has the plugin."""
    document = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text(encoding="utf-8"))
    assert document["project"]["entry-points"]["pytest11"] == {"nemesis": "nemesis.plugin.hooks"}


def test_collecting_imports_nothing_heavy(project: pytest.Pytester) -> None:
    """To load the plugin and to collect tests that use it imports neither gRPC nor what judges, nor the replica."""
    project.makeconftest(
        f"import sys\ndef pytest_collection_finish():\n"
        f"    print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    project.makepyfile(PASSES)
    done = project.runpytest_subprocess(*ALONE, "--collect-only", "-q", "-s", "--strict-markers")
    done.stdout.fnmatch_lines(["*::test_kept", "loaded: []"])


def test_a_valid_run_passes_and_stays_small(project: pytest.Pytester) -> None:
    """The marker's settings reach the command, the summary names verdict and seed, and the folder loses its bulk."""
    done = run(project, PASSES)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["valid: *::test_kept, seed *: 566 acknowledged writes *; 3 writes asked for less"])
    (command,) = commands(project)
    assert command[:6] == ["nemesis", "run", "--nemesis", "kill", "--time-limit", "8"]
    assert command[-4:-1] == ["--engine", "local", "--store"]
    assert not list(project.path.glob("store/*/append/*/nodes"))


def test_a_violation_fails_the_test_with_its_evidence(project: pytest.Pytester) -> None:
    """Verdict, worst anomaly, seed, both commands, report and folder; no line of the plugin's own stands above them."""
    done = run(project, PASSES, verdicts="'invalid'")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "E *ViolationError: verdict: invalid: at least one promise was broken",
            "E * lost-write: 3",
            "E * lost-write in topic1-0 at offset 17: value 23 was acknowledged *",
            "E * again: pytest *::test_kept --nemesis-seed *",
            "E * again: nemesis run --nemesis kill --time-limit 8 --seed * --engine local --store *",
            f"E * report: {project.path}/store/*/report.html",
            f"E * run: {project.path}/store/*",
        ]
    )
    done.stdout.no_fnmatch_line("*raise self._failure*")


def test_unknown_is_never_green(project: pytest.Pytester) -> None:
    """A run that cannot be judged fails its test, in words that call it neither valid nor broken."""
    done = run(project, PASSES, verdicts="'unknown'")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["E *UndecidedError: verdict: unknown: nothing can be said for sure, *not a pass"])


@pytest.mark.parametrize(("verdict", "said"), [("broken", "replica 1 does not serve"), ("endless", "had not ended")])
def test_a_harness_that_fails_fails_the_test(project: pytest.Pytester, verdict: str, said: str) -> None:
    """No verdict is no pass, and what the harness said is shown."""
    done = run(project, PASSES, verdicts=repr(verdict))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"*NotJudgedError: *{said}*" if verdict == "endless" else f"E *{said}*"])


def test_a_schedule_is_repeated(project: pytest.Pytester) -> None:
    """The schedule of the command line is done whatever a test asks for, and is part of how to repeat its failure."""
    project.makefile(".json", schedule=Schedule(name="mine", time_limit_s=7, steps=()).to_json())
    done = run(project, PASSES, "--nemesis-schedule", "schedule.json", verdicts="'invalid'")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [f"E * again: pytest *::test_kept --nemesis-seed * --nemesis-schedule {project.path}/schedule.json"]
    )
    (command,) = commands(project)
    assert command[2:4] == ["--schedule", str(project.path / "schedule.json")]
    assert not {"--nemesis", "--time-limit"} & set(command)


def test_what_says_again_has_the_time_limit_of_the_command_line(project: pytest.Pytester) -> None:
    """Another time limit draws other faults: whoever repeats the failure needs it."""
    done = run(project, PASSES, "--nemesis-time-limit", "7.5", verdicts="'invalid'")
    done.stdout.fnmatch_lines(["E * again: pytest *::test_kept --nemesis-seed * --nemesis-time-limit 7.5"])


@pytest.mark.parametrize("seconds", ["2.5", "100000", "long"])
def test_a_time_limit_that_no_run_takes_is_refused(project: pytest.Pytester, seconds: str) -> None:
    """What nemesis run would refuse is refused before a test is run, with the bounds or as no number."""
    done = run(project, PASSES, "--nemesis-time-limit", seconds)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*argument --nemesis-time-limit: *"])


def test_a_schedule_that_is_none_is_refused(project: pytest.Pytester) -> None:
    """Neither a file nor a name: no run is made."""
    done = run(project, PASSES, "--nemesis-schedule", "nowhere.json")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["E *SettingError: schedule = 'nowhere.json': *is neither a file nor one of *"])
    assert commands(project) == []


def test_a_conviction_can_be_what_a_test_wants(project: pytest.Pytester) -> None:
    """The run that convicts is at hand, by the exception or without the check, and is told as expected."""
    done = run(
        project,
        """
        import pytest
        from nemesis.plugin import ViolationError

        def test_caught(chaos):
            with pytest.raises(ViolationError) as caught:
                chaos.run(faults=["kill"])
            assert "lost-write" in caught.value.run.found

        def test_unchecked(chaos):
            assert chaos.run(check=False).verdict == "invalid"
        """,
        verdicts="'invalid'",
    )
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["invalid, as expected: *::test_caught, *", "invalid, as expected: *::test_unchecked, *"])


def test_the_command_line_repeats_a_run(project: pytest.Pytester) -> None:
    """Its seed wins over all; its time limit is for faults that are drawn; its store is where the runs are."""
    test = """
        import pytest

        @pytest.mark.nemesis(seed=3, time_limit=8)
        def test_drawn(chaos):
            chaos.run(seed=4)

        @pytest.mark.nemesis(variant="ack-before-replication")
        def test_directed(chaos):
            chaos.run()
    """
    options = ("--nemesis-seed", "11", "--nemesis-time-limit", "60", "--nemesis-store", "runs")
    run(project, test, *options).assert_outcomes(passed=2)
    found = sorted(project.path.glob("runs/*/append/*/test.json"))
    directed, drawn = (json.loads(path.read_text())["argv"] for path in found)
    assert [drawn[2:6], directed[2:6]] == [
        ["--seed", "11", "--time-limit", "60.0"],
        ["--variant", "ack-before-replication", "--seed", "11"],
    ]


def test_markers_add_up_from_the_module_to_the_test(project: pytest.Pytester) -> None:
    """The closest marker wins, setting by setting, and what the test gives wins over it; a seed is drawn."""
    test = """
        import pytest

        pytestmark = pytest.mark.nemesis(faults=["kill"], nodes=5, rate=10)

        @pytest.mark.nemesis(rate=20)
        def test_kept(chaos):
            chaos.run(nodes=3)
            chaos.run()
            first, second = chaos.runs
            assert first.seed != second.seed
    """
    run(project, test).assert_outcomes(passed=1)
    first, second = commands(project)
    assert first[2:8] == ["--nemesis", "kill", "--nodes", "3", "--rate", "20"]
    assert second[2:8] == ["--nemesis", "kill", "--nodes", "5", "--rate", "20"]


@pytest.mark.parametrize(
    ("marker", "fixture", "said"),
    [
        ("faults=['kil']", "chaos", "*SettingError: faults = *'kil' (did you mean kill?): give some of *"),
        ("fault=['kill']", "chaos", "*there is no setting 'fault' (did you mean faults?): give some of faults, *"),
        ("'kill'", "chaos", "*SettingError: the marker nemesis takes settings by name only, and was given 'kill'"),
        ("faults=['kill']", "cluster", "*SettingError: the fixture cluster has no use for faults: *"),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused(
    project: pytest.Pytester, marker: str, fixture: str, said: str
) -> None:
    """What does not exist is an error that names it, before anything is started."""
    test = f"import pytest\n@pytest.mark.nemesis({marker})\ndef test_a({fixture}): pass\n"
    done = run(project, test)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"E {said}"])


def test_a_test_of_nothing_is_not_green(project: pytest.Pytester) -> None:
    """A marker without a fixture, or a fixture that is not used, proves nothing; a test that is skipped may do that."""
    test = """
        import pytest

        @pytest.mark.nemesis(faults=["kill"])
        def test_marked(): pass

        def test_unused(chaos): pass

        def test_skipped(chaos): pytest.skip("not now")
    """
    done = run(project, test)
    # The call of the unused one passes, and its end is an error.
    done.assert_outcomes(errors=2, passed=1, skipped=1)
    done.stdout.fnmatch_lines(["*the marker nemesis does nothing here*", "*asked for chaos and ran none*"])


def test_a_module_may_mark_tests_of_another_kind(project: pytest.Pytester) -> None:
    """What a module's marker says is for those of its tests that ask for a cluster; the others are left alone."""
    test = """
        import pytest

        pytestmark = pytest.mark.nemesis(faults=["kill"])

        def test_kept(chaos):
            chaos.run()

        def test_of_words():
            pass
    """
    run(project, test).assert_outcomes(passed=2)


def test_junit_names_seed_verdict_and_folder(project: pytest.Pytester) -> None:
    """The properties are there for a failure as well, under the form of the file that pytest has by default."""
    done = run(project, PASSES, "--junit-xml", "junit.xml", "-W", "error:record_property", verdicts="'invalid'")
    done.assert_outcomes(failed=1)
    (case,) = ElementTree.parse(project.path / "junit.xml").getroot().iter("testcase")
    properties = {child.get("name"): str(child.get("value")) for child in case.iter("property")}
    assert properties["nemesis_verdict"] == "invalid"
    assert properties["nemesis_seed"].isdigit()
    assert json.loads((Path(properties["nemesis_store"]) / "results.json").read_text())["verdict"] == "invalid"


def test_github_is_told_of_failures_where_they_are(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a violation is annotated at its test, and the step's summary has all runs."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path.parent))
    done = run(project, PASSES, verdicts="'invalid'")
    file = f"{project.path.name}/test_github_is_told_of_failures_where_they_are.py"
    done.stderr.fnmatch_lines([f"::error file={file},line=3,title=nemesis%3A invalid%3A *lost-write*"])
    assert (
        (project.path / "summary.md").read_text().startswith("### ❌ pytest: invalid (0 valid, 0 unknown, 1 invalid)")
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("-n", "1")])
def test_no_failure_is_green_at_github(
    project: pytest.Pytester,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    """A run without a verdict, and a test that fails by itself after a valid run or without any, are unknown."""
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    test = """
        import pytest

        def test_by_itself(chaos):
            chaos.run()
            assert 1 == 2, "not as wanted"

        def test_endless(chaos):
            chaos.run(seed=5)

        def test_before(chaos):
            raise OSError("no room")

        @pytest.mark.nemesis(rate=5)
        def test_no_cluster(cluster):
            pass

        def test_kept(chaos):
            chaos.run()

        @pytest.mark.xfail
        def test_wanted(chaos):
            raise OSError("no room")

        def test_of_words():
            assert False
    """
    project.makeconftest(CONFTEST.format(verdicts="'valid', 'endless', 'valid'"))
    project.makepyfile(test_it=test)
    done = project.runpytest_subprocess(*ALONE, "-p", "xdist", *arguments)
    done.assert_outcomes(passed=1, failed=4, errors=1, xfailed=1)
    summary = (project.path / "summary.md").read_text()
    assert summary.startswith("### ❓ pytest: unknown (1 valid, 4 unknown, 0 invalid)")
    for row in (
        "| test_it.py::test_by_itself | ❓ unknown | the test failed: AssertionError: not as wanted | ",
        "| test_it.py::test_endless | ❓ unknown | nemesis run had not ended after 375 s | 5 |",
        "| test_it.py::test_before | ❓ unknown | the test failed: OSError: no room |  |",
        "| test_it.py::test_no_cluster | ❓ unknown | the test failed: nemesis.cli.settings.SettingError: the fixture ",
    ):
        assert row in summary
    assert summary.count("### ") == 1
    assert sum("::error file=" in line for line in done.errlines) == 4


def test_a_failure_that_was_tried_again_is_not_expected(project: pytest.Pytester) -> None:
    """What pytest-rerunfailures runs again has failed: the run that convicts is not one that the test wanted."""
    folders = [write_run(project.path / word, word) for word in ("invalid", "valid")]
    noted = [[*properties_of(judged_run(folder)).items()] for folder in folders]
    first, second = (
        pytest.TestReport(
            "test_a.py::test_a", ("test_a.py", 0, "test_a"), {}, "passed", None, "call", user_properties=of
        )
        for of in (noted[0], noted[0] + noted[1])
    )
    vars(first)["outcome"] = "rerun"
    cases = list(cases_of(reports_told([first, second]), project.path))
    assert [(case.verdict, case.outcome) for case in cases] == [("invalid", "invalid"), ("valid", "valid")]


@pytest.mark.slow
def test_workers_keep_apart(
    project: pytest.Pytester, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under pytest-xdist every test has a folder of its own, and the runs of all workers are told at the end."""
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    project.makeconftest(CONFTEST.format(verdicts="'valid'"))
    project.makepyfile(
        "import pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_kept(chaos, number): chaos.run()\n"
    )
    done = project.runpytest_subprocess(*ALONE, "-p", "xdist", "-n", "2")
    done.assert_outcomes(passed=4)
    done.stdout.fnmatch_lines_random([f"valid: *::test_kept?{number}?, seed *" for number in range(4)])
    assert len(commands(project)) == 4
    assert len(list(project.path.glob("store/*"))) == 4


@pytest.mark.slow
def test_a_worker_that_dies_hides_no_test(
    project: pytest.Pytester, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test in which a worker of pytest-xdist has died, in a fixture or later, is unknown; no other is told of."""
    monkeypatch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    test = """
        import os
        import pytest

        @pytest.fixture
        def deadly():
            os._exit(3)

        def test_dies_before(deadly, chaos):
            chaos.run()

        def test_dies(chaos):
            chaos.run()
            os._exit(3)

        def test_dies_of_words():
            os._exit(3)

        def test_kept(chaos):
            chaos.run()
    """
    project.makeconftest(CONFTEST.format(verdicts="'valid'"))
    project.makepyfile(test_it=test)
    done = project.runpytest_subprocess(*ALONE, "-p", "xdist", "-n", "1")
    done.assert_outcomes(passed=1, failed=3)
    summary = (project.path / "summary.md").read_text()
    assert summary.startswith("### ❓ pytest: unknown (1 valid, 2 unknown, 0 invalid)")
    for name in ("test_dies_before", "test_dies"):
        assert f"| test_it.py::{name} | ❓ unknown | the test failed: worker 'gw" in summary
    assert "of_words" not in summary
