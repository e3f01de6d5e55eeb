"""Runs go by verdict, age and size; what is no run, or may go on, never does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemesis.cli.gc import gc
from nemesis.serve.pruning import SETTLED_S, Rules, Stored, remove, stored_runs
from nemesis.serve.store import Store
from nemesis.serve.summary import Standing, Summary
from tests.serve.stores import write_run

NOW_S = 1_000_000.0
DAY_S = 86_400.0


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The folder of a run of the harness."""
    return write_run(tmp_path / "pattern")


def _stored(folder: Path, name: str, standing: Standing, days: float, size: int = 10) -> Stored:
    run = Summary(name=name, standing=standing)
    return Stored(run=run, folder=folder, size=size, touched_s=NOW_S - days * DAY_S)


def _names(going: Iterable[Stored]) -> list[str]:
    return [one.run.name for one in going]


def test_verdict_and_age_must_both_be_so(recorded: Path) -> None:
    """Of the runs of the verdict, only those that are old enough go, the oldest first."""
    stored = [
        _stored(recorded, "new", Standing.VALID, 1),
        _stored(recorded, "old", Standing.VALID, 8),
        _stored(recorded, "older", Standing.VALID, 9),
        _stored(recorded, "bad", Standing.INVALID, 9),
    ]

    assert _names(Rules(standings=(Standing.VALID,), older_than_s=7 * DAY_S).going(stored, NOW_S)) == ["older", "old"]
    assert _names(Rules(standings=(Standing.INVALID,)).going(stored, NOW_S)) == ["bad"]


def test_as_many_go_as_the_size_asks_for(recorded: Path) -> None:
    """The oldest first, and none once all runs fit; runs that may not go count as well."""
    stored = [_stored(recorded, str(days), Standing.VALID, days) for days in (1, 2, 3, 4)]
    stored.append(_stored(recorded, "kept", Standing.INVALID, 9))
    valid = (Standing.VALID,)

    assert _names(Rules(standings=valid, size_max=30).going(stored, NOW_S)) == ["4", "3"]
    assert _names(Rules(standings=valid, size_max=50).going(stored, NOW_S)) == []
    assert _names(Rules(standings=valid, size_max=0).going(stored, NOW_S)) == ["4", "3", "2", "1"]


def test_a_run_that_was_judged_while_it_goes_on_stays(tmp_path: Path) -> None:
    """A verdict on what a run has recorded so far does not end it: its history is not closed."""
    going_on = write_run(tmp_path / "going-on", verdict="unknown", is_over=False)
    stored = [_stored(going_on, "going-on", Standing.UNKNOWN, (SETTLED_S - 1) / DAY_S)]
    assert _names(Rules(size_max=0).going(stored, NOW_S)) == []


def test_what_was_left_half_removed_goes_as_well(store: Path) -> None:
    """A removal that was interrupted does not stand in the way of the next one."""
    opened = Store(store)
    (one, *_) = stored_runs(opened)
    half = one.folder.with_name(f".going-{one.folder.name}")
    half.mkdir()
    (half / "test.json").write_text("{}")
    assert remove(opened, [one]) == one.size
    assert not half.exists()
    assert not one.folder.exists()


def test_what_may_go_on_stays(recorded: Path) -> None:
    """A run that goes on never goes, and one that has no verdict only when it was left alone for long."""
    fresh, settled = (SETTLED_S - 1) / DAY_S, (SETTLED_S + 1) / DAY_S
    stored = [
        _stored(recorded, "running", Standing.RUNNING, 99),
        _stored(recorded, "fresh", Standing.NOT_JUDGED, fresh),
        _stored(recorded, "settled", Standing.NOT_JUDGED, settled),
    ]

    assert _names(Rules(size_max=0).going(stored, NOW_S)) == ["settled"]


