"""``nemesis soak`` as a user starts it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from nemesis.ci.command import execute, start
from nemesis.cli.exit import Exit
from tests.cli.commands import nemesis

PATIENCE_S = 100.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[matrix]\nfault = [['kill']]\n", "sweep.toml:2: matrix.fault: there is no setting 'fault'"),
        ('[options]\nacks = "1"\nidempotence = true\n', "sweep: sweep: --idempotence needs --acks all"),
        ('[options]\nvariant = "fetch-before-fsync"\n', "no directed schedule brings fetch-before-fsync about"),
    ],
)
def test_a_bad_sweep_is_refused_before_anything_is_run(text: str, said: str, tmp_path: Path) -> None:
    """What does not exist, and what does not go together, ends with 254; no folder is made."""
    (tmp_path / "sweep.toml").write_text(text)
    done = nemesis("soak", str(tmp_path / "sweep.toml"), "--store", str(tmp_path / "store"))
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "1-x"), "'1-x': give up to 10000 seeds"),
        (("--seeds", ""), "there is no seed to run"),
        (("--must-see", "leader-changes,miracles"), "membership-changes"),
        (("--nemesis", "kil"), "'kil' (did you mean kill?): give some of partition"),
        (("--rate", "6"), "rate = 6.0: it stands in [matrix] of sweep"),
    ],
)
def test_bad_options_are_refused_before_anything_is_run(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """The command line is read as strictly as a file; what both decide is told."""
    (tmp_path / "sweep.toml").write_text("[matrix]\nrate = [5]\n")
    done = nemesis("soak", str(tmp_path / "sweep.toml"), "--store", str(tmp_path / "store"), *arguments)
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "store").exists()


@pytest.mark.cluster
def test_an_interrupted_sweep_is_not_green(tmp_path: Path) -> None:
    """What was not run is unknown in the result and in the JUnit file, the exit code is 130, and nothing runs on."""
    (tmp_path / "long.toml").write_text("[options]\ntime_limit = 600\n")
    store, junit = tmp_path / "store", tmp_path / "junit.xml"
    process = start(
        ("-m", "nemesis.cli", "soak", str(tmp_path / "long.toml"), "--store", str(store), "--junit", str(junit))
    )
    deadline = time.monotonic() + PATIENCE_S
    while not list(store.glob("long/append/2*/nodes/*/replica.log")):
        assert time.monotonic() < deadline, "nothing was started"
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == Exit.INTERRUPTED, err
    assert "verdict: unknown: the sweep was interrupted after 0 runs" in out
    assert json.loads((store / "long.json").read_text())["complete"] is False
    assert ElementTree.parse(junit).getroot().get("errors") == "1"
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(store) in " ".join(p.info["cmdline"] or ())]


@pytest.mark.cluster
def test_a_sweep_runs_its_matrix(tmp_path: Path) -> None:
    """Each run has a row in the document and in the JUnit file and a small folder; the worst decides the exit code."""
    (tmp_path / "short.toml").write_text(
        "[options]\ntime_limit = 1\nrate = 50\nconcurrency = 3\nfaults = []\n[matrix]\npartitions = [1]\nseeds = [4]\n"
    )
    store, junit = tmp_path / "store", tmp_path / "junit.xml"
    arguments = ("--store", str(store), "--junit", str(junit), "--test-count", "1")
    done = nemesis("soak", str(tmp_path / "short.toml"), *arguments)
    assert done.returncode == Exit.VALID, done.stderr
    document = json.loads((store / "short.json").read_text())
    assert [(row["seed"], row["verdict"]) for row in document["runs"]] == [(4, "valid")]
    assert done.stdout.splitlines()[1].split()[:4] == ["partitions=1", "1", "0", "0"]
    assert ElementTree.parse(junit).getroot().get("tests") == "1"
    assert len(list(store.glob("short/append/2*/results.json"))) == 1
    assert not list(store.glob("short/append/2*/nodes"))


@pytest.mark.cluster
def test_seeds_need_no_file(tmp_path: Path) -> None:
    """A seed is one row with its verdict and counts, and its run is that of its command."""
    store = tmp_path / "store"
    load = ("--time-limit", "6", "--rate", "50", "--concurrency", "3", "--topics", "2")
    words = ("soak", "--seeds", "3", *load, "--store", str(store), "--must-see", "leader-changes", "--keep-all")
    done = execute(words, PATIENCE_S)
    rows = json.loads((store / "soak.json").read_text())["runs"]
    assert [(row["seed"], row["verdict"]) for row in rows] == [(3, "valid")], done.out
    assert all(row["stats"]["acked_checked"] > 0 and (Path(row["run"]) / "report.html").exists() for row in rows)
    assert all(row["stats"]["leader_elections"] >= 4 for row in rows), "each of four partitions has had a leader"
    test = json.loads((Path(rows[0]["run"]) / "test.json").read_text())
    assert (test["options"]["topic_count"], test["options"]["partitions"], test["options"]["acks"]) == (2, 2, "all")
    assert test["options"]["nemesis"] == ["partition", "kill", "pause", "rolling-restart"]
    assert test["argv"][:2] == ["nemesis", "run"], "a run of the sweep is repeated alone"
    assert {"--topics", "--time-limit", "--rate", "--seed"} <= set(test["argv"])
    assert done.exit_code == Exit.VALID, done.err
