"""Sweeps: what a file means, what it cannot mean, and which runs come of it; runs are made up."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from nemesis.cli.run import plan, run
from nemesis.cli.settings import settings_given, words_of
from nemesis.cli.soak.command import soak, table_of
from nemesis.cli.soak.document import SweepError, cells_of, count_of, read_sweep
from nemesis.cli.soak.play import Play, unseen
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
    """The file of a sweep."""
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return path


def test_every_combination_is_run_with_every_seed(tmp_path: Path) -> None:
    """Axes in the order of the file, the last one fastest, and seeds faster than that; options are in all of them."""
    sweep = read_sweep(written(tmp_path, NIGHTLY))
    cells = list(cells_of(sweep, Random(0)))
    assert len(cells) == count_of(sweep) == 18
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
    """A matrix without seeds runs each combination once, with drawn seeds; the file's name is the sweep's."""
    sweep = read_sweep(written(tmp_path, '[matrix]\nacks = ["all", "1"]\n'))
    first, second = cells_of(sweep, Random(0))
    assert sweep.name == "sweep"
    assert (first.combination, second.combination) == ("acks=all", "acks=1")
    assert first.seed != second.seed


def test_the_command_line_adds_settings_and_seeds(tmp_path: Path) -> None:
    """Its settings take the place of the file's, its seeds as well, and drawn ones come behind them."""
    given = read_sweep(written(tmp_path, NIGHTLY)).with_options({"time_limit": 6.0}).with_seeds("7-8", 1)
    seven, eight, drawn = list(cells_of(given, Random(0)))[:3]
    assert (seven.seed, eight.seed, count_of(given)) == (7, 8, 18)
    assert drawn.seed not in (1, 2, 7, 8, 9)
    assert seven.settings == {"time_limit": 6.0, "idempotence": True, "faults": ["partition"]} | {
        "min_insync_replicas": 1,
        "seed": 7,
    }


@pytest.mark.parametrize(
    "words",
    [
        ("--nemesis", "kill:2,kill-at,power-loss", "--log-flush", "os"),
        ("--nemesis", "clock-drift,burst"),
        ("--nemesis", "kill,delay", "--flip-flop", "--strict-acks"),
        ("--nemesis", "none", "--no-idempotence", "--acks", "1", "--topics", "3", "--lag-time-max-ms", "700"),
        ("--workload", "register", "--keys", "4", "--reads", "stale", "--nemesis", "membership,kill"),
        ("--schedule", "demo", "--unclean-leader-election"),
    ],
)
def test_options_of_a_run_are_those_of_a_sweep(words: tuple[str, ...]) -> None:
    """What is given for all runs is what ``nemesis run`` would be given for one."""
    given = settings_given(soak.make_context("soak", list(words)).params)
    again = run.make_context("run", [*words_of(given), "--seed", "3"]).params
    assert plan(again) == plan(run.make_context("run", [*words, "--seed", "3"]).params)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = \n", r"sweep\.toml: .*at line 1, column 8"),
        ("\nnames = 'x'\n", r"sweep\.toml:2: names: there is no such key: give name, \[options\] and \[matrix\]"),
        ("name = '../x'\n", r"sweep\.toml:1: name: '\.\./x' is no name of a folder"),
        ("options = 3\n", r"sweep\.toml:1: options: 3 is no table"),
        (
            "[options]\n\nrate = 5\nnode = 3\n",
            r"sweep\.toml:4: options\.node: there is no setting 'node' .*nodes.*: give some",
        ),
        ("[options]\nnodes = 2\n", r"sweep\.toml:2: options\.nodes: nodes = 2: .* is not in the range"),
        ("[options]\nseed = 2\n", r"sweep\.toml:2: options\.seed: seeds belong in \[matrix\]"),
        (
            "[matrix]\n'faults' = [['kil']]\n",
            r"sweep\.toml:2: matrix\.faults: .*'kil' .*kill.*: give some of partition",
        ),
        ("[matrix]\nfaults = 'kill'\n", r"sweep\.toml:2: matrix\.faults: 'kill': give a list of values"),
        ("[matrix]\nfaults = []\n", r"sweep\.toml:2: matrix\.faults: \[\]: give a list of values"),
        ("[matrix]\nseed = [1]\n", r"sweep\.toml:2: matrix\.seed: it is called seeds here"),
        ("[matrix]\nseeds = '1-x'\n", r"sweep\.toml:2: matrix\.seeds: '1-x': give 1 to 10000 seeds"),
        ("[matrix]\nseeds = [true]\n", r"sweep\.toml:2: matrix\.seeds"),
        ("[matrix]\nseeds = '1-4000000000'\n", r"sweep\.toml:2: matrix\.seeds"),
        (
            "[options]\nrate = 5\n[matrix]\nrate = [6]\n",
            r"sweep\.toml:2: options\.rate: it stands in \[matrix\] as well",
        ),
        ("options.rate = 'x'\n", r"sweep\.toml:1: options\.rate: rate = 'x'"),
        ("matrix = {rate = ['x']}\n", r"sweep\.toml:1: matrix\.rate: rate = 'x'"),
    ],
)
def test_what_a_file_cannot_mean_is_told_where_it_stands(text: str, said: str, tmp_path: Path) -> None:
    """Key and line of what is wrong are in the error."""
    with pytest.raises(SweepError, match=said):
        read_sweep(written(tmp_path, text))