def test_what_is_no_run_of_the_harness_stays(tmp_path: Path) -> None:
    """A folder that only has one named history in it is somebody else's."""
    (tmp_path / "project" / "history").mkdir(parents=True)
    (tmp_path / "project" / "history" / "thesis.txt").write_text("years of work")
    (tmp_path / "recorded" / "history").mkdir(parents=True)
    (tmp_path / "recorded" / "test.json").write_text("{}")
    for name in ("project", "recorded"):
        for folder in (tmp_path / name, tmp_path / name / "history"):
            os.utime(folder, (NOW_S, NOW_S))

    assert _names(Rules(size_max=0).going(stored_runs(Store(tmp_path)), NOW_S + DAY_S)) == ["recorded"]


def _age(folder: Path, days: float) -> None:
    """Let a run have been written to so long ago."""
    at = time.time() - days * DAY_S
    for path in (folder, folder / "history", folder / "logs", folder / "events"):
        os.utime(path, (at, at))


def test_nothing_else_is_removed(store: Path) -> None:
    """The runs that go are gone, and everything else in the store and beside it is as it was."""
    (store / "append" / "notes.txt").write_text("mine")
    (store / "soak.json").write_text("{}")
    outside = write_run(store.parent / "outside")
    (store / "append" / "linked").symlink_to(outside)
    (store / "append" / "20260102T030405" / "nodes").symlink_to(outside)
    opened = Store(store)
    going = Rules(standings=(Standing.VALID,)).going(stored_runs(opened), time.time())
    size = sum(one.size for one in going)

    assert _names(going) == ["append/20260102T030405"]
    assert remove(opened, going) == size > 0
    assert sorted(path.name for path in (store / "append").iterdir()) == [
        "20260103T030405",
        "latest",
        "linked",
        "notes.txt",
    ]
    assert (outside / "test.json").is_file()


def test_the_latest_points_to_what_is_left(store: Path) -> None:
    """When the run that it points to goes, it points to the newest of the others; without others there is none."""
    opened = Store(store)
    remove(opened, Rules(standings=(Standing.INVALID,)).going(stored_runs(opened), time.time()))
    assert os.readlink(store / "append" / "latest") == "20260102T030405"

    remove(opened, Rules(standings=(Standing.VALID,)).going(stored_runs(opened), time.time()))
    assert list((store / "append").iterdir()) == []


def test_a_run_that_changed_meanwhile_stays(store: Path) -> None:
    """Between the choice and the removal it was judged anew: it is another run now."""
    opened = Store(store)
    going = Rules(standings=(Standing.VALID,)).going(stored_runs(opened), time.time())
    results = store / "append" / "20260102T030405" / "results.json"
    results.write_text(results.read_text().replace('"verdict": "valid"', '"verdict": "invalid"'))

    assert remove(opened, going) == 0
    assert results.exists()


def _gc(store: Path, *options: str) -> tuple[int, str]:
    told = CliRunner().invoke(gc, ["--store", str(store), *options])
    return told.exit_code, told.output


def test_without_delete_nothing_is_deleted(store: Path) -> None:
    """What would go is told, one line each, and is still there."""
    code, told = _gc(store, "--verdict", "valid,invalid")

    assert code == 0
    assert "20260102T030405  valid" in told
    assert "20260103T030405  invalid" in told
    assert "2 of 3 runs would go" in told
    assert len(list(Store(store).names())) == 3


def test_with_delete_they_are_gone(store: Path) -> None:
    """Those that were told, and no others."""
    _age(store / "append" / "20260102T030405", 3)
    code, told = _gc(store, "--older-than", "2d", "--delete")

    assert code == 0
    assert "20260102T030405  valid" in told
    assert "3.0 days old" in told
    assert sorted(Store(store).names()) == ["append/20260103T030405", "register/20260104T030405"]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--delete",),
        ("--verdict", "running"),
        ("--verdict", ""),
        ("--verdict", "splendid"),
        ("--older-than", "5"),
        ("--older-than", "-5d"),
        ("--older-than", "5 years"),
        ("--max-size", "10"),
        ("--max-size", "10GB"),
    ],
)
def test_what_it_cannot_mean_is_refused(store: Path, options: tuple[str, ...]) -> None:
    """Nothing is deleted by a rule that was not understood, or by none."""
    assert _gc(store, *options)[0] == 2
    assert len(list(Store(store).names())) == 3
