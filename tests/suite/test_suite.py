"""Suites: what a file means, what it cannot mean, and which runs come of it; runs are made up."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from nemesis.cli.suite.document import SuiteError, read_suite
from nemesis.cli.suite.matrix import cells_of, count_of
from nemesis.cli.suite.play import Play
from nemesis.cli.suite.table import table_of
from tests.ci.runs import FakeRuns

NIGHTLY = """\
name = "nightly"

[options]
time_limit = 20        # seconds
idempotence = true

[matrix]
faults = [["partition"], ["kill", "pause"], []]
min_insync_replicas = [1, 2]
seeds = "1-2,9"
"""


def written(tmp_path: Path, text: str) -> Path:
    """The file of a suite."""
    path = tmp_path / "suite.toml"
    path.write_text(text)
    return path


def test_every_combination_is_run_with_every_seed(tmp_path: Path) -> None:
    """Axes in the order of the file, the last one fastest, and seeds faster than that; options are in all of them."""
    suite = read_suite(written(tmp_path, NIGHTLY))
    cells = list(cells_of(suite, Random(0)))
    assert len(cells) == count_of(suite) == 18
    assert [cell.name for cell in cells[2:5]] == [
        "faults=partition, min_insync_replicas=1, seed 9",
        "faults=partition, min_insync_replicas=2, seed 1",
        "faults=partition, min_insync_replicas=2, seed 2",
    ]
    assert cells[-1].combination == "faults=none, min_insync_replicas=2"
    assert cells[9].settings == {
        "time_limit": 20,
        "idempotence": True,
        "faults": ["kill", "pause"],
        "min_insync_replicas": 2,
        "seed": 1,
    }


def test_seeds_that_are_not_named_are_drawn(tmp_path: Path) -> None:
    """A matrix without seeds runs each combination once, with drawn seeds; the file's name is the suite's."""
    suite = read_suite(written(tmp_path, '[matrix]\nacks = ["all", "1"]\n'))
    first, second = cells_of(suite, Random(0))
    assert suite.name == "suite"
    assert (first.combination, second.combination) == ("acks=all", "acks=1")
    assert first.seed != second.seed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = \n", r"suite\.toml: .*at line 1, column 8"),
        ("\nnames = 'x'\n", r"suite\.toml:2: names: there is no such key: give name, \[options\] and \[matrix\]"),
        ("name = '../x'\n", r"suite\.toml:1: name: '\.\./x' is no name of a folder"),
        ("options = 3\n", r"suite\.toml:1: options: 3 is no table"),
        ("[options]\n\nrate = 5\nnode = 3\n", r"suite\.toml:4: options\.node: there is no setting 'node': give some"),
        ("[options]\nnodes = 2\n", r"suite\.toml:2: options\.nodes: nodes = 2: .* is not in the range"),
        ("[options]\nseed = 2\n", r"suite\.toml:2: options\.seed: seeds belong in \[matrix\]"),
        ("[matrix]\n'faults' = [['kil']]\n", r"suite\.toml:2: matrix\.faults: .*'kil': give some of partition"),
        ("[matrix]\nfaults = 'kill'\n", r"suite\.toml:2: matrix\.faults: 'kill': give a list of values"),
        ("[matrix]\nfaults = []\n", r"suite\.toml:2: matrix\.faults: \[\]: give a list of values"),
        ("[matrix]\nseed = [1]\n", r"suite\.toml:2: matrix\.seed: it is called seeds here"),
        ("[matrix]\nseeds = '1-x'\n", r"suite\.toml:2: matrix\.seeds: '1-x': give 1 to 10000 seeds"),
        ("[matrix]\nseeds = [true]\n", r"suite\.toml:2: matrix\.seeds"),
        ("[matrix]\nseeds = '1-4000000000'\n", r"suite\.toml:2: matrix\.seeds"),
        (
            "[options]\nrate = 5\n[matrix]\nrate = [6]\n",
            r"suite\.toml:2: options\.rate: it stands in \[matrix\] as well",
        ),
        ("options.rate = 'x'\n", r"suite\.toml:1: options\.rate: rate = 'x'"),
        ("matrix = {rate = ['x']}\n", r"suite\.toml:1: matrix\.rate: rate = 'x'"),
    ],
)
def test_what_a_file_cannot_mean_is_told_where_it_stands(text: str, said: str, tmp_path: Path) -> None:
    """Key and line of what is wrong are in the error."""
    with pytest.raises(SuiteError, match=said):
        read_suite(written(tmp_path, text))


def test_failing_runs_are_kept_whole_and_passing_ones_small(tmp_path: Path) -> None:
    """One run that comes to no verdict is unknown, and the others go on."""
    suite = read_suite(written(tmp_path, "[matrix]\nseeds = [1, 2, 3, 4]\n"))
    runs = FakeRuns("valid", "invalid", "broken", "unknown")
    played = list(Play(store=tmp_path / "store", execute=runs).run(cells_of(suite, Random(0))))
    assert [one.case.verdict for one in played] == ["valid", "invalid", "unknown", "unknown"]
    assert [one.run is not None and (one.run.folder / "nodes").exists() for one in played] == [False, True, False, True]
    assert "replica 1 does not serve" in played[2].to_json()["reasons"][0]
    assert runs.calls[1][1:3] == ("--seed", "2")


def test_the_first_failure_can_be_the_last_run(tmp_path: Path) -> None:
    """What comes after it is not run."""
    suite = read_suite(written(tmp_path, "[matrix]\nseeds = [1, 2, 3]\n"))
    runs = FakeRuns("valid", "unknown", "valid")
    play = Play(store=tmp_path / "store", execute=runs, keep_all=True)
    played = list(play.run(cells_of(suite, Random(0)), until_failure=True))
    assert [one.case.verdict for one in played] == ["valid", "unknown"]
    assert played[0].run is not None
    assert (played[0].run.folder / "nodes").exists()


def test_the_table_has_a_row_for_each_combination(tmp_path: Path) -> None:
    """Counts of verdicts over the seeds, and below them each run that is not valid with the command that repeats it."""
    suite = read_suite(written(tmp_path, '[matrix]\nacks = ["all", "1"]\nseeds = [1, 2]\n'))
    runs = FakeRuns("valid", "valid", "invalid", "broken")
    played = list(Play(store=tmp_path / "store", execute=runs).run(cells_of(suite, Random(0))))
    lines = list(table_of(played))
    assert [line.split()[:5] for line in lines[:3]] == [
        ["combination", "valid", "unknown", "invalid", "acknowledged"],
        ["acks=all", "2", "0", "0", "1132"],
        ["acks=1", "0", "1", "1", "566"],
    ]
    assert lines[4:7] == ["invalid: acks=1, seed 1", "  lost-write: 3", "  diverged-log: 1"]
    assert lines[7].startswith("  again: nemesis run --acks 1 --seed 1 --engine local --store ")
    assert "unknown: acks=1, seed 2" in lines
