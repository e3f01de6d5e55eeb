"""A run in one row, whatever its files hold, and read only once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemesis.serve.store import Store
from nemesis.serve.summary import SILENT_S_MAX, Standing, Summaries
from tests.serve.stores import write_run

_opened: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_note)


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The files that are opened within."""
    global _opened  # noqa: PLW0603 - a hook of the interpreter cannot be taken off again
    found: list[str] = []
    _opened = found
    try:
        yield found
    finally:
        _opened = None


def test_a_run_is_told_in_a_row(store: Path) -> None:
    """The row has what was run, where, and how it ended."""
    run = Summaries(Store(store)).one("append/20260103T030405")

    assert run.standing is Standing.INVALID
    assert (run.workload, run.system, run.seed, run.commit) == ("append", "highwater", 8, "abc123def456")
    assert run.faults == ("partition", "kill")
    assert run.reasons == ("lost-write: 1",)
    assert run.found == {"lost-write": 1}
    assert run.duration_s == pytest.approx(0.3)


def test_the_newest_run_comes_first(store: Path) -> None:
    """The order is that of their beginnings."""
    assert [run.name[-15:-7] for run in Summaries(Store(store)).all()] == ["20260104", "20260103", "20260102"]


def test_a_run_that_grows_is_running(tmp_path: Path) -> None:
    """Without an end and a verdict, a run that was written to lately goes on; after a long silence it does not."""
    run = write_run(tmp_path / "store" / "run", verdict=None, is_over=False)
    summaries = Summaries(Store(tmp_path / "store"))
    assert summaries.one("run").standing is Standing.RUNNING

    before = (run / "history").stat().st_mtime - SILENT_S_MAX - 1
    os.utime(run / "history", (before, before))
    assert summaries.one("run").standing is Standing.NOT_JUDGED


def test_a_run_that_has_ended_is_not_running(tmp_path: Path) -> None:
    """A closed history waits for its verdict, however new it is."""
    write_run(tmp_path / "store" / "run", verdict=None)

    assert Summaries(Store(tmp_path / "store")).one("run").standing is Standing.NOT_JUDGED


def test_a_verdict_that_comes_later_is_seen(store: Path) -> None:
    """What was read is read again when it has changed."""
    summaries = Summaries(Store(store))
    assert summaries.one("register/20260104T030405").standing is Standing.NOT_JUDGED
    shutil.copy(store / "append/20260102T030405/results.json", store / "register/20260104T030405")

    assert summaries.one("register/20260104T030405").standing is Standing.VALID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "null",
        '{"verdict": 5}',
        '{"verdict": "splendid"}',
        "\x00",
        "[" * 100_000,
        '{"verdict": "\\ud800"}',
    ],
)
def test_whatever_the_documents_hold_there_is_a_row(store: Path, text: str) -> None:
    """A document that is damaged, of another form or too deep leaves the run without what it would say."""
    folder = store / "append/20260102T030405"
    for name in ("test.json", "results.json"):
        (folder / name).write_text(text, encoding="utf-8")
    run = Summaries(Store(store)).one("append/20260102T030405")

    assert run.standing is Standing.NOT_JUDGED
    assert run.workload == ""


@pytest.mark.parametrize("value", [None, 5, "text", [], [[1]], {"a": 1}, 10**400, True, 1.5])
def test_values_of_another_kind_break_nothing(store: Path, value: object) -> None:
    """Whatever stands where a text, a number or a list is usual, the row comes out."""
    folder = store / "append/20260102T030405"
    usual = json.loads((folder / "test.json").read_text())
    odd = dict.fromkeys(usual, value) | {"options": dict.fromkeys(usual["options"], value)}
    for document in (odd, dict.fromkeys(usual, value)):
        (folder / "test.json").write_text(json.dumps(document))
        run = Summaries(Store(store)).one("append/20260102T030405")
        assert run.standing is Standing.VALID
        assert isinstance(run.combination, str)
        assert run.started is None


@pytest.mark.slow
def test_a_thousand_runs_are_read_once(tmp_path: Path) -> None:
    """The first list opens at most three files of each run, and the next one none at all."""
    pattern = write_run(tmp_path / "pattern")
    for number in range(1000):
        run = tmp_path / "store" / "append" / f"{number:04d}"
        shutil.copytree(pattern, run, copy_function=os.link)
    summaries = Summaries(Store(tmp_path / "store"))
    with opened_files() as first:
        assert len(summaries.all()) == 1000
    with opened_files() as second:
        assert len(summaries.all()) == 1000

    assert 2000 < len(first) <= 3000
    assert second == []
