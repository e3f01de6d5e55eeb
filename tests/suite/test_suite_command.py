"""``nemesis suite`` as a user starts it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from nemesis.ci.command import start
from nemesis.cli.exit import Exit
from tests.cli.commands import nemesis

PATIENCE_S = 100.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[matrix]\nfault = [['kill']]\n", "suite.toml:2: matrix.fault: there is no setting 'fault'"),
        ('[options]\nacks = "1"\nidempotence = true\n', "suite: suite: --idempotence needs --acks all"),
        ('[options]\nvariant = "fetch-before-fsync"\n', "no directed schedule brings fetch-before-fsync about"),
    ],
)
def test_a_bad_suite_is_refused_before_anything_is_run(text: str, said: str, tmp_path: Path) -> None:
    """What does not exist, and what does not go together, ends with 254; no folder is made."""
    (tmp_path / "suite.toml").write_text(text)
    done = nemesis("suite", str(tmp_path / "suite.toml"), "--store", str(tmp_path / "store"))
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "store").exists()


@pytest.mark.cluster
def test_an_interrupted_suite_is_not_green(tmp_path: Path) -> None:
    """What was not run is unknown in the result and in the JUnit file, the exit code is 130, and nothing runs on."""
    (tmp_path / "long.toml").write_text("[options]\ntime_limit = 600\n")
    store, junit = tmp_path / "store", tmp_path / "junit.xml"
    process = start(
        ("-m", "nemesis.cli", "suite", str(tmp_path / "long.toml"), "--store", str(store), "--junit", str(junit))
    )
    deadline = time.monotonic() + PATIENCE_S
    while not list(store.glob("long/append/2*/nodes/*/replica.log")):
        assert time.monotonic() < deadline, "nothing was started"
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == Exit.INTERRUPTED, err
    assert "verdict: unknown: the suite was interrupted after 0 runs" in out
    assert json.loads((store / "long" / "suite.json").read_text())["complete"] is False
    assert ElementTree.parse(junit).getroot().get("errors") == "1"
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(store) in " ".join(p.info["cmdline"] or ())]


@pytest.mark.cluster
def test_a_suite_runs_its_matrix(tmp_path: Path) -> None:
    """Each run has a row in the document and in the JUnit file and a small folder; the worst decides the exit code."""
    (tmp_path / "short.toml").write_text(
        "[options]\ntime_limit = 1\nrate = 50\nconcurrency = 3\nfaults = []\n[matrix]\npartitions = [1]\nseeds = [4]\n"
    )
    store, junit = tmp_path / "store", tmp_path / "junit.xml"
    arguments = ("--store", str(store), "--junit", str(junit), "--test-count", "1")
    done = nemesis("suite", str(tmp_path / "short.toml"), *arguments)
    assert done.returncode == Exit.VALID, done.stderr
    document = json.loads((store / "short" / "suite.json").read_text())
    assert [(row["seed"], row["verdict"]) for row in document["runs"]] == [(4, "valid")]
    assert done.stdout.splitlines()[1].split()[:4] == ["partitions=1", "1", "0", "0"]
    assert ElementTree.parse(junit).getroot().get("tests") == "1"
    assert len(list(store.glob("short/append/2*/results.json"))) == 1
    assert not list(store.glob("short/append/2*/nodes"))
