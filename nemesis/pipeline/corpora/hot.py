"""Objects that have too many operations for a bucket: sorted by time, cut into windows, judged window by window.

Owns what both engines do with rows that are sorted by (object, invoked): it needs no more of them at once than one
batch, and then one window. Where a register may be cut its value is known, so that its windows are judged by
themselves; all other objects are judged window after window, in a ``chain``.

The history of one object that has too many operations for one call, cut into windows that are judged by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import NEVER, NIL, Bools, Columns, Ending, Function, Ints, starts_of
from nemesis.linearizability.arrays.judge import cut_from
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.log import Log
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.chain import Link, chained
from nemesis.pipeline.corpora.encoding import columns_of, ints
from nemesis.pipeline.corpora.logs import LogLink
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS
from nemesis.pipeline.corpora.states import StateLink, WholeLink, is_one_object

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


WINDOW_OPERATIONS = 100_000
"""How many operations a window has at least, if another one follows."""


class Cutter:
    """Cuts one object's history. ``first`` is the value that it begins with, as a number in a column.

    Only a model that ``has_cas`` knows what a failed compare-and-set has seen.
    """

    def __init__(self, first: int, operations: int = WINDOW_OPERATIONS, *, has_cas: bool = True) -> None:
        self._operations = operations
        self._has_cas = has_cas
        self._window, self._begins_with, self._filled = 0, first, 0
        self._latest = self._latest_write = -(2**63)
        self._value, self._is_known = first, True

    def cut(self, rows: Columns) -> tuple[Ints, Ints]:
        """For each of the next operations, its window and the value with which that begins."""
        returned = _returns(rows)
        is_write, is_read, value = _meaning(rows, has_cas=self._has_cas)
        is_told = _has_columns(rows)
        write_returned = np.where(is_write, returned, -(2**63))
        pending = _latest_before(returned, self._latest)
        writes_pending = _latest_before(write_returned, self._latest_write)
        is_alone = writes_pending < rows.invoked
        known, values = self._known(is_write | (is_read & is_alone), is_alone & is_told, value)
        may_cut = np.flatnonzero((pending < rows.invoked) & known)
        windows, begins = self._numbered(len(value), may_cut, values)
        if len(value):
            self._latest = max(self._latest, int(returned.max()))
            self._latest_write = max(self._latest_write, int(write_returned.max()))
        return windows, begins

    def _known(self, tells: Bools, is_sure: Bools, value: Ints) -> tuple[Bools, Ints]:
        """Whether the value is known before each row if nothing is pending there, and which it is."""
        rows = len(value)
        latest = np.maximum.accumulate(np.where(tells, np.arange(rows), -1)) if rows else np.arange(0)
        known = np.concatenate(([self._is_known], np.where(latest >= 0, is_sure[latest], self._is_known)))
        values = np.concatenate(([self._value], np.where(latest >= 0, value[latest], self._value)))
        self._is_known, self._value = bool(known[-1]), int(values[-1])
        return known[:-1], values[:-1]

    def _numbered(self, rows: int, may_cut: Ints, values: Ints) -> tuple[Ints, Ints]:
        """Windows from one cut to the next, each at the first place after enough operations."""
        windows, begins = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
        begin = 0
        while begin < rows:
            place = np.searchsorted(may_cut, begin + max(0, self._operations - self._filled))
            end = int(may_cut[place]) if place < len(may_cut) else rows
            windows[begin:end], begins[begin:end] = self._window, self._begins_with
            self._filled += end - begin
            if end < rows:
                self._window, self._begins_with, self._filled = self._window + 1, int(values[end]), 0
            begin = end
        return windows, begins


def _returns(rows: Columns) -> Ints:
    """When each row is over. What had no effect and saw nothing, or may have done neither, is never pending."""
    is_read, is_failed = rows.function == Function.READ, rows.ending == Ending.FAIL
    is_over = ((rows.ending == Ending.OK) | is_failed) & (rows.returned >= rows.invoked)
    is_over &= _has_columns(rows) | (rows.function == Function.OTHER)
    is_silent = is_over & is_failed & (is_read | (rows.function == Function.WRITE))
    is_silent |= is_read & (rows.ending == Ending.INFO)
    return np.where(is_silent, rows.invoked, np.where(is_over, rows.returned, NEVER))


def _has_columns(rows: Columns) -> Bools:
    """Which rows are operations of a register, whose values stand in columns."""
    found: Bools = np.isin(rows.function, (Function.READ, Function.WRITE, Function.CAS))
    return found


def _meaning(rows: Columns, *, has_cas: bool) -> tuple[Bools, Bools, Ints]:
    """Which rows may write, which have read for sure, and the value that is there after them."""
    failed, is_cas = rows.ending == Ending.FAIL, rows.function == Function.CAS
    is_write = ((is_cas | (rows.function == Function.WRITE)) & ~failed) | ~_has_columns(rows)
    is_read = (rows.function == Function.READ) & (rows.ending == Ending.OK)
    if has_cas:
        is_read |= is_cas & failed & (rows.result != NIL)
    value = np.where(is_write, np.where(is_cas, rows.second, rows.argument), rows.result)
    return is_write, is_read, value


def _latest_before(times: Ints, before: int) -> Ints:
    """The latest of the times in rows before each, and of ``before``."""
    return np.maximum.accumulate(np.concatenate((np.array([before]), times)))[:-1]
