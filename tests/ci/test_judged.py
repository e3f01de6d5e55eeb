"""What is told of a run that was judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.ci.cases import told
from nemesis.ci.command import Finished
from nemesis.ci.judged import NotJudgedError, judged_run, make_small, worst
from nemesis.cli.settings import record_and_judge
from tests.ci.runs import EXITS, MORE, FakeRuns, fake_run, write_run


def test_the_worst_anomaly_comes_first(tmp_path: Path) -> None:
    """Violations stand before what is allowed, kinds in the order of the reasons, and mere counts behind examples."""
    run = fake_run(tmp_path / "run", "invalid")
    names = [row["anomaly"] for row in run.anomalies]
    assert names == ["lost-write", "lost-write", "lost-write", "diverged-log", "int-send-skip"]
    assert [MORE["detail"] == row["detail"] for row in run.anomalies[:3]] == [False, False, True]
    assert run.found == {"lost-write", "diverged-log"}


def test_a_conviction_tells_what_is_needed(tmp_path: Path) -> None:
    """Verdict, reasons, anomalies with evidence and a bound on each kind, seed, commands, report and folder."""
    run = fake_run(tmp_path / "run", "invalid")
    assert told(run, "pytest test_a.py").splitlines() == [
        "verdict: invalid: at least one promise was broken",
        "  lost-write: 3",
        "  diverged-log: 1",
        "worst anomalies (4 of 5 that are listed in results.json):",
        "  lost-write in topic1-0 at offset 17: value 23 was acknowledged at offset 17 and replica 1 does not have it",
        '    {"value": 23}',
        "  lost-write in topic1-0 at offset 17: value 23 was acknowledged at offset 17 and replica 1 does not have it",
        '    {"value": 23}',
        "  diverged-log in topic1-0 at offset 17: replicas 1 and 2 differ at offset 17",
        '    {"value": 23}',
        "  int-send-skip in topic1-0 at offset 17: fine",
        '    {"value": 23}',
        "seed: 7 (schedule random)",
        "again: pytest test_a.py",
        "again: nemesis run",
        f"report: {tmp_path}/run/report.html",
        f"run: {tmp_path}/run",
    ]


def test_operations_are_told_in_words(tmp_path: Path) -> None:
    """Who did what from when to when; one that never returned lasts to the end, and of many the first are told."""
    write = {"f": "append", "value": 16, "offset": 4, "process": 0, "type": "ok"}
    write |= {"invoke_ns": 10_083_140_288, "return_ns": 10_311_478_510}
    read = {"f": "poll", "process": 3, "type": "info", "invoke_ns": 20_000_000_000, "return_ns": None}
    run = fake_run(tmp_path / "run", "invalid")
    row = dict(run.anomalies[0]) | {
        "evidence": {"seen": [{"operation": write}, *[{"operation": read, "value": 3}] * 3]}
    }
    lines = told(replace(run, anomalies=(row,))).splitlines()
    assert lines[5:8] == [
        "    append of 16 at offset 4 by process 0, 10.083 s to 10.311 s: ok",
        "    poll by process 3, 20.000 s to the end: info",
        "    poll by process 3, 20.000 s to the end: info",
    ]
    assert lines[8].startswith("seed: ")


def test_unknown_is_told_as_what_it_is(tmp_path: Path) -> None:
    """An undecided run is called neither a pass nor a violation, and its reason is told."""
    text = told(fake_run(tmp_path / "run", "unknown"))
    assert text.startswith("verdict: unknown: nothing can be said for sure, and that is not a pass\n")
    assert "the history has no end: the run was cut off" in text
    assert "broken" not in text


@pytest.mark.parametrize("verdict", ["invalid", "valid", "unknown"])
def test_what_was_recorded_of_a_broken_run_can_convict(verdict: str, tmp_path: Path) -> None:
    """It is judged by itself: a violation in it is one, and that there is none proves nothing."""
    folder = write_run(tmp_path / "run", verdict)

    def execute(words: Sequence[str], at_most_s: float) -> Finished:
        del at_most_s
        if words[0] == "run":
            return Finished(exit_code=255, out="", err=f"recording {folder}: schedule random, seed 7\nError: died\n")
        assert words[:2] == ("check", str(folder))
        return Finished(exit_code=EXITS[verdict], out=f"run: {folder}\n", err="")

    if verdict == "invalid":
        assert record_and_judge({}, store=tmp_path, execute=execute).found == {"lost-write", "diverged-log"}
        return
    with pytest.raises(NotJudgedError, match="Error: died"):
        record_and_judge({}, store=tmp_path, execute=execute)


@pytest.mark.parametrize("verdict", ["broken", "endless"])
def test_a_command_without_a_verdict_is_no_verdict(verdict: str, tmp_path: Path) -> None:
    """A harness that fails or hangs raises with what it said last; no verdict is made up."""
    with pytest.raises(NotJudgedError, match=r"replica 1 does not serve|had not ended after 312.5 s"):
        record_and_judge(
            {"seed": 7, "time_limit": 7.5, "final_time_limit": 5}, store=tmp_path, execute=FakeRuns(verdict)
        )


@pytest.mark.parametrize(("verdict", "exit_code"), [("valid", 1), ("invalid", 0), ("unknown", 0), ("valid", 2)])
def test_a_verdict_counts_only_where_the_command_agrees(verdict: str, exit_code: int, tmp_path: Path) -> None:
    """A folder that says other than the exit code is no verdict, in either direction."""
    runs = FakeRuns(verdict)
    with pytest.raises(NotJudgedError, match=f"ended with {exit_code}, and .* says {verdict}"):
        record_and_judge(
            {"seed": 7},
            store=tmp_path,
            execute=lambda words, at_most_s: replace(runs(words, at_most_s), exit_code=exit_code),
        )


def test_a_folder_without_results_is_not_judged(tmp_path: Path) -> None:
    """A run that was recorded only, or whose results are damaged, has no verdict."""
    folder = write_run(tmp_path / "run", "valid")
    (folder / "results.json").write_text(json.dumps({"verdict": "valid"}))
    with pytest.raises(NotJudgedError, match="cannot be read: KeyError"):
        judged_run(folder)
    (folder / "results.json").unlink()
    with pytest.raises(NotJudgedError, match=r"there is no results\.json"):
        judged_run(folder)


def test_a_small_run_can_still_be_told_of(tmp_path: Path) -> None:
    """What is dropped is the replicas' data and the page; the verdict and its documents stay."""
    run = fake_run(tmp_path / "run", "valid")
    make_small(run.folder)
    assert sorted(path.name for path in run.folder.iterdir()) == ["results.json", "test.json"]
    assert judged_run(run.folder).report is None


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [(["valid"], "valid"), (["valid", "unknown"], "unknown"), (["invalid", "unknown"], "invalid"), ([], "unknown")],
)
def test_the_worst_verdict_is_that_of_all(verdicts: list[str], expected: str) -> None:
    """A violation outweighs what is unknown; of nothing, nothing is known."""
    assert worst(verdicts) == expected
