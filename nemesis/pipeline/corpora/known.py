"""The beginning of a log of which every record is known, and rows as operations on what stands behind it.

Owns the records, eight bytes each, and the change of offsets: what stands behind is a log by itself that begins empty.
Of a read that begins before, the first records are compared here; the others are read from offset 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import NIL, Bools, Function, Ints
from nemesis.linearizability.operations import Value
from nemesis.pipeline.corpora.log_numbers import LogRows, Shown

Reasons = dict[int, str]
"""By row, why an operation cannot be, whatever stands behind."""


class Known:
    """The records at offsets from 0 on, as numbers; ``value`` gives what stands behind one."""

    def __init__(self, value: Callable[[int], Value]) -> None:
        self._value = value
        self._records = np.empty(1_024, dtype=np.int64)
        self.length = 0

    def extend(self, records: Ints) -> None:
        """So many more are known."""
        after = self.length + len(records)
        if after > len(self._records):
            larger = np.empty(max(after, 2 * len(self._records)), dtype=np.int64)
            larger[: self.length] = self._records[: self.length]
            self._records = larger
        self._records[self.length : after] = records
        self.length = after

    def behind(self, rows: pa.Table) -> tuple[pa.Table, Reasons]:
        """The rows (all columns of ``OPERATION_ROWS``) as operations on what is behind, and those that cannot be.

        Such a row is a read of more than it asked for.
        """
        if not self.length:
            return rows, {}
        log = LogRows.of(rows)
        columns, length = log.columns, self.length
        is_low = log.is_read & (columns.argument < length)
        limited = is_low & (columns.second != NIL)
        is_within = is_low & (log.end <= length)
        wrong = self._reasons(log, is_low)
        bad = np.zeros(rows.num_rows, dtype=np.bool_)
        bad[list(wrong)] = True
        bad &= log.is_read
        function = np.where(is_within & log.is_partial, Function.STALE_FETCH, columns.function)
        second = np.where(limited, columns.second - (length - columns.argument), columns.second)
        changed = {
            "function": np.where(bad, Function.FETCH, function),
            "argument": np.where(log.is_read, np.maximum(columns.argument - length, 0), columns.argument),
            "second": np.where(bad, 0, np.where(is_within, NIL, second)),
            "result": np.where(log.is_sure, columns.result - length, columns.result),
        }
        left = np.where(is_low, np.maximum(log.end - length, 0), log.counts)
        for name, column in changed.items():
            rows = _with(rows, name, pa.array(column, mask=column == NIL))
        return _with(rows, "records", _lists(rows, log, left, bad)), wrong

    def _reasons(self, log: LogRows, is_low: Bools) -> Reasons:
        """What shows another record than the known one, needs a shorter log, or is more than was asked for."""
        columns, length = log.columns, self.length
        shown = log.shown(is_low)
        differs = shown.where((shown.offset < length) & (shown.offset >= 0))
        differs = differs.where(self._records[differs.offset] != differs.record)
        reasons = {
            row: f"offset {offset} has {self._value(int(self._records[offset]))!r} and {self._value(record)!r}"
            for row, offset, record in _firsts(differs)
        }
        asked = np.flatnonzero(is_low & (columns.second != NIL) & (log.counts > columns.second))
        reasons |= {
            k: f"a fetch of at most {columns.second[k]} records returned {log.counts[k]}" for k in asked.tolist()
        }
        highest = np.where(log.is_sure, columns.result, log.end)
        short = (is_low & ~log.is_partial) | log.is_sure
        for k in np.flatnonzero(short & (highest < length)).tolist():
            reasons.setdefault(
                k, f"the log had at least {length} records before that began, and at most {highest[k]} by its answer"
            )
        return reasons


def _firsts(shown: Shown) -> list[tuple[int, int, int]]:
    """The first of each row."""
    rows, first = np.unique(shown.row, return_index=True)
    return list(zip(rows.tolist(), shown.offset[first].tolist(), shown.record[first].tolist(), strict=True))


def _lists(rows: pa.Table, log: LogRows, left: Ints, bad: Bools) -> pa.ListArray:
    """The last records of each row, so many as are ``left``; of a ``bad`` one a record that it did not ask for."""
    lengths = np.where(bad, 1, left)
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))
    values = np.zeros(int(ends[-1]), dtype=np.int64)
    if log.columns.records is not None and log.columns.record_ends is not None:
        row = np.repeat(np.arange(len(lengths)), lengths)
        back = ends[1:][row] - np.arange(len(row))
        kept = ~bad[row]
        values[kept] = log.columns.records[(log.columns.record_ends[1:][row] - back)[kept]]
    absent = rows.column("records").is_null().to_numpy() & ~bad
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values), mask=pa.array(absent))


def _with(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), column.cast(rows.schema.field(place).type))
