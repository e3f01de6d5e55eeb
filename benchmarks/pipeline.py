"""How fast operations on many objects are judged: in this process and on Spark, at sizes that grow tenfold.

Owns the histories, which are registers with unique writes, a hundred operations an object, a quarter of the objects
with compare-and-sets and one write in a hundred of unknown outcome. A few objects are spoiled, and exactly those must
be found. They are generated in parts, so that memory bounds no size. The time is that after the start of the session,
with what the first Python workers cost in it. CPU seconds are those of all processes: on a machine that does other
things as well they say more. Writes ``store/bench-pipeline.json``.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import psutil
import pyarrow as pa

from nemesis.linearizability.arrays.columns import Ending, Function
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.java import java_available
from nemesis.pipeline.objects.engine import judge_store
from nemesis.pipeline.objects.schemas import OPERATION_ROWS
from nemesis.pipeline.objects.store import OperationWriter
from nemesis.runner import versions

SIZES = (100_000, 1_000_000, 10_000_000)
EACH = 100
"""Operations an object."""
PART_OBJECTS = 10_000
SPOILED = 12
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
    """What it took: wall time and CPU time of all processes, and the peaks of memory."""

    engine: str
    operations: int
    objects: int
    invalid: int
    seconds: float
    cpu_seconds: float
    operations_per_s: int
    operations_per_cpu_s: int
    peak_mib: int
    peak_python_mib: int
    """Of the one Python process that took most."""


class _Watch:
    """Memory and CPU time of this process and all below it, looked at twice a second."""

    def __init__(self) -> None:
        self.peak = self.peak_python = 0
        self._cpu: dict[int, float] = {}
        self._over = threading.Event()

    def look(self) -> None:
        """Take one look."""
        total = 0
        here = psutil.Process()
        for process in [here, *here.children(recursive=True)]:
            try:
                size, times = process.memory_info().rss, process.cpu_times()
                name = process.name()
            except psutil.NoSuchProcess:
                continue
            self._cpu[process.pid] = times.user + times.system
            total += size
            if "python" in name:
                self.peak_python = max(self.peak_python, size)
        self.peak = max(self.peak, total)

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes that were seen."""
        return sum(self._cpu.values())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look on meanwhile."""

        def watch() -> None:
            while not self._over.wait(0.5):
                self.look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self.look()


def measure(engine: str, folder: Path, operations: int, spoiled: set[int]) -> Measured:
    """Judge a folder. Raises AssertionError unless exactly the spoiled objects are found."""
    if engine == "local":
        return _measured(engine, folder, operations, spoiled, None)
    from nemesis.pipeline.session import spark_session

    with spark_session("local[2]") as session:
        return _measured(engine, folder, operations, spoiled, session)


def _measured(engine: str, folder: Path, operations: int, spoiled: set[int], session: object) -> Measured:
    watch = _Watch()
    watch.look()
    cpu_before, begun = watch.cpu, time.perf_counter()
    with watch.running():
        results = judge_store(folder, CasRegister(), engine=engine, spark=session)  # type: ignore[arg-type]  # no pyspark here
    seconds = time.perf_counter() - begun
    cpu = watch.cpu - cpu_before
    found = set(results.anomalies.column("object").to_pylist())
    assert found == spoiled, f"{engine} found {sorted(found)}, and {sorted(spoiled)} are spoiled"
    assert results.counts["invalid"] == len(spoiled), f"{results.counts}"
    assert results.keys.num_rows == operations // EACH, f"{results.keys.num_rows} objects"
    return Measured(
        engine="local" if engine == "local" else "spark local[2]",
        operations=operations,
        objects=results.keys.num_rows,
        invalid=results.counts["invalid"],
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu, 2),
        operations_per_s=round(operations / seconds),
        operations_per_cpu_s=round(operations / cpu) if cpu else 0,
        peak_mib=watch.peak // MIB,
        peak_python_mib=watch.peak_python // MIB,
    )


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


def growth(rows: list[Measured], engine: str) -> float | None:
    """How many times the CPU time of an operation is at the last size what it was at the one before."""
    own = [row.cpu_seconds / row.operations for row in rows if row.engine == engine]
    return round(own[-1] / own[-2], 2) if len(own) > 1 and own[-2] else None


@click.command()
@click.option("--operations", type=click.IntRange(EACH), multiple=True, help="Sizes.  [default: 10^5, 10^6, 10^7]")
@click.option("--engine", type=click.Choice(["local", "spark"]), multiple=True, help="Without: both.")
@click.option("--scratch", type=click.Path(file_okay=False, path_type=Path), help="Where histories are written.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-pipeline.json"))
def main(operations: tuple[int, ...], engine: tuple[str, ...], scratch: Path | None, seed: int, output: Path) -> None:
    """Measure both engines, print the figures and write them as JSON."""
    engines = engine or ("local", "spark")
    available, reason = java_available()
    if not available and "spark" in engines:
        click.echo(f"Spark is not measured: {reason}", err=True)
        engines = tuple(name for name in engines if name != "spark")
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-", dir=scratch) as folder:
        for row in figures(operations or SIZES, engines, Path(folder), seed):
            rows.append(row)
            click.echo(
                f"{row.engine}: {row.operations} operations on {row.objects} objects, {row.seconds} s, "
                f"{row.operations_per_s} a second; {row.cpu_seconds} s of CPU; {row.peak_mib} MiB in all, "
                f"{row.peak_python_mib} MiB in one Python process; {row.invalid} spoiled objects found"
            )
    grown = {name: growth(rows, name) for name in dict.fromkeys(row.engine for row in rows)}
    for name, times in grown.items():
        click.echo(f"{name}: an operation takes {times} times the CPU time at the last size that it took before")
    output.parent.mkdir(parents=True, exist_ok=True)
    found = {"versions": versions(), "rows": [asdict(row) for row in rows], "growth": grown}
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    click.echo(f"result: {output}")


if __name__ == "__main__":
    main()
