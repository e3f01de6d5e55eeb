"""How fast histories are judged: operations a second and peak memory, with the accelerator and without.

Owns the shapes of the histories, which are those that break search-based checkers, and the figures in
``store/bench-linearizability.json``. The generated histories are the same every time; ``--recordings`` adds those that
Jepsen has recorded of a cas-register, read as Porcupine's own model reads them: a failed compare-and-set proves that
the value differed. Each measurement has a process of its own, whose memory is its peak. Reading and generating are not
measured. ``--porcupine`` compares with Porcupine, of which it names a checkout; Go must be there.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import click

from benchmarks import porcupine
from benchmarks.result import write_result
from nemesis.formats.reading import read_history_file
from nemesis.linearizability.accelerator import loaded
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome

KIB = 1024
TIMES = 3
LONG_S = 2
"""What takes longer is measured once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Histories of cas-registers. ``values`` 0: each is written once; ``unknown`` and ``stale`` are shares."""

    name: str
    operations: int
    processes: int
    keys: int = 1
    values: int = 5
    unknown: float = 0.0
    stale: float = 0.0


SHAPES = (
    Shape(name="contended", operations=1_000, processes=30),
    Shape(name="long", operations=100_000, processes=10),
    Shape(name="very long", operations=1_000_000, processes=10),
    Shape(name="time-outs", operations=10_000, processes=20, unknown=0.01),
    Shape(name="time-outs, stale reads", operations=10_000, processes=20, unknown=0.01, stale=0.001),
    Shape(name="many keys", operations=100_000, processes=5, keys=1_000),
    Shape(name="unique values", operations=100_000, processes=10, values=0),
    Shape(name="small", operations=10_000, processes=5, keys=500),
    Shape(name="wide", operations=5_000, processes=60),
    Shape(name="wide, stale reads", operations=5_000, processes=60, values=20, stale=0.01),
)


class _Register:
    """One register that serves processes one at a time, at a moment between invocation and return."""

    def __init__(self, shape: Shape, key: int, random: Random) -> None:
        self.shape, self.key, self.random = shape, key, random
        self.value: int | None = None
        self.before: int | None = None
        self.fresh = 0

    def serve(self, process: int, begun: int, ended: int) -> Operation:
        """An operation that takes effect now."""
        f = self.random.choice(("read", "write", "cas"))
        argument: int | tuple[int | None, int] | None = None
        result: int | None = None
        is_known = f == "read" or self.random.random() >= self.shape.unknown
        if f == "read":
            result = self.before if self.random.random() < self.shape.stale else self.value
        else:
            new = self._new()
            argument = (self.value, new) if f == "cas" else new
            self.before, self.value = self.value, new
        return Operation(
            process=process,
            f=f,
            key=self.key,
            argument=argument,
            result=result,
            outcome=Outcome.OK if is_known else Outcome.INFO,
            invoked=begun,
            returned=ended if is_known else None,
            line=begun + 1,
        )

    def _new(self) -> int:
        self.fresh += 1
        return self.fresh if self.shape.values == 0 else self.random.randrange(self.shape.values)


def history(shape: Shape) -> list[Operation]:
    """A history of this shape, in the order of invocations."""
    operations: list[Operation] = []
    for key in range(shape.keys):
        random = Random(f"{shape.name} {key}")
        operations += _of_one_key(_Register(shape, key, random), shape.operations // shape.keys, 4 * len(operations))
    return operations


def _of_one_key(register: _Register, count: int, position: int) -> list[Operation]:
    """Each process begins, is served, and ends, in turns that the dice choose."""
    stages: dict[int, list[int]] = {}
    served: list[tuple[int, int]] = []
    found: dict[int, Operation] = {}
    while len(found) < count or stages:
        process = register.random.randrange(register.shape.processes)
        position += 1
        begun = stages.get(process)
        if begun is None:
            if len(found) + len(stages) < count:
                stages[process] = [position]
        elif len(begun) == 1:
            begun.append(len(served))
            served.append((process, begun[0]))
            found[begun[0]] = register.serve(process, begun[0], position)
        else:
            found[begun[0]] = _ending(found[begun[0]], position)
            del stages[process]
    return [found[at] for at in sorted(found)]


def _ending(operation: Operation, position: int) -> Operation:
    return operation if operation.returned is None else replace(operation, returned=position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What it took to judge histories: CPU time, the best of TIMES, and the peak of the process's memory."""

    name: str
    checker: str
    operations: int
    verdicts: tuple[str, ...]
    cpu_ms: float
    operations_per_s: int
    peak_mib: int


