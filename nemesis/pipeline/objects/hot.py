"""Objects that have too many operations for a bucket: sorted by time, cut into windows, judged window by window.

Owns what both engines do with rows that are sorted by (object, invoked): it needs no more of them at once than one
batch, and then one window. Objects of models that cannot be cut are one window each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import NIL, Ints
from nemesis.linearizability.arrays.judge import cut_from
from nemesis.linearizability.arrays.sorting import starts_of
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.objects.bucket import Task
from nemesis.pipeline.objects.encoding import columns_of, ints
from nemesis.pipeline.objects.schemas import OPERATION_ROWS
from nemesis.pipeline.objects.windows import Cutter

CUT_FIELDS = (pa.field("window", pa.int32(), nullable=False), pa.field("begins_with", pa.int64()))
"""The columns that cutting adds."""


def cut_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of rows with ``columns`` of ``OPERATION_ROWS`` that were cut."""
    return pa.schema([*(OPERATION_ROWS.field(name) for name in columns), *CUT_FIELDS])


def cut_rows(batches: Iterable[pa.RecordBatch], task: Task, window_operations: int) -> Iterator[pa.RecordBatch]:
    """The rows, which are sorted by (object, invoked), with their windows and the values that those begin with."""
    first, has_cas = cut_from(task.model), type(task.model) is CasRegister
    cutters: dict[int, Callable[[pa.Table], tuple[Ints, Ints]]] = {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        objects = ints(table, "object", 0)
        starts = starts_of(objects).tolist()
        for begin, end in zip(starts, [*starts[1:], len(objects)], strict=True):
            number = int(objects[begin])
            if number not in cutters:
                cutters = {number: _cutter(first, window_operations, has_cas=has_cas)}
            part = table.slice(begin, end - begin)
            yield from _with_windows(part, *cutters[number](part)).to_batches()


def _cutter(first: int | None, window_operations: int, *, has_cas: bool) -> Callable[[pa.Table], tuple[Ints, Ints]]:
    """What cuts the rows of one object; all of them are one window where nobody knows how to cut."""
    if first is None:
        return lambda rows: (np.zeros(rows.num_rows, dtype=np.int64), np.full(rows.num_rows, NIL))
    cutter = Cutter(first, window_operations, has_cas=has_cas)
    return lambda rows: cutter.cut(columns_of(rows, np.zeros(rows.num_rows, dtype=np.int64), 1))


def _with_windows(rows: pa.Table, windows: Ints, begins: Ints) -> pa.Table:
    added = (pa.array(windows.astype(np.int32)), pa.array(begins, mask=begins == NIL))
    for field, column in zip(CUT_FIELDS, added, strict=True):
        rows = rows.append_column(field, column)
    return rows
