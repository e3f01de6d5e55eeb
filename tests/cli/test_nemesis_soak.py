"""``nemesis soak``: every seed once, one document, the worst exit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.cli.soak import unseen, worst
from tests.cli.commands import nemesis


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["valid", "valid"], Exit.VALID),
        (["valid", "unknown"], Exit.UNKNOWN),
        (["unknown", "invalid", "valid"], Exit.INVALID),
    ],
)
def test_the_worst_run_decides(verdicts: list[str], code: Exit) -> None:
    """One run that is not valid is enough for the sweep not to be."""
    assert worst(verdicts) is code


@pytest.mark.parametrize("arguments", [("--seeds", "1-x"), ("--seeds", "")])
def test_seeds_that_are_none_are_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A list of seeds that cannot be read, or is empty, is a bad argument, and nothing is run."""
    done = nemesis("soak", "--store", str(tmp_path / "store"), *arguments)
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_count_that_is_none_is_refused(tmp_path: Path) -> None:
    """What must be seen is named as the counts are; another name is a bad argument, and nothing is run."""
    done = nemesis("soak", "--must-see", "leader-changes,miracles", "--store", str(tmp_path / "store"))
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert "membership-changes" in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_run_that_shows_nothing_is_named() -> None:
    """Each count that is 0 in a run and must not be is told with the seed; others do not matter."""
    rows = [
        {"seed": 3, "leader_changes": 1, "snapshots_installed": 0, "truncations": 0},
        {"seed": 4, "leader_changes": 2, "snapshots_installed": 1, "truncations": 0},
    ]
    assert unseen(rows, ("leader_changes", "snapshots_installed")) == [
        "seed 3 proves less than it should: snapshots installed: 0"
    ]
    assert unseen(rows, ()) == []


@pytest.mark.cluster
def test_a_sweep_says_how_each_seed_ended(tmp_path: Path) -> None:
    """Each seed is one row with its verdict and figures, in the order in which they were given."""
    store, output = tmp_path / "store", tmp_path / "soak.json"
    options = ("--time-limit", "8", "--rate", "50", "--concurrency", "3", "--engine", "local", "--topics", "2")
    done = nemesis("soak", "--seeds", "3,1", *options, "--store", str(store), "--output", str(output))
    document = json.loads(output.read_text())
    rows, settings = document["runs"], document["settings"]
    assert [(row["seed"], row["verdict"]) for row in rows] == [(3, "valid"), (1, "valid")], done.stdout
    assert all(row["acknowledged"] > 0 and (Path(row["run"]) / "results.json").exists() for row in rows)
    assert all(row["leader_elections"] >= 4 for row in rows), "each of four partitions has had a leader"
    assert (settings["topic_count"], settings["partitions"], settings["acks"]) == (2, 2, "all")
    command = json.loads((Path(rows[0]["run"]) / "test.json").read_text())["argv"]
    assert command[:2] == ["nemesis", "run"], "a run of the sweep is repeated alone"
    assert {"--topics", "--time-limit", "--rate", "--seed"} <= set(command)
    assert settings["nemesis"] == ["partition", "kill", "pause", "rolling-restart"]
    assert done.returncode == Exit.VALID, done.stderr