def measure(name: str, histories: Sequence[Sequence[Operation]], *, accelerated: bool) -> Measured:
    """What it takes to judge ``histories`` one after the other."""
    model = _model()

    def verdicts() -> set[str]:
        found = (judgement for one in histories for judgement in judge(one, model, accelerated=accelerated))
        return {judgement.verdict.value for judgement in found}

    return _timed(name, "C" if accelerated else "Python", sum(map(len, histories)), verdicts)


def _timed(name: str, checker: str, operations: int, verdicts: Callable[[], set[str]]) -> Measured:
    seen: set[str] = set()
    seconds: list[float] = []
    while len(seconds) < TIMES and max(seconds, default=0) < LONG_S:
        begun_s = time.process_time()
        found = verdicts()
        seconds.append(time.process_time() - begun_s)
        seen |= found
    return Measured(
        name=name,
        checker=checker,
        operations=operations,
        verdicts=tuple(sorted(seen)),
        cpu_ms=round(1000 * min(seconds), 2),
        operations_per_s=round(operations / min(seconds)),
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB,
    )


def _model() -> Model:
    return load_model("cas-register", failed_cas_is_read=True)


Work = Shape | Path
"""A shape, or the folder of the recordings."""


def _histories(work: Work) -> tuple[str, list[list[Operation]]]:
    if isinstance(work, Shape):
        return work.name, [history(work)]
    recorded = [list(read_history_file(path).operations()) for path in sorted(work.glob("*.log"))]
    return f"{len(recorded)} recordings", recorded


def _measured(work: Work, way: str) -> Measured:
    return measure(*_histories(work), accelerated=way == "C")


def _measured_by_porcupine(work: Work, program: Path) -> Measured:
    name, histories = _histories(work)
    found = porcupine.measured(program, histories, _model())
    operations = sum(len(one) for one in histories)
    return Measured(
        name=name,
        checker="Porcupine",
        operations=operations,
        verdicts=found.verdicts,
        cpu_ms=found.cpu_ms,
        operations_per_s=round(1000 * operations / found.cpu_ms),
        peak_mib=found.peak_mib,
    )


def figures(shapes: Sequence[Shape], recordings: Path | None, program: Path | None) -> Iterator[Measured]:
    """Every measurement: the recordings, then each shape, in Python, in C where it is there, and by ``program``."""
    ways = ("Python", "C") if loaded() is not None else ("Python",)
    context = multiprocessing.get_context("spawn")
    for work in (*((recordings,) if recordings is not None else ()), *shapes):
        for way in ways:
            with context.Pool(1) as pool:
                yield pool.apply(_measured, (work, way))
        if program is not None:
            yield _measured_by_porcupine(work, program)


def _line(row: Measured, rows: Sequence[Measured]) -> str:
    ratios = [
        f"{row.cpu_ms / ours.cpu_ms:.2f} times that of {ours.checker}"
        for ours in rows
        if (row.checker, ours.name) == ("Porcupine", row.name) and ours is not row
    ]
    return (
        f"{row.name} ({row.checker}): {row.operations} operations, {', '.join([f'{row.cpu_ms} ms', *ratios])}, "
        f"{row.operations_per_s} a second, {row.peak_mib} MiB, {' and '.join(row.verdicts)}"
    )


@click.command()
@click.option("--recordings", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-linearizability.json")
)
@click.option("--porcupine", "checkout", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--only", type=click.Choice([shape.name for shape in SHAPES]), multiple=True, help="A shape; again for more."
)
def main(recordings: Path | None, output: Path, checkout: Path | None, only: Sequence[str]) -> None:
    """Measure the kernels, print the figures and write them as JSON."""
    rows: list[Measured] = []
    with TemporaryDirectory(prefix="porcupine-") as folder:
        program = None if checkout is None else porcupine.built(checkout, Path(folder), TIMES)
        if program is None:
            click.echo("not compared with Porcupine: --porcupine names no checkout of it")
        shapes = [shape for shape in SHAPES if not only or shape.name in only]
        for row in figures(shapes, recordings, program):
            rows.append(row)
            click.echo(_line(row, rows))
    write_result(output, rows=[asdict(row) for row in rows])


if __name__ == "__main__":
    main()
