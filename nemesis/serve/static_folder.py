"""The list, the matrix and the runs' pages as files, for those who have a place for files but no server: CI artifacts.

Owns the layout: ``index.html``, ``matrix.html``, ``runs/<run>/index.html``, with the run's report beside it, and
``assets``. What asks the store anew is left out: SQL, tables, comparisons, runs that go on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from nemesis.serve.choice import Choice, values_of
from nemesis.serve.detail import REPORT_NAME, detail_of
from nemesis.serve.matrix import matrix_of_runs, trend_of
from nemesis.serve.pages import ASSETS, Links, render
from nemesis.serve.store import NotInStoreError, Store, open_plain
from nemesis.serve.summary import Summaries, Summary

STATIC_ASSETS = ("style.css", "list.js")
LINKS = Links(root="", is_static=True)


def write_static(root: Path, target: Path, *, with_reports: bool = True) -> int:
    """Write the pages of the store in ``root`` into ``target``; returns how many runs have one.

    What is in ``target`` already is overwritten where it has the same name, and else left. Raises NotADirectoryError
    when there is no such store, OSError where nothing can be written.
    """
    store = Store(root)
    runs = Summaries(store).all()
    for path, page in _pages(store, runs):
        _write(target / path, page)
    (target / "assets").mkdir(exist_ok=True)
    for name in STATIC_ASSETS:
        shutil.copyfile(ASSETS / name, target / "assets" / name)
    if with_reports:
        for run in runs:
            _copy_report(store.folder(run.name), target / "runs" / run.name)
    return len(runs)


def _pages(store: Store, runs: list[Summary]) -> Iterator[tuple[str, str]]:
    """Every page with its path."""
    yield (
        "index.html",
        render(
            "list.html.j2",
            LINKS,
            choice=Choice(),
            values=values_of(runs),
            total=len(runs),
            count=len(runs),
            runs=runs,
            start=0,
            page_runs=len(runs),
            trend=trend_of(runs),
        ),
    )
    yield "matrix.html", render("matrix.html.j2", LINKS, matrix=matrix_of_runs(runs), choice=Choice(), sweeps=())
    for run in runs:
        links = Links(root="../" * (run.name.count("/") + 2), is_static=True)
        detail = detail_of(run, store.folder(run.name))
        yield f"runs/{run.name}/index.html", render("run.html.j2", links, detail=detail, run=run, live=None)


def _write(path: Path, page: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _copy_report(folder: Path, target: Path) -> None:
    try:
        opened = open_plain(folder / REPORT_NAME)
    except NotInStoreError:
        return
    with opened, (target / REPORT_NAME).open("wb") as copy:
        shutil.copyfileobj(opened, copy)
