"""Folders of operations for the tests: random registers, some of them with far more operations than the others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from nemesis.linearizability.operations import Operation, Outcome
from nemesis.pipeline.corpora.encoding import rows_of
from nemesis.pipeline.corpora.plan import Sizes
from nemesis.pipeline.corpora.schemas import OBJECT_ROWS, OPERATION_ROWS
from nemesis.pipeline.corpora.store import OperationWriter
from tests.linearizability.histories import Shape, random_history

SMALL = Sizes(bucket=400, hot=150, window=40, call=1_000)
"""Sizes at which a few thousand operations are many buckets, and some objects are hot."""


def sequence(
    number: int, count: int, *, values: int = 0, spoiled: bool = False, unknown_at: int = -1
) -> list[Operation]:
    """A register that two processes use, which often rests; ``unknown_at`` is where a write ends unknown."""
    random = Random(number)
    found: list[Operation] = []
    at, value, fresh = 0, None, 0
    for place in range(count):
        if place % 2 == 0:
            fresh = random.randrange(values) if values else fresh + 1
        is_write = place % 2 == 0
        seen = value if not (spoiled and place == count // 2 * 2 - 1) else -5
        unknown = is_write and place == unknown_at
        found.append(
            Operation(
                process=place % 2,
                f="write" if is_write else "read",
                key=number,
                argument=fresh if is_write else None,
                result=None if is_write else seen,
                outcome=Outcome.INFO if unknown else Outcome.OK,
                invoked=at + (0 if place % 4 else 1),
                returned=None if unknown else at + 3,
                line=number * 10_000 + place + 1,
            )
        )
        value = fresh if is_write else value
        at += 4
    return found


def mixed(objects: int) -> list[list[Operation]]:
    """Random histories, most of them small; then four large ones, of which two are wrong and one cannot be cut."""
    shape = Shape(operations=12, processes=3, values=0, unknown=0.05, failed=0.05, spoiled=0.2)
    parts: list[list[Operation]] = []
    for number in range(objects):
        random = Random(f"mixed {number}")
        chosen = replace(shape, values=random.choice((0, 0, 3)))
        parts.append([replace(op, key=number) for op in random_history("cas-register", random, chosen)])
    parts.append(sequence(objects, 600))
    parts.append(sequence(objects + 1, 600, spoiled=True))
    parts.append(sequence(objects + 2, 500, values=4, spoiled=True))
    parts.append(sequence(objects + 3, 300, unknown_at=10))
    return parts


def write_store(folder: Path, parts: list[list[Operation]], *, files: int = 3) -> Path:
    """Write the histories in no order, to several files; objects of even numbers have names."""
    numbers: dict[Hashable, int] = {number: number for number in range(len(parts))}
    rows = rows_of([op for part in parts for op in part], numbers)
    rows = rows.take(pa.array(np.random.default_rng(1).permutation(rows.num_rows)))
    writer = OperationWriter(folder)
    each = -(-rows.num_rows // files)
    for begin in range(0, rows.num_rows, each):
        writer.add(rows.slice(begin, each))
    even = list(range(0, len(parts), 2))
    names = {"object": even, "run_id": ["run"] * len(even), "key": [f"k{number}" for number in even]}
    writer.name(pa.table(names, schema=OBJECT_ROWS))
    return folder


def write_rows(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write rows of which only what matters is given: all end well, one after the other, and are of object 0."""
    known = dict.fromkeys(OPERATION_ROWS.names) | {"object": 0, "process": 0, "ending": 0}
    whole = [
        known | {"line": place + 1, "invoked": 2 * place, "returned": 2 * place + 1} | dict(row)
        for place, row in enumerate(rows)
    ]
    OperationWriter(folder).add(pa.Table.from_pylist(whole, schema=OPERATION_ROWS))
    return folder