def test_failing_runs_are_kept_whole_and_passing_ones_small(tmp_path: Path) -> None:
    """One run that comes to no verdict is unknown, and the others go on."""
    sweep = read_sweep(written(tmp_path, "[matrix]\nseeds = [1, 2, 3, 4]\n"))
    runs = FakeRuns("valid", "invalid", "broken", "unknown")
    played = list(Play(store=tmp_path / "store", execute=runs).run(cells_of(sweep, Random(0))))
    assert [one.case.verdict for one in played] == ["valid", "invalid", "unknown", "unknown"]
    assert [one.run is not None and (one.run.folder / "nodes").exists() for one in played] == [False, True, False, True]
    assert "replica 1 does not serve" in played[2].to_json()["reasons"][0]
    assert runs.calls[1][1:3] == ("--seed", "2")


def test_the_first_failure_can_be_the_last_run(tmp_path: Path) -> None:
    """What comes after it is not run."""
    sweep = read_sweep(written(tmp_path, "[matrix]\nseeds = [1, 2, 3]\n"))
    runs = FakeRuns("valid", "unknown", "valid")
    play = Play(store=tmp_path / "store", execute=runs, keep_all=True)
    played = list(play.run(cells_of(sweep, Random(0)), until_failure=True))
    assert [one.case.verdict for one in played] == ["valid", "unknown"]
    assert played[0].run is not None
    assert (played[0].run.folder / "nodes").exists()


def test_a_run_that_shows_nothing_is_unknown(tmp_path: Path) -> None:
    """A count that must not be 0 and is one makes a valid run prove nothing; of others nothing is asked."""
    sweep = read_sweep(written(tmp_path, "[matrix]\nseeds = [1, 2]\n"))
    play = Play(store=tmp_path / "store", execute=FakeRuns("valid", "invalid"), must_see=("truncations",))
    played = list(play.run(cells_of(sweep, Random(0))))
    assert [one.case.verdict for one in played] == ["unknown", "invalid"]
    assert played[0].to_json()["reasons"][-1] == "this proves less than it should: truncations: 0"
    assert "  this proves less than it should: truncations: 0" in list(table_of(played))
    assert unseen({"truncations": 1, "leader_changes": 0}, ("truncations",)) == ()


def test_the_table_has_a_row_for_each_combination(tmp_path: Path) -> None:
    """Counts of verdicts over the seeds, and below them each run that is not valid with the command that repeats it."""
    sweep = read_sweep(written(tmp_path, '[matrix]\nacks = ["all", "1"]\nseeds = [1, 2]\n'))
    runs = FakeRuns("valid", "valid", "invalid", "broken")
    played = list(Play(store=tmp_path / "store", execute=runs).run(cells_of(sweep, Random(0))))
    lines = list(table_of(played))
    assert [line.split()[:5] for line in lines[:3]] == [
        ["combination", "valid", "unknown", "invalid", "acknowledged"],
        ["acks=all", "2", "0", "0", "1132"],
        ["acks=1", "0", "1", "1", "566"],
    ]
    assert lines[4:7] == ["invalid: acks=1, seed 1", "  lost-write: 3", "  diverged-log: 1"]
    assert lines[7].startswith("  again: nemesis run --acks 1 --seed 1 --engine local --store ")
    assert "unknown: acks=1, seed 2" in lines
