"""How fast operations on many objects are judged: in this process and on Spark, at sizes that grow tenfold.

Owns the histories, which are registers with unique writes, a hundred operations an object, a quarter of the objects
with compare-and-sets and one write in a hundred of unknown outcome. A few objects are spoiled, and exactly those must
be found. They are generated in parts, so that memory bounds no size. The time is that after the start of the session,
with what the first Python workers cost in it. CPU seconds are those of all processes: on a machine that does other
things as well they say more. Writes ``store/bench-pipeline.json``, anew after each measurement.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from benchmarks.result import write_result
from benchmarks.watch import Watch, disk_bytes
from nemesis.linearizability.arrays.columns import Ending, Function
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.corpora.engine import judge_store
from nemesis.pipeline.corpora.results import Results
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS
from nemesis.pipeline.corpora.store import OperationWriter
from nemesis.pipeline.session import java_available

SIZES = (100_000, 1_000_000, 10_000_000)
EACH = 100
"""Operations an object."""
PART_OBJECTS = 10_000
SPOILED = 12
MASTER = "local[2]"
MIB = 1024 * 1024


def part(first: int, objects: int, spoiled: set[int], seed: int) -> pa.Table:
    """The operations of ``objects`` objects from ``first`` on, in the order of time.

    Operation ``k`` of an object takes effect at ``10 k``: a write of ``k / 3``, or two reads of it.
    """
    random = np.random.default_rng((seed, first))
    rows = objects * EACH
    object_ = np.tile(np.arange(first, first + objects), EACH)
    place = np.repeat(np.arange(EACH), objects)
    is_write, value = place % 3 == 0, place // 3
    is_cas = is_write & (object_ % 4 == 0) & (value > 0)
    is_spoiled = np.isin(object_, list(spoiled))
    unknown = is_write & ~is_spoiled & (random.random(rows) < 0.01)
    begun = place * 10 - random.integers(1, 15, rows) + 20
    ended = place * 10 + random.integers(1, 15, rows) + 20
    seen = _spoil(value, place, is_spoiled, object_)
    return pa.table(
        {
            "object": object_,
            "process": place % 4,
            "line": np.arange(rows) + 1,
            "function": np.where(is_cas, Function.CAS, np.where(is_write, Function.WRITE, Function.READ)),
            "ending": np.where(unknown, Ending.INFO, Ending.OK),
            "argument": pa.array(np.where(is_cas, value - 1, value), mask=~is_write),
            "second": pa.array(value, mask=~is_cas),
            "result": pa.array(seen, mask=is_write),
            "invoked": begun,
            "returned": pa.array(ended, mask=unknown),
            "records": pa.nulls(rows, pa.list_(pa.int64())),
            "text": pa.nulls(rows, pa.string()),
        }
    ).cast(OPERATION_ROWS)


def _spoil(value: np.ndarray, place: np.ndarray, is_spoiled: np.ndarray, object_: np.ndarray) -> np.ndarray:
    """What reads return: of a spoiled object, the one in the middle returns what it cannot have seen.

    By turns a value long gone, one that comes much later, and one that nobody writes.
    """
    middle = is_spoiled & (place == EACH // 2 - EACH // 2 % 3 + 2)
    wrong = np.where(object_ % 3 == 0, value - 4, np.where(object_ % 3 == 1, value + 4, -7))
    return np.where(middle, wrong, value)


def generate(folder: Path, operations: int, seed: int) -> set[int]:
    """Write a history of so many operations; which objects are spoiled."""
    objects = operations // EACH
    random = np.random.default_rng(seed)
    spoiled = set(random.choice(objects, min(SPOILED, objects), replace=False).tolist())
    writer = OperationWriter(folder)
    for first in range(0, objects, PART_OBJECTS):
        writer.add(part(first, min(PART_OBJECTS, objects - first), spoiled, seed))
    return spoiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What it took: wall time, CPU time of all processes, and the peaks of memory and of disk."""

    engine: str
    operations: int
    objects: int
    spoiled: int
    """How many objects were found not to be right: exactly those that were spoiled."""
    seconds: float
    cpu_seconds: float
    operations_per_s: int
    operations_per_cpu_s: int
    peak_mib: int
    peak_python_mib: int
    """Of the one Python process that took most."""
    history_mib: float
    scratch_mib: float
    """What the engine put aside, beside the history."""


def measure(engine: str, folder: Path, operations: int, spoiled: set[int]) -> Measured:
    """Judge a folder. Raises AssertionError unless exactly the spoiled objects are found."""
    with tempfile.TemporaryDirectory(prefix="aside-", dir=folder.parent) as aside:
        tempfile.tempdir = os.environ["SPARK_LOCAL_DIRS"] = aside
        if engine == "local":
            return _measured(engine, folder, operations, spoiled, None)
        from nemesis.pipeline.session import spark_session

        with spark_session(MASTER) as session:
            return _measured(engine, folder, operations, spoiled, session)


