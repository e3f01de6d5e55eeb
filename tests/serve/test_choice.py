"""What the search form, the trend, the matrix and a comparison make of runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemesis.serve.choice import choice_of, values_of
from nemesis.serve.comparison import compare
from nemesis.serve.matrix import COLUMNS_MAX, COMMITS_MAX, HEIGHT, matrix_of_runs, matrix_of_sweep, sweeps_of, trend_of
from nemesis.serve.store import NotInStoreError, Store
from nemesis.serve.summary import Standing, Summaries, Summary

RUN = Summary(
    name="append/1",
    standing=Standing.INVALID,
    workload="append",
    system="etcd",
    faults=("partition", "kill"),
    seed=7,
    started_at="2026-01-02T03:04:05+00:00",
    commit="abc",
    reasons=("lost-write: 3",),
    command=("nemesis", "run", "--rate", "20"),
)


@pytest.mark.parametrize(
    ("query", "is_chosen"),
    [
        ({}, True),
        ({"unknown": "field"}, True),
        ({"verdict": "invalid"}, True),
        ({"verdict": "valid"}, False),
        ({"workload": "append", "system": "etcd", "fault": "kill", "commit": "abc"}, True),
        ({"fault": "kil"}, False),
        ({"commit": "ab"}, False),
        ({"q": "LOST-write etcd"}, True),
        ({"q": "seed 7"}, True),
        ({"q": "--rate 20"}, True),
        ({"q": "etcd redis"}, False),
    ],
)
def test_a_run_is_chosen_by_what_is_asked(query: dict[str, str], is_chosen: bool) -> None:
    """Fields compare whole values, words are looked for everywhere, and all that is asked must be so."""
    assert choice_of(query).of([RUN]) == ([RUN] if is_chosen else [])


def test_there_is_to_choose_what_there_is() -> None:
    """The lists of the form have the values of the runs, each once."""
    values = values_of([RUN, RUN])

    assert (values.verdict, values.workload, values.fault) == (["invalid"], ["append"], ["kill", "partition"])


def _run(commit: str, standing: Standing, day: int) -> Summary:
    return Summary(name=f"{commit}-{day}", standing=standing, commit=commit, started_at=f"2026-01-{day:02d}")


def test_the_trend_has_commits_in_the_order_of_their_first_runs() -> None:
    """A bar is as high as all others and divided by its verdicts; runs without a verdict or a commit are in none."""
    runs = [
        _run("new", Standing.INVALID, 9),
        _run("old", Standing.VALID, 1),
        _run("new", Standing.VALID, 5),
        _run("old", Standing.RUNNING, 8),
        _run("", Standing.VALID, 2),
    ]
    trend = trend_of(runs)

    assert [(bar.commit, bar.told) for bar in trend.bars] == [("old", "1 valid"), ("new", "1 valid, 1 invalid")]
    assert [(piece.standing, piece.y, piece.height) for piece in trend.bars[1].pieces] == [
        (Standing.VALID, HEIGHT / 2, HEIGHT / 2),
        (Standing.INVALID, 0.0, HEIGHT / 2),
    ]


def test_the_trend_is_bounded() -> None:
    """The newest commits are drawn, and how many are not is told."""
    trend = trend_of(_run(f"{number:03d}", Standing.VALID, 1) for number in range(COMMITS_MAX + 5))

    assert (len(trend.bars), trend.left_out, trend.bars[-1].commit) == (COMMITS_MAX, 5, f"{COMMITS_MAX + 4:03d}")


def test_a_matrix_has_a_row_for_what_was_run_and_a_column_for_each_seed(store: Path) -> None:
    """Runs that differ in their seeds only share a row, seeds are in the order of numbers."""
    matrix = matrix_of_runs(Summaries(Store(store)).all())

    assert [(row.combination, len(row.cells)) for row in matrix.rows] == [
        ("highwater, append, partition + kill", 2),
        ("highwater, register, partition + kill", 1),
    ]
    assert matrix.seeds == ["7", "8"]
    assert [cell.standing for cell in matrix.rows[0].of("8")] == [Standing.INVALID]


def test_with_very_many_seeds_a_matrix_has_no_columns() -> None:
    """Drawn seeds are all different: a table of them would be as wide as there are runs."""
    runs = [Summary(name=str(seed), standing=Standing.VALID, seed=seed) for seed in range(COLUMNS_MAX + 1)]

    assert matrix_of_runs(runs[1:]).seeds != ()
    assert matrix_of_runs(runs).seeds == ()


def _played(**fields: object) -> dict[str, object]:
    return {"combination": "nemesis=kill", "seed": 3, "verdict": "valid", "reasons": [], "run": None} | fields


def test_a_sweep_is_a_matrix_of_its_document(store: Path) -> None:
    """A run is found where the store was moved to; one that is gone or came to no verdict has its cell all the same."""
    runs = [
        _played(run="/once/there/append/20260102T030405"),
        _played(seed=4, run="/once/there/append/19990102T030405", verdict="unknown"),
        _played(seed=5, verdict="none", reasons=["it did not start"]),
    ]
    (store / "soak.json").write_text(json.dumps({"name": "soak", "complete": False, "runs": runs}))
    matrix = matrix_of_sweep(Store(store), "soak.json")

    assert sweeps_of(Store(store)) == ["soak.json"]
    assert not matrix.is_whole
    assert [(cell.seed, cell.standing, cell.name) for cell in matrix.rows[0].cells] == [
        ("3", Standing.VALID, "append/20260102T030405"),
        ("4", Standing.UNKNOWN, None),
        ("5", Standing.NOT_JUDGED, None),
    ]


@pytest.mark.parametrize("path", ["/etc/passwd", "../../..", "append/latest", "/append/..", "\0", "a/" * 99])
def test_a_sweep_leads_to_nothing_outside_the_store(store: Path, path: str) -> None:
    """The paths of its document are only names of runs of the store."""
    (store / "soak.json").write_text(json.dumps({"runs": [_played(run=path)]}))

    assert matrix_of_sweep(Store(store), "soak.json").rows[0].cells[0].name is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"runs": 5}'])
def test_a_document_that_is_no_sweep_is_refused(store: Path, text: str) -> None:
    """It is not offered either."""
    (store / "other.json").write_text(text)

    assert sweeps_of(Store(store)) == []
    with pytest.raises(NotInStoreError):
        matrix_of_sweep(Store(store), "other.json")


def test_two_runs_are_compared(store: Path) -> None:
    """What differs is told to differ, with by how much, and what is the same is not."""
    summaries, opened = Summaries(Store(store)), Store(store)
    names = ("append/20260102T030405", "append/20260103T030405")
    first, second = ((summaries.one(name), opened.folder(name)) for name in names)
    lines = {line.name: line for part in compare(first, second).parts for line in part.lines}

    assert (lines["verdict"].first, lines["verdict"].second) == ("valid", "invalid")
    assert (lines["seed"].differs, lines["seed"].change) == (True, "")
    assert not lines["time limit"].differs
    assert (lines["lost-write"].first, lines["lost-write"].second) == ("kept", "violated")
