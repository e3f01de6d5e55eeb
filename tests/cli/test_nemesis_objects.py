"""``nemesis run`` of workloads on objects: what is refused, and real clusters that host the store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemesis.checks import Kept
from nemesis.report.data import read_run
from nemesis.workload.register import RegisterWorkload
from tests.cli.commands import nemesis
from tests.depth import is_night
from tests.pipeline.object_runs import object_run
from tests.pipeline.test_run_objects import READ_1, WRITE_1

PATIENCE_S = 150.0
CROWD = ("--concurrency", "60", "--rate", "25", "--keys", "2")
"""So many clients that ask so seldom that some have read only, at the replica that is cut off, when another leads."""
SEEDS = {"valid": ("5",), "invalid": ("5", "6", "7")}
LEAST = 2 if is_night() else 1
"""Of the three runs with stale reads so many are convicted: where few operations meet the fault nobody may have read
what was old, or only a value that was written once more. Before a commit the first that is will do."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "register", "--topics", "2"), "--topics means nothing to the workload register"),
        (("--workload", "append", "--keys", "2"), "--keys means nothing to the workload append"),
        (("--workload", "append", "--reads", "stale"), "--reads means nothing to the workload append"),
        (("--workload", "bank", "--stop-at-anomaly"), "the workload bank is judged when the run is over"),
    ],
)
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Before anything is started, and with the reason."""
    result = nemesis("run", "--engine", "local", "--store", str(tmp_path), *words)
    assert result.returncode == 254
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_on_objects_is_not_followed(tmp_path: Path) -> None:
    """It is judged when it is over, and the command says so."""
    run = object_run(tmp_path / "run", RegisterWorkload, *WRITE_1, *READ_1)
    result = nemesis("check", str(run), "--follow", "--engine", "local")
    assert result.returncode != 0
    assert "judge it when it is over, without --follow" in result.stderr


@pytest.mark.slow
def test_a_stored_run_on_objects_is_judged_again(tmp_path: Path) -> None:
    """``nemesis check`` knows from the folder what was run."""
    run = object_run(tmp_path / "run", RegisterWorkload, *WRITE_1, *READ_1)
    result = nemesis("check", str(run), "--engine", "local")
    assert result.returncode == 0
    said = result.stdout
    assert "acknowledged operations checked: 2" in said
    assert "snapshots installed: 1" in said
    assert "2 acknowledged operations on 1 object; each object was linearizable." in (run / "report.html").read_text()
    kept = {promise.anomaly: promise.kept for promise in read_run(run).judgement.promises}
    assert (kept["nonlinearizable"], kept["diverged-log"], kept["lost-write"]) == (
        Kept.KEPT,
        Kept.KEPT,
        Kept.NOT_JUDGED,
    )


@pytest.mark.slow
def test_a_run_on_objects_is_no_history_of_logs(tmp_path: Path) -> None:
    """It is not written as a history of Jepsen's workload for logs, which it is not."""
    run = object_run(tmp_path / "run", RegisterWorkload, *WRITE_1, *READ_1)
    result = nemesis("export", str(run), "--format", "edn")
    assert result.returncode == 254
    assert "its tables go as jsonl" in result.stderr
    assert nemesis("export", str(run)).returncode == 0


def judged(store: Path, *words: str) -> tuple[str, dict[str, Any], set[str]]:
    """Record a run, and judge it in the process: what was said, the results, and the kinds of anomalies found."""
    command = (sys.executable, "-m", "nemesis.cli", "run", "--engine", "local", "--store", str(store), *words)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    found = [path for path in store.glob("*/*/results.json") if not path.parent.is_symlink()]
    assert len(found) == 1, done.stdout + done.stderr
    results = json.loads(found[0].read_text())
    return done.stdout, results, {row["anomaly"] for row in results["anomalies"]}


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (("--workload", "register", "--schedule", "isolated-leader", "--rate", "100"), "valid"),
        (("--workload", "register", "--schedule", "isolated-leader", "--reads", "stale", *CROWD), "invalid"),
        (("--workload", "bank", "--nemesis", "kill", "--time-limit", "6", "--rate", "50"), "valid"),
        (("--workload", "queue", "--nemesis", "kill", "--time-limit", "6", "--rate", "50"), "valid"),
    ],
)
def test_a_real_store_is_linearizable_and_its_stale_reads_are_not(
    words: tuple[str, ...], verdict: str, tmp_path: Path
) -> None:
    """The same faults leave a run valid, and convict one whose clients were content with what a replica had."""
    least, found = LEAST if verdict == "invalid" else 1, 0
    told = []
    for seed in SEEDS[verdict]:
        said, results, kinds = judged(tmp_path / seed, *words, "--seed", seed)
        assert kinds <= {"nonlinearizable", "wrong-order"}
        assert results["faults_bit"]
        assert results["stats"]["logs_dumped_completely"] == 6, "the group's log and the metadata, at three replicas"
        told.append(said)
        found += said.startswith(f"verdict: {verdict}\n") and ("nonlinearizable" in kinds) == (verdict == "invalid")
        if found == least:
            return
    pytest.fail(f"{found} of {len(SEEDS[verdict])} runs are {verdict}, not {least}: {told}")