def _measured(engine: str, folder: Path, operations: int, spoiled: set[int], session: object) -> Measured:
    watch = Watch(Path(tempfile.gettempdir()))
    watch.look()
    cpu_before, begun = watch.cpu, time.perf_counter()
    with watch.running():
        results = judge_store(folder, CasRegister(), engine=engine, spark=session)  # type: ignore[arg-type]  # no pyspark here
    seconds = time.perf_counter() - begun
    cpu = watch.cpu - cpu_before
    _check_found(results, operations, spoiled)
    return Measured(
        engine=engine if session is None else f"{engine} {MASTER}",
        operations=operations,
        objects=results.keys.num_rows,
        spoiled=results.anomalies.num_rows,
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu, 2),
        operations_per_s=round(operations / seconds),
        operations_per_cpu_s=round(operations / cpu) if cpu else 0,
        peak_mib=watch.peak // MIB,
        peak_python_mib=watch.peak_python // MIB,
        history_mib=round(disk_bytes(folder) / MIB, 1),
        scratch_mib=round(watch.peak_disk / MIB, 1),
    )


def _check_found(results: Results, operations: int, spoiled: set[int]) -> None:
    """Assert that exactly the spoiled objects are invalid, and that no other is unknown or missing."""
    found = set(results.anomalies.column("object").to_pylist())
    assert found == spoiled, f"found {sorted(found)}, and {sorted(spoiled)} are spoiled"
    verdicts = results.anomalies.column("verdict").to_pylist()
    assert verdicts == ["invalid"] * len(spoiled), f"{verdicts}"
    assert results.keys.num_rows == operations // EACH, f"{results.keys.num_rows} objects"


def figures(sizes: tuple[int, ...], engines: tuple[str, ...], scratch: Path, seed: int) -> Iterator[Measured]:
    """Every measurement, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    for operations in sizes:
        folder = scratch / str(operations)
        spoiled = generate(folder, operations, seed)
        for engine in engines:
            with context.Pool(1) as pool:
                yield pool.apply(measure, (engine, folder, operations, spoiled))
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How many times as much one size takes as the one before it."""

    engine: str
    before: int
    operations: int
    times_operations: float
    times_seconds: float
    times_cpu_seconds: float
    times_peak_mib: float


def growth(rows: Sequence[Measured]) -> list[Growth]:
    """From each size to the next, for each engine; nothing of a single size."""
    engines = dict.fromkeys(row.engine for row in rows)
    return [
        Growth(
            engine=engine,
            before=earlier.operations,
            operations=later.operations,
            times_operations=round(later.operations / earlier.operations, 2),
            times_seconds=round(later.seconds / earlier.seconds, 2),
            times_cpu_seconds=round(later.cpu_seconds / max(earlier.cpu_seconds, 0.01), 2),
            times_peak_mib=round(later.peak_mib / earlier.peak_mib, 2),
        )
        for engine in engines
        for earlier, later in pairwise([row for row in rows if row.engine == engine])
    ]


def told(row: Measured) -> str:
    """One measurement, as a sentence."""
    return (
        f"{row.engine}: {row.operations} operations on {row.objects} objects, {row.seconds} s, "
        f"{row.operations_per_s} a second; {row.cpu_seconds} s of CPU; memory {row.peak_mib} MiB in all, "
        f"{row.peak_python_mib} MiB in one Python process; disk {row.history_mib} MiB of history, "
        f"{row.scratch_mib} MiB beside it; {row.spoiled} spoiled objects found"
    )


@click.command()
@click.option("--operations", type=click.IntRange(EACH), multiple=True, help="Sizes.  [default: 10^5, 10^6, 10^7]")
@click.option("--engine", type=click.Choice(["local", "spark"]), multiple=True, help="Without: both.")
@click.option(
    "--scratch",
    type=click.Path(file_okay=False, path_type=Path),
    help="For histories and what engines put aside.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-pipeline.json"))
def main(operations: tuple[int, ...], engine: tuple[str, ...], scratch: Path | None, seed: int, output: Path) -> None:
    """Measure both engines, print the figures and write them as JSON."""
    engines = engine or ("local", "spark")
    available, reason = java_available()
    if not available and "spark" in engines:
        click.echo(f"Spark is not measured: {reason}", err=True)
        engines = tuple(name for name in engines if name != "spark")
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
        scratch = scratch.resolve()
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-", dir=scratch) as folder:
        for row in figures(operations or SIZES, engines, Path(folder), seed):
            rows.append(row)
            click.echo(told(row))
            grown = [asdict(step) for step in growth(rows)]
            # Written after each: the next size may take an hour.
            write_result(output, rows=[asdict(row) for row in rows], growth=grown)
    for step in growth(rows):
        click.echo(
            f"{step.engine}: {step.times_operations} times the operations take {step.times_seconds} times the time, "
            f"{step.times_cpu_seconds} times the CPU time and {step.times_peak_mib} times the memory"
        )


if __name__ == "__main__":
    main()
