"""The history of one object that has too many operations for one call, cut into windows that are judged by themselves.

Owns where it may be cut: at a moment when nothing is pending and the value is known, either by a write beside which no
other was pending, or by a read that began after all writes were over. Then the history is right exactly if each window
is, begun with that value. A write of unknown outcome is pending for ever: after it there is no cut. What no column
holds, and what cannot be, may have written anything: after the one nobody knows the value until something tells it
again, after the other there is no cut. Operations come in the order of their invocations, in batches; only a few
numbers are carried from batch to batch.
"""

from __future__ import annotations

import numpy as np

from nemesis.linearizability.arrays.columns import NEVER, NIL, Bools, Columns, Ending, Function, Ints

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
