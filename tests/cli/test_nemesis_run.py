"""``nemesis run`` from its arguments to its folder, with a real cluster: to the end, and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from nemesis.history.reader import is_complete, read_history, read_replica_events
from nemesis.history.stopped import read_stopped
from tests.depth import at_night

pytestmark = pytest.mark.cluster

PATIENCE_S = 100.0
COMMAND = (sys.executable, "-m", "nemesis.cli", "run", "--engine", "local", "--seed", "5")


def start(store: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a run that judges in its own process."""
    # Tests that a shell runs in the background ignore Ctrl-C, and what they start would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [*COMMAND, "--store", str(store), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def processes_of(store: Path) -> list[psutil.Process]:
    """The processes whose command names a folder of this store."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(str(store) in word for word in process.info["cmdline"] or ())
    ]


def wait_acknowledged(run: Path) -> None:
    """Wait until a shard with an acknowledged append is on disk."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (run / "history").is_dir() and "ok" in read_history(run).column("type").to_pylist():
            return
        time.sleep(0.05)
    raise AssertionError("nothing was recorded")


@pytest.mark.long
def test_a_run_ends_with_everything_in_its_folder(tmp_path: Path) -> None:
    """A short run with a kill is valid, exits with 0, and leaves documents, tables, logs and report behind."""
    process = start(tmp_path, "--nemesis", "kill", "--time-limit", "6", "--rate", "50", "--concurrency", "3")
    out, err = process.communicate(timeout=PATIENCE_S)
    run = tmp_path / "append" / "latest"

    assert (process.returncode, out.splitlines()[0]) == (0, "verdict: valid"), err
    assert "running" in err, "progress goes to standard error"
    for name in ("test.json", "schedule.json", "results.json", "report.html", "nodes/1/replica.log"):
        assert (run / name).stat().st_size > 0, name
    assert is_complete(run)
    assert "kill" in read_history(run).column("f").to_pylist()
    results = json.loads((run / "results.json").read_text())
    assert results["faults_bit"] is True
    assert results["stats"]["logs_dumped_completely"] == 9, "two partitions and the metadata, at three replicas"
    events = read_replica_events(run)
    assert {"became-leader", "high-watermark", "final-isr"} <= set(events.column("event").to_pylist())
    assert {"topic1-0", "topic1-1"} <= set(events.column("topic_partition").to_pylist())
    assert processes_of(tmp_path) == []


def test_a_quiet_run_has_no_elections_but_the_first(tmp_path: Path) -> None:
    """Without faults every partition has one leader to the end, and what the stop of the replicas does is not told.

    Whoever leads is given time: on a machine that is busy replicas do not hear of each other for a second. That two
    campaign at once at the start, so that a second controller follows the first, has three tries.
    """
    load = ("--nemesis", "none", "--time-limit", "2", "--rate", "50", "--concurrency", "3")
    patience = ("--election-timeout-ms", "2000", "--fetch-timeout-ms", "20000", "--session-timeout-ms", "20000")
    for store in (tmp_path / "first", tmp_path / "second", tmp_path / "third"):
        process = start(store, *load, *patience, "--junit", str(store / "junit.xml"))
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        results = json.loads((store / "append" / "latest" / "results.json").read_text())
        stats = results["stats"]
        assert (stats["leader_elections"], stats["logs_led"], stats["truncations"]) == (2, 2, 0)
        case = ElementTree.parse(store / "junit.xml").find("testsuite/testcase")
        assert case is not None
        assert (case.get("name"), [child.tag for child in case]) == ("append, random, seed 5", ["properties"])
        if stats["controller_elections"] == 1:
            assert results["faults_bit"] is False
            return
    pytest.fail("a second controller followed the first each time")


@pytest.mark.long
def test_a_run_stops_at_its_first_anomaly(tmp_path: Path) -> None:
    """A wrong protocol is convicted long before its time is up, and the folder says what by and when."""
    wrong = ("--variant", "ack-before-replication", "--stop-at-anomaly")
    process = start(tmp_path, *wrong, "--time-limit", "90", "--rate", "50")
    out, err = process.communicate(timeout=PATIENCE_S)
    run = tmp_path / "append" / "latest"

    assert (process.returncode, out.splitlines()[0]) == (1, "verdict: invalid"), err
    assert "stopping at the first anomaly" in err
    stopped = read_stopped(run)
    assert stopped is not None
    assert stopped.at_s < 80
    results = json.loads((run / "results.json").read_text())
    assert str(stopped) in results["warnings"]
    assert results["stats"]["final_reads_whole"] == 2, "everything was read all the same"
    assert is_complete(run)
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    """Exit code 130, no process left, and a history that can be judged: unknown, for it has no end."""
    process = start(tmp_path, "--time-limit", "60", "--rate", "50")
    run = tmp_path / "append" / "latest"
    wait_acknowledged(run)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130, err
    assert "interrupted; what was recorded is kept" in err
    assert processes_of(tmp_path) == []
    assert not is_complete(run)
    judged = subprocess.run(
        [sys.executable, "-m", "nemesis.cli", "check", str(run), "--engine", "local"], check=False, capture_output=True
    )
    assert judged.returncode == 2


def test_a_killed_harness_takes_its_replicas_along(tmp_path: Path) -> None:
    """SIGKILL of the harness leaves no replica behind, and what was recorded can be judged."""
    process = start(tmp_path, "--time-limit", "60", "--rate", "50")
    run = tmp_path / "append" / "latest"
    wait_acknowledged(run)
    process.kill()
    process.communicate(timeout=PATIENCE_S)

    deadline = time.monotonic() + PATIENCE_S
    while processes_of(tmp_path):
        assert time.monotonic() < deadline, processes_of(tmp_path)
        time.sleep(0.02)
    judged = subprocess.run(
        [sys.executable, "-m", "nemesis.cli", "check", str(run), "--engine", "local"], check=False, capture_output=True
    )
    assert judged.returncode == 2


def demonstrated(store: Path) -> dict[str, str]:
    """What a valid demo says, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "nemesis.cli", "demo", "--engine", "local", "--store", str(store)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    said = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    assert (done.returncode, said["verdict"]) == (0, "valid"), done.stderr
    return said


def forced(said: Mapping[str, str]) -> bool:
    """Whether the demo's faults had the effects for which they are there."""
    least = {"leader elections": 4, "controller elections": 2, "truncations": 1}
    return all(int(said[name]) >= count for name, count in least.items())


@at_night("a minute of faults that other runs have singly")
@pytest.mark.timeout(240)
def test_the_demo_shows_an_election_and_a_truncation(tmp_path: Path) -> None:
    """The demo is valid, and its schedule forced changes of leaders and the cutting of an uncommitted tail.

    Where a killed replica takes seconds to start, nobody is there to be elected when the controller is paused: what is
    forced by time has two tries.
    """
    said = demonstrated(tmp_path)
    if not forced(said):
        said = demonstrated(tmp_path)
    assert forced(said), said
    assert int(said["acknowledged writes checked"]) >= 500
    assert Path(said["report"]).is_file()
