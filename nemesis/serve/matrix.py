"""Runs as a matrix: a row for what was run, a cell for each seed.

Owns the rows: of runs that are in the store, and of a sweep's document, which also tells of runs that are there no more
or came to no verdict.

How the runs of each commit ended, as the bars of a small drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from nemesis.serve.store import DEPTH_MAX, NotInStoreError, Store
from nemesis.serve.summary import Standing, Summary, read_json, text_of, texts_of

COLUMNS_MAX = 40
"""With more seeds than these a row is a list of its own cells, and not a line of a table."""
CELLS_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run. ``name`` is None where it is not in the store; ``told`` is what is said of it."""

    seed: str
    standing: Standing
    name: str | None
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was run, and with which seeds it ended how; of a seed that was run again, the first cell is the newest."""

    combination: str
    cells: Sequence[Cell]

    def of(self, seed: str) -> Sequence[Cell]:
        """The cells of one seed."""
        return [cell for cell in self.cells if cell.seed == seed]

    def count(self, standing: Standing) -> int:
        """How many of its cells ended so."""
        return sum(cell.standing is standing for cell in self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """``title`` is empty for the runs of the store; ``is_whole`` is false of a sweep that was interrupted."""

    title: str
    rows: Sequence[Row]
    is_whole: bool = True

    @property
    def seeds(self) -> Sequence[str]:
        """The columns, in the order of numbers; none where there are too many."""
        found = {cell.seed for row in self.rows for cell in row.cells}
        return sorted(found, key=lambda seed: (len(seed), seed)) if len(found) <= COLUMNS_MAX else ()


def matrix_of_runs(runs: Iterable[Summary]) -> Matrix:
    """The matrix of runs that are in the store."""
    pairs = [(run.combination, _cell(run)) for _, run in zip(range(CELLS_MAX), runs, strict=False)]
    return Matrix(title="", rows=_rows(pairs))


def matrix_of_sweep(store: Store, name: str) -> Matrix:
    """The matrix of a sweep's document. Raises NotInStoreError where there is none, or it is none."""
    document = read_json(store.document(name))
    runs = document.get("runs")
    if not isinstance(runs, list):
        raise NotInStoreError(f"{name} is not what nemesis soak writes")
    played = [run for run in runs[:CELLS_MAX] if isinstance(run, dict)]
    pairs = [(text_of(run.get("combination")), _played_cell(store, run)) for run in played]
    title = text_of(document.get("name")) or name
    return Matrix(title=title, rows=_rows(pairs), is_whole=document.get("complete") is not False)


def sweeps_of(store: Store) -> list[str]:
    """The names of the documents of sweeps that are in the store."""
    return [name for name in store.documents() if isinstance(read_json(store.root / name).get("runs"), list)]


def _rows(pairs: Iterable[tuple[str, Cell]]) -> Sequence[Row]:
    rows: dict[str, list[Cell]] = {}
    for combination, cell in pairs:
        rows.setdefault(combination, []).append(cell)
    return [Row(combination=combination, cells=cells) for combination, cells in sorted(rows.items())]


def _cell(run: Summary) -> Cell:
    seed = "no seed" if run.seed is None else str(run.seed)
    return Cell(seed=seed, standing=run.standing, name=run.name, told="; ".join(run.reasons))


def _played_cell(store: Store, run: Mapping[str, Any]) -> Cell:
    verdict = text_of(run.get("verdict"))
    judged = verdict in (Standing.VALID, Standing.INVALID, Standing.UNKNOWN)
    return Cell(
        seed=text_of(run.get("seed")),
        standing=Standing(verdict) if judged else Standing.NOT_JUDGED,
        name=_name_in(store, text_of(run.get("run"))),
        told="; ".join(texts_of(run.get("reasons"))),
    )


def _name_in(store: Store, path: str) -> str | None:
    """The run that a sweep's document names by the path that it had: the store may have been moved since."""
    parts = PurePath(path).parts
    for length in range(min(len(parts), DEPTH_MAX + 1), 0, -1):
        name = "/".join(parts[-length:])
        try:
            store.folder(name)
        except NotInStoreError:
            continue
        return name
    return None


COMMITS_MAX = 40
HEIGHT, BAR_WIDTH, BAR_STEP = 64.0, 14, 18
DRAWN = (Standing.VALID, Standing.UNKNOWN, Standing.INVALID)
"""From the bottom of a bar to its top; what has no verdict is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a bar: how many runs of one verdict, from ``y`` downwards."""

    standing: Standing
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One commit, with the time of its first run. ``pieces`` lie above each other, and are as high as their share."""

    commit: str
    since: str
    counts: Mapping[Standing, int]
    x: int
    pieces: Sequence[Piece]

    @property
    def told(self) -> str:
        """Its runs in words."""
        return ", ".join(f"{self.counts[one]} {one}" for one in DRAWN if self.counts.get(one))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The last commits, the oldest first. ``left_out`` is how many older ones are not drawn."""

    bars: Sequence[Bar]
    left_out: int

    @property
    def width(self) -> int:
        """Of the drawing."""
        return max(len(self.bars) * BAR_STEP, 1)


def trend_of(runs: Iterable[Summary]) -> Trend:
    """The trend of those runs that have a verdict and whose commit is known."""
    counts: dict[str, Counter[Standing]] = {}
    since: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: run.started_at):
        if run.commit and run.standing in DRAWN:
            since.setdefault(run.commit, run.started_at)
            counts.setdefault(run.commit, Counter())[run.standing] += 1
    shown = list(counts)[-COMMITS_MAX:]
    bars = [
        Bar(commit=commit, since=since[commit], counts=counts[commit], x=at * BAR_STEP, pieces=_pieces(counts[commit]))
        for at, commit in enumerate(shown)
    ]
    return Trend(bars=bars, left_out=len(counts) - len(shown))


def _pieces(counts: Mapping[Standing, int]) -> Sequence[Piece]:
    """All bars are equally high: what counts is the share of what is not valid."""
    total, top = sum(counts.values()), HEIGHT
    pieces = []
    for standing in DRAWN:
        if counts.get(standing):
            height = HEIGHT * counts[standing] / total
            top -= height
            pieces.append(Piece(standing=standing, y=round(top, 1), height=round(height, 1)))
    return pieces
