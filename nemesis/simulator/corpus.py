"""What a sweep leaves: one row a run, and on demand the histories of all runs, as Arrow tables and as Parquet.

Owns the columns of ``runs``, and that the other tables are those of ``nemesis.history`` with their run's name in front.
A row is complete in itself: with its command anybody repeats the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history import RunEvent
from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.history.tables import table_of
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.sweep import Lost
from nemesis.simulator.world import Observer
from nemesis.variants.worlds import WorldKind

RUNS = "runs"
_RUN_ID = pa.field("run_id", pa.string())
RUN_SCHEMA = pa.schema(
    [
        _RUN_ID,
        pa.field("seed", pa.int64()),
        pa.field("world", pa.string()),
        pa.field("variant", pa.string()),
        pa.field("time_limit_s", pa.float64()),
        pa.field("verdict", pa.string()),
        pa.field("violation", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("at_ms", pa.int64()),
        pa.field("reasons", pa.list_(pa.string())),
        pa.field("not_promised", pa.list_(pa.string())),
        pa.field("rare", pa.map_(pa.string(), pa.int64())),
        pa.field("simulated_ms", pa.int64()),
        pa.field("steps", pa.int64()),
        pa.field("acknowledged", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("command", pa.string()),
    ]
)
TABLES: Mapping[str, pa.Schema] = {RUNS: RUN_SCHEMA} | {
    kind.value: pa.schema([_RUN_ID, *(field.with_nullable(True) for field in schema)])
    for kind, schema in SCHEMAS.items()
}
"""The tables of a corpus by name. Each is a folder of Parquet files."""
GROUP_ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """How one run ended, as a row of ``runs``.

    ``verdict`` is absent where there is none because the harness failed; then ``error`` says how. ``violation``,
    ``detail`` and ``at_ms`` say of what an invalid run was convicted first, and when in virtual time. ``not_promised``
    says what did not hold in it and need not. ``rare`` counts
    what happens seldom, by name, without those that did not happen. ``command`` repeats the run.
    """

    run_id: str
    seed: int
    world: str
    variant: str | None
    time_limit_s: float
    verdict: str | None
    violation: str | None = None
    detail: str | None = None
    at_ms: int | None = None
    reasons: Sequence[str] = ()
    not_promised: Sequence[str] = ()
    rare: Mapping[str, int]
    simulated_ms: int = 0
    steps: int = 0
    acknowledged: int = 0
    error: str | None = None
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """One run of a sweep: its row, and its tables if they were asked for."""

    row: RunRow
    tables: Mapping[str, pa.Table]


def repeat_command(options: SimOptions) -> str:
    """The command that repeats a run."""
    world = "" if options.world is WorldKind.QUORUM else f" --world {options.world}"
    variant = "" if options.variant is None else f" --variant {options.variant}"
    limit_s = options.time_limit_s
    limit = f"{int(limit_s) if limit_s % 1 == 0 else limit_s}"
    return f"nemesis sim --seed {options.seed}{world}{variant} --time-limit {limit}"


def run_seed(options: SimOptions, with_tables: bool, seed: int, observers: Sequence[Observer] = ()) -> SeedResult:
    """Simulate ``options`` with another seed. Raises whatever the simulator itself stumbles over."""
    run = simulate(replace(options, seed=seed), observers)
    row = row_of(run)
    return SeedResult(row=row, tables=_tables(run, row) if with_tables else {})


def row_of(run: Run) -> RunRow:
    """How a run ended."""
    outcome, options, violation = run.outcome, run.options, run.outcome.violation
    return RunRow(
        **_names(options),
        verdict=outcome.verdict.value,
        violation=None if violation is None else violation.name,
        detail=None if violation is None else violation.detail,
        at_ms=None if violation is None else violation.at_ms,
        reasons=outcome.reasons,
        not_promised=outcome.not_promised,
        rare=dict(outcome.rare),
        simulated_ms=outcome.simulated_ms,
        steps=outcome.steps,
        acknowledged=outcome.acknowledged,
    )


def lost_result(options: SimOptions, seed: int, lost: Lost) -> SeedResult:
    """What stands for a run that the harness itself has failed to bring to its end: a row without a verdict."""
    row = RunRow(**_names(replace(options, seed=seed)), verdict=None, rare={}, error=lost.error)
    return SeedResult(row=row, tables={RUNS: runs_table([row])})


def _names(options: SimOptions) -> dict[str, Any]:
    kinds = [] if options.world is WorldKind.QUORUM else [options.world.value]
    kinds += [] if options.variant is None else [options.variant]
    return {
        "run_id": "-".join([*kinds, f"{options.seed}"]),
        "seed": options.seed,
        "world": options.world.value,
        "variant": options.variant,
        "time_limit_s": options.time_limit_s,
        "command": repeat_command(options),
    }


def runs_table(rows: Iterable[RunRow]) -> pa.Table:
    """Rows as ``RUN_SCHEMA``."""
    return pa.Table.from_pylist([{**asdict(row), "rare": list(row.rare.items())} for row in rows], schema=RUN_SCHEMA)


def rows_of(runs: pa.Table) -> list[RunRow]:
    """``RUN_SCHEMA`` as rows."""
    return [
        RunRow(**{**row, "rare": dict(row["rare"]), **{name: tuple(row[name]) for name in ("reasons", "not_promised")}})
        for row in runs.to_pylist()
    ]


def _tables(run: Run, row: RunRow) -> dict[str, pa.Table]:
    record = run.record
    rows: Mapping[Kind, Sequence[RunEvent]] = {
        Kind.HISTORY: record.history,
        Kind.LOGS: record.logs,
        Kind.EVENTS: record.events,
    }
    return {RUNS: runs_table([row])} | {
        kind.value: _named(table_of(kind, events), row.run_id).cast(TABLES[kind.value]) for kind, events in rows.items()
    }


def _named(table: pa.Table, run_id: str) -> pa.Table:
    return table.add_column(0, _RUN_ID, pa.array([run_id] * table.num_rows, pa.string()))


def tables_of_seeds(options: SimOptions, with_tables: bool, seeds: Iterable[int]) -> Iterator[tuple[str, pa.Table]]:
    """Simulate all these seeds: pairs of the name of a table and rows of it. What fails is told in its row."""
    for seed in seeds:
        try:
            result = run_seed(options, with_tables, seed)
        except Exception as error:
            result = lost_result(options, seed, Lost(error="".join(traceback.format_exception(error))))
        yield from (result.tables or {RUNS: runs_table([result.row])}).items()


class CorpusWriter:
    """Writes a corpus into ``folder``, one Parquet file a table, row group by row group while the sweep goes on.

    Raises ``FileExistsError`` when there is a corpus already.
    """

    def __init__(self, folder: Path) -> None:
        check_is_free(folder)
        self._files = {}
        self._waiting: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        for name, schema in TABLES.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            self._files[name] = pq.ParquetWriter(
                folder / name / "part-00000.parquet", schema, write_page_checksum=True, compression="zstd"
            )

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name, file in self._files.items():
            self._flush(name)
            file.close()

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Take the rows of one run."""
        for name, rows in tables.items():
            self._waiting[name].append(rows)
            if sum(table.num_rows for table in self._waiting[name]) >= GROUP_ROWS:
                self._flush(name)

    def _flush(self, name: str) -> None:
        if self._waiting[name]:
            self._files[name].write_table(pa.concat_tables(self._waiting[name]))
            self._waiting[name] = []


def check_is_free(folder: Path) -> None:
    """Raise ``FileExistsError`` where a corpus would be written over another one."""
    for name in TABLES:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists already: give a new folder")
