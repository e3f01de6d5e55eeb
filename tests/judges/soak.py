"""Compare the judges of many objects with the oracle: ``python -m tests.judges.soak``, or ``make soak-judges``.

Draws histories of every kind, which is a model and a form of its values, and has each judged in every way. That one
says *valid* where the oracle says *invalid*, or the other way round, is a disagreement; so is a verdict that is
missing, and a crash. *Unknown* is counted, and too many of them are an error too. The command that repeats a
disagreement is printed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np
import pyarrow as pa

from nemesis.pipeline.corpora.dealing import readable
from nemesis.pipeline.corpora.encoding import rows_of
from nemesis.runner import versions
from tests.judges.forms import KINDS, Kind
from tests.judges.ways import WAYS, Said, Way, task_of

BATCH = 100
"""How many objects a job has."""
UNKNOWN_MAX = 0.001
"""Which part of the verdicts of one way on one kind may be *unknown*."""
CONTRADICTION = "the columns contradict a rule"
"""A reason to be *unknown* that is a disagreement of two judges."""
SHOWN_MAX = 50


@dataclass(slots=True)
class Found:
    """What was found of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Of more histories."""
        self.counts += other.counts
        self.unknown += other.unknown
        self.wrong += other.wrong

    @property
    def is_right(self) -> bool:
        """Nobody disagrees, and few know nothing."""
        most = UNKNOWN_MAX * self.counts["histories"]
        return not self.wrong and all(count <= most for count in self.unknown.values())

    def entry(self) -> dict[str, Any]:
        """The figures."""
        counts = {name: self.counts[name] for name in ("histories", "valid", "invalid")}
        return counts | {"disagreements": len(self.wrong), "unknown": {way: self.unknown[way] for way in WAYS}}


def compared(kind: Kind, seed: int, numbers: Sequence[int], ways: Mapping[str, Way] = WAYS) -> Found:
    """One job: the histories of these numbers, which are one of the batches, judged in every way."""
    histories = {number: kind.history(seed, number) for number in numbers}
    expected = {number: "valid" if kind.is_right(history) else "invalid" for number, history in histories.items()}
    rows = rows_of([op for history in histories.values() for op in history], {number: number for number in numbers})
    rows = readable(rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows))))
    found = Found(counts=Counter(expected.values()) + Counter(histories=len(numbers)))
    for name, way in ways.items():
        said = _said_by(way, rows, kind, Random(f"{name} {seed} {numbers[0]}"))
        for number in numbers:
            verdict, reason = said.get(number, ("nothing", None))
            is_doubt = verdict == "unknown" and CONTRADICTION not in (reason or "")
            found.unknown[name] += is_doubt
            if verdict != expected[number] and not is_doubt:
                again = f"python -m tests.judges.soak --kind {kind} --seed {seed} --only {number}"
                because = "" if reason is None else f" ({reason})"
                found.wrong.append(f"{again}: {name} says {verdict}, not {expected[number]}{because}")
    return found


def _said_by(way: Way, rows: pa.Table, kind: Kind, random: Random) -> Said:
    """What a way says; of no object anything if it fails."""
    try:
        return way(rows, task_of(kind.judge()), random)
    except Exception as error:  # a crash is a disagreement, and stops no sweep
        return {int(k): (f"{type(error).__name__}: {error}", None) for k in set(rows.column("object").to_pylist())}


def batches(kinds: Iterable[str], seed: int, histories: int) -> Iterator[tuple[str, int, range]]:
    """All jobs: the kinds take turns, so that a sweep that is stopped has looked at all of them."""
    for begin in range(0, histories, BATCH):
        for kind in kinds:
            yield kind, seed, range(begin, min(begin + BATCH, histories))


def _compared(job: tuple[str, int, range]) -> tuple[str, Found]:
    kind, seed, numbers = job
    return kind, compared(KINDS[kind], seed, numbers)


def sweep(kinds: Sequence[str], seed: int, histories: int, processes: int) -> dict[str, Found]:
    """What was found of each kind, by so many processes."""
    found = {kind: Found() for kind in kinds}
    jobs, done, begin = batches(kinds, seed, histories), 0, time.monotonic()
    told_s = begin
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for kind, more in pool.imap_unordered(_compared, jobs):
            found[kind].add(more)
            done += more.counts["histories"]
            for line in more.wrong[: SHOWN_MAX - sum(len(one.wrong) for one in found.values()) + len(more.wrong)]:
                click.echo(line)
            if time.monotonic() > told_s + 30:
                told_s = time.monotonic()
                click.echo(f"{done} of {histories * len(kinds)} histories in {told_s - begin:.0f} s", err=True)
    return found


@click.command()
@click.option("--kind", "chosen", multiple=True, help="A model and a form, or a model; all by default.")
@click.option("--histories", default=100_000, show_default=True, help="Of each kind.")
@click.option("--seed", default=1, show_default=True)
@click.option("--only", type=int, help="The number of the one history to look at, in the job that it is of.")
@click.option("--processes", default=os.cpu_count() or 1, show_default="one for each core")
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures here as JSON.")
def main(
    chosen: Sequence[str], histories: int, seed: int, only: int | None, processes: int, output: Path | None
) -> None:
    """Draw, judge and compare."""
    kinds = [name for name, kind in KINDS.items() if not chosen or name in chosen or kind.model in chosen]
    if not kinds:
        raise click.UsageError(f"there is no kind {chosen[0]!r}; there are {', '.join(KINDS)}")
    if only is not None:
        sys.exit(_look_at(KINDS[kinds[0]], seed, only))
    begin = time.monotonic()
    found = sweep(kinds, seed, histories, processes)
    document = {"versions": versions(), "seed": seed, "seconds": round(time.monotonic() - begin), **document_of(found)}
    click.echo("\n".join(told(document)))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(one.is_right for one in found.values()) else 1)


def document_of(found: Mapping[str, Found]) -> dict[str, Any]:
    """The figures of each kind, and their sums."""
    entries = [{"model": KINDS[name].model, "form": KINDS[name].name, **one.entry()} for name, one in found.items()]
    return {
        "histories": sum(entry["histories"] for entry in entries),
        "disagreements": sum(entry["disagreements"] for entry in entries),
        "unknown": sum(sum(entry["unknown"].values()) for entry in entries),
        "kinds": entries,
    }


def told(document: Mapping[str, Any]) -> Iterator[str]:
    """The figures as lines, those of all kinds last."""
    for entry in document["kinds"]:
        name = f"{entry['model']}/{entry['form']}"
        unknown = sum(entry["unknown"].values())
        verdicts = f"{entry['histories']} histories, {entry['valid']} valid, {entry['invalid']} invalid"
        yield f"{name:36} {verdicts}, {entry['disagreements']} disagreements, {unknown} unknown"
    sums = f"{document['histories']} histories of {len(document['kinds'])} kinds in {document['seconds']} s"
    yield f"{sums}: {document['disagreements']} disagreements, {document['unknown']} unknown"


def _look_at(kind: Kind, seed: int, number: int) -> int:
    """Show one history, and what is said of it in the job that it is of."""
    first = number - number % BATCH
    for op in kind.history(seed, number):
        told = f"{op.process!r} {op.f} {op.argument!r} -> {op.outcome} {op.result!r}"
        click.echo(f"{op.invoked:3} to {'  ?' if op.returned is None else f'{op.returned:3}'}  {told}")
    found = compared(kind, seed, range(first, first + BATCH))
    mine = [line for line in found.wrong if f"--only {number}:" in line]
    click.echo("\n".join(mine) or "nobody disagrees")
    return 1 if mine else 0


if __name__ == "__main__":
    main()
