"""Random histories of many objects as columns, and what the kernels of single objects say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import Columns, Decision
from nemesis.linearizability.model import Model
from nemesis.linearizability.operations import Operation
from nemesis.linearizability.violation import InapplicableError
from nemesis.pipeline.corpora.encoding import columns_of, ints, rows_of
from tests.linearizability.histories import large_shape, random_history, random_shape
from tests.linearizability.runs import judge_by


def histories(workload: str, count: int, seed: int, *, unique: bool, large: bool = True) -> list[list[Operation]]:
    """One history an object; with ``large``, one in ten of them is too large for the oracle."""
    found: list[list[Operation]] = []
    for number in range(count):
        random = Random(f"columns {workload} {seed} {number}")
        is_large = large and number % 10 == 0 and workload != "cas-register-wild"
        shape = large_shape(random) if is_large else random_shape(random)
        shape = replace(shape, values=0) if unique and random.random() < 0.8 else shape
        found.append([replace(op, key=number) for op in random_history(workload, random, shape)])
    return found


def rows(parts: Sequence[Sequence[Operation]]) -> pa.Table:
    """All operations of all objects, in no order."""
    table = rows_of([op for part in parts for op in part], {number: number for number in range(len(parts))})
    return table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))


def columns(parts: Sequence[Sequence[Operation]]) -> Columns:
    """The same as the kernels take it."""
    table = rows(parts)
    return columns_of(table, ints(table, "object", 0), len(parts))


def decision(kernel: str, number: int, history: Sequence[Operation], model: Model) -> Decision:
    """What the kernel of single objects says."""
    try:
        found = judge_by(kernel, number, history, model)
    except InapplicableError:
        return Decision.UNDECIDED
    return Decision.VALID if found.counterexample is None else Decision.VIOLATED
