"""How fast histories are judged: operations a second and peak memory, with the accelerator and without.

Owns the shapes of the histories, which are those that break search-based checkers, and the figures in
``store/bench-linearizability.json``. The generated histories are the same every time; ``--recordings`` adds those that
Jepsen has recorded of a cas-register. Each measurement has a process of its own, whose memory is its peak. Reading and
generating are not measured.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import click

from nemesis.formats.reading import read_history_file
from nemesis.linearizability.accelerator import library
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.runner import versions

KIB = 1024
TIMES = 3


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
    Shape(name="time-outs", operations=10_000, processes=20, unknown=0.01),
    Shape(name="time-outs, stale reads", operations=10_000, processes=20, unknown=0.01, stale=0.001),
    Shape(name="many keys", operations=100_000, processes=5, keys=1_000),
    Shape(name="unique values", operations=100_000, processes=10, values=0),
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
    """What it took to judge histories: CPU time, the best of three, and the peak of the process's memory."""

    name: str
    accelerated: bool
    operations: int
    verdicts: tuple[str, ...]
    cpu_ms: float
    operations_per_s: int
    peak_mib: int


def measure(name: str, histories: Sequence[Sequence[Operation]], *, accelerated: bool) -> Measured:
    """What it takes to judge ``histories`` one after the other."""
    model = load_model("cas-register")
    operations = sum(len(one) for one in histories)
    verdicts: set[str] = set()
    seconds: list[float] = []
    for _ in range(TIMES):
        begun_s = time.process_time()
        found = [judgement for one in histories for judgement in judge(one, model, accelerated=accelerated)]
        seconds.append(time.process_time() - begun_s)
        verdicts.update(judgement.verdict.value for judgement in found)
    return Measured(
        name=name,
        accelerated=accelerated,
        operations=operations,
        verdicts=tuple(sorted(verdicts)),
        cpu_ms=round(1000 * min(seconds), 2),
        operations_per_s=round(operations / min(seconds)),
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB,
    )


def _shape_measured(shape: Shape, accelerated: bool) -> Measured:
    return measure(shape.name, [history(shape)], accelerated=accelerated)


def _recordings_measured(folder: Path, accelerated: bool) -> Measured:
    recorded = [read_history_file(path).operations() for path in sorted(folder.glob("*.log"))]
    return measure(f"{len(recorded)} recordings", recorded, accelerated=accelerated)


def figures(recordings: Path | None) -> Iterator[Measured]:
    """Every measurement: all shapes, then the recordings, each in Python and in C."""
    ways = (False, True) if library() is not None else (False,)
    context = multiprocessing.get_context("spawn")
    for accelerated in ways:
        for shape in SHAPES:
            with context.Pool(1) as pool:
                yield pool.apply(_shape_measured, (shape, accelerated))
        if recordings is not None:
            with context.Pool(1) as pool:
                yield pool.apply(_recordings_measured, (recordings, accelerated))


@click.command()
@click.option("--recordings", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-linearizability.json")
)
def main(recordings: Path | None, output: Path) -> None:
    """Measure the kernels, print the figures and write them as JSON."""
    rows: list[Measured] = []
    for row in figures(recordings):
        rows.append(row)
        click.echo(
            f"{row.name} ({'C' if row.accelerated else 'Python'}): {row.operations} operations, {row.cpu_ms} ms, "
            f"{row.operations_per_s} a second, {row.peak_mib} MiB, {' and '.join(row.verdicts)}"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        json.dumps({"versions": versions(), "rows": [asdict(row) for row in rows]}, indent=2) + "\n", encoding="utf-8"
    )
    click.echo(f"result: {output}")


if __name__ == "__main__":
    main()
