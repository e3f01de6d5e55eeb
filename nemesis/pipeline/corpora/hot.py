"""Objects that have too many operations for a bucket: sorted by time, cut into windows, judged window by window.

Owns what both engines do with rows that are sorted by (object, invoked): it needs no more of them at once than one
batch, and then one window. Where a register may be cut its value is known, so that its windows are judged by
themselves; all other objects are judged window after window, in a ``chain``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import NIL, Ints
from nemesis.linearizability.arrays.judge import cut_from
from nemesis.linearizability.arrays.sorting import starts_of
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.log import Log
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.chain import Link, chained
from nemesis.pipeline.corpora.encoding import columns_of, ints
from nemesis.pipeline.corpora.logs import LogLink
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS
from nemesis.pipeline.corpora.states import StateLink, WholeLink, is_one_object
from nemesis.pipeline.corpora.windows import Cutter

CUT_FIELDS = (pa.field("window", pa.int32(), nullable=False), pa.field("begins_with", pa.int64()))
"""The columns that cutting adds."""


def cut_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of rows with ``columns`` of ``OPERATION_ROWS`` that were cut."""
    return pa.schema([*(OPERATION_ROWS.field(name) for name in columns), *CUT_FIELDS])


def is_cut_ahead(model: Model) -> bool:
    """Whether the windows of a hot object are known before one of them is judged."""
    return cut_from(model) is not None


def judge_chains(batches: Iterable[pa.RecordBatch], task: Task, window_operations: int) -> Iterator[pa.Table]:
    """The judgements of objects whose rows are sorted by (object, invoked), window after window."""

    def link_of(number: int) -> Link:
        if type(task.model) is Log:
            return LogLink(task, window_operations)
        if is_one_object(task.model):
            return StateLink(number, task, window_operations)
        return WholeLink(task)

    return chained(batches, link_of, task.call_operations_max)


def cut_rows(batches: Iterable[pa.RecordBatch], task: Task, window_operations: int) -> Iterator[pa.RecordBatch]:
    """The rows, which are sorted by (object, invoked), with their windows and the values that those begin with."""
    first, has_cas = cut_from(task.model), type(task.model) is CasRegister
    assert first is not None, f"{task.model.name} is not cut ahead"
    cutters: dict[int, Cutter] = {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        objects = ints(table, "object", 0)
        starts = starts_of(objects).tolist()
        for begin, end in zip(starts, [*starts[1:], len(objects)], strict=True):
            number = int(objects[begin])
            if number not in cutters:
                cutters = {number: Cutter(first, window_operations, has_cas=has_cas)}
            part = table.slice(begin, end - begin)
            columns = columns_of(part, np.zeros(part.num_rows, dtype=np.int64), 1)
            yield from _with_windows(part, *cutters[number].cut(columns)).to_batches()


def _with_windows(rows: pa.Table, windows: Ints, begins: Ints) -> pa.Table:
    added = (pa.array(windows.astype(np.int32)), pa.array(begins, mask=begins == NIL))
    for field, column in zip(CUT_FIELDS, added, strict=True):
        rows = rows.append_column(field, column)
    return rows
