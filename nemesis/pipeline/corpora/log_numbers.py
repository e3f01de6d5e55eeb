"""Every operation on a log as numbers in columns, in whatever form it was recorded.

Owns the numbers that stand for records which are none: texts, nil, and what has no place in 64 bits. The model says
what an operation means; whoever judges logs by rows knows this one form of it. Evidence is told of the rows as they
were, and of the values that the numbers stand for.

From these follow what rows of a log say, as arrays: appends with an offset, and reads of some length; and, of a log of
whose beginning every record is known, rows as operations on what stands behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import NIL, Bools, Columns, Ending, Function, Ints
from nemesis.linearizability.forms import AppendForm, FetchForm
from nemesis.linearizability.model import unknown_operation
from nemesis.linearizability.models.log import Log
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.pipeline.corpora.encoding import columns_of, operations_in, operations_of, rows_of

_TAKEN = NIL + 2**40
"""Numbers up to this one stand for other records, those themselves included."""
_OFFSET_MAX = 2**62
"""No log is so long: an offset above is as good as this one."""


class LogNumbers:
    """The numbers of one log's records: a number that is not taken is its own."""

    def __init__(self) -> None:
        self._number_of: dict[Value, int] = {}
        self._values: list[Value] = []

    def __len__(self) -> int:
        """How many values have a number that is not their own."""
        return len(self._values)

    def rows(self, rows: pa.Table) -> pa.Table:
        """The same operations in columns of numbers; ``rows`` have all columns of ``OPERATION_ROWS``.

        Raises ModelError for an operation that is none on a log.
        """
        odd = np.flatnonzero(_is_odd(rows))
        if not len(odd):
            return rows
        originals = rows.take(pa.array(odd))
        objects = {number: number for number in originals.column("object").unique().to_pylist()}
        plain = rows_of(map(self._plain, operations_in(originals)), objects)
        for name in ("invoked", "returned"):
            plain = plain.set_column(plain.schema.get_field_index(name), rows.schema.field(name), originals[name])
        places = np.arange(rows.num_rows)
        places[odd] = rows.num_rows + np.arange(len(odd))
        return pa.concat_tables([rows.cast(plain.schema), plain]).take(pa.array(places)).combine_chunks()

    def operations(self, rows: pa.Table) -> list[Operation]:
        """The operations of such rows, with the records that the numbers stand for."""
        found = operations_of(rows)
        return [self._told(operation) for operation in found] if self._values else found

    def value(self, number: int) -> Value:
        """The record that a number stands for."""
        return self._values[number - NIL - 1] if number <= _TAKEN else number

    def _plain(self, operation: Operation) -> Operation:
        """The operation as one whose values are numbers."""
        argument: Value
        told: Value
        if operation.f == "fetch" and operation.outcome is Outcome.INFO:
            return replace(operation, process=0, argument=(0, None), result=None)
        match Log().form(operation):
            case AppendForm(records, base):
                argument, told = tuple(map(self._number, records)), None if base is None else _offset(base)
                argument = argument if isinstance(operation.argument, tuple) else argument[0]
            case FetchForm(start, limit, records, stale):
                argument = (_offset(start), None if limit is None else _offset(limit), *([True] if stale else []))
                told = tuple(map(self._number, records))
            case _:
                raise unknown_operation(Log(), operation)
        return replace(operation, process=0, argument=argument, result=told)

    def _number(self, record: Value) -> int:
        # A number with a fraction equals a whole one of the same size.
        if isinstance(record, int | float | Decimal) and _TAKEN < record < 2**63 and record == int(record):
            return int(record)
        number = self._number_of.setdefault(record, NIL + 1 + len(self._values))
        if number == NIL + 1 + len(self._values):
            self._values.append(record)
        return number

    def _told(self, operation: Operation) -> Operation:
        argument, result = operation.argument, operation.result
        if operation.outcome is Outcome.FAIL:
            return operation
        if operation.f == "append":
            return replace(operation, argument=self._record(argument))
        return replace(operation, result=None if result is None else self._record(result))

    def _record(self, numbers: Value) -> Value:
        """The record of a number, the records of several."""
        if isinstance(numbers, tuple):
            return tuple(map(self._record, numbers))
        assert isinstance(numbers, int), f"{numbers!r} stands for a record"
        return self.value(numbers)


def _offset(number: int) -> int:
    return min(max(int(number), -1), _OFFSET_MAX)


def _is_odd(rows: pa.Table) -> Bools:
    """Which rows have a value that no column holds, or a number that is taken or no offset."""
    columns = columns_of(rows, np.zeros(rows.num_rows, dtype=np.int64), 1)
    function, counts = columns.function, np.zeros(rows.num_rows, dtype=np.int64)
    taken = np.zeros(rows.num_rows, dtype=np.bool_)
    if columns.records is not None and columns.record_ends is not None:
        counts = np.diff(columns.record_ends)
        taken[np.repeat(np.arange(rows.num_rows), counts)[columns.records <= _TAKEN]] = True
    is_append, is_fetch = function == Function.APPEND, function >= Function.FETCH
    offset = np.where(is_append, columns.result, columns.argument)
    is_offset = (offset >= 0) & (offset <= _OFFSET_MAX)
    is_limit = (columns.second == NIL) | (columns.second >= 0)
    odd = function < Function.APPEND
    odd |= is_append & (taken | ((counts == 0) & (columns.argument <= _TAKEN)))
    odd |= is_append & ~is_offset & (offset != NIL)
    odd |= is_fetch & (taken | ~is_offset | ~is_limit)
    odd &= columns.ending != Ending.FAIL
    return odd


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Which record stands at which offset: a row of the log for each that says so."""

    row: Ints
    offset: Ints
    record: Ints

    def where(self, chosen: Bools) -> Shown:
        """Some of it."""
        return Shown(row=self.row[chosen], offset=self.offset[chosen], record=self.record[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRows:
    """One array of each kind, as long as there are rows.

    ``is_append`` may have appended ``size`` records, ``is_sure`` did so up to offset ``end``, exclusive. ``is_read``
    read ``counts`` records up to offset ``end``; one that ``is_partial`` need not have seen the end of the log.
    """

    columns: Columns
    is_append: Bools
    is_sure: Bools
    is_read: Bools
    is_partial: Bools
    counts: Ints
    size: Ints
    end: Ints

    @classmethod
    def of(cls, rows: pa.Table) -> LogRows:
        """The arrays of ``rows``, which have all columns of ``OPERATION_ROWS``."""
        columns = columns_of(rows, np.zeros(rows.num_rows, dtype=np.int64), 1)
        function, ok = columns.function, columns.ending == Ending.OK
        is_append = (function == Function.APPEND) & (columns.ending != Ending.FAIL)
        is_sure = is_append & ok & (columns.result != NIL)
        is_read = (function >= Function.FETCH) & ok
        counts = np.zeros(len(function), dtype=np.int64)
        if columns.record_ends is not None:
            counts = np.diff(columns.record_ends)
        size = np.where(counts > 0, counts, 1)
        limited = (columns.second != NIL) & (counts >= columns.second)
        return cls(
            columns=columns,
            is_append=is_append,
            is_sure=is_sure,
            is_read=is_read,
            is_partial=is_read & (limited | (function == Function.STALE_FETCH)),
            counts=counts,
            size=size,
            end=np.where(is_read, columns.argument + counts, np.where(is_sure, columns.result + size, 0)),
        )

    def shown(self, chosen: Bools) -> Shown:
        """The places that the ``chosen`` rows tell, which are reads and sure appends."""
        single = np.flatnonzero(chosen & self.is_append & (self.counts == 0))
        many = np.flatnonzero(chosen & (self.counts > 0))
        row, within = np.repeat(many, self.counts[many]), _within(self.counts[many])
        base = np.where(self.is_read, self.columns.argument, self.columns.result)
        records = np.zeros(0, dtype=np.int64)
        if self.columns.records is not None and self.columns.record_ends is not None:
            records = self.columns.records[self.columns.record_ends[row] + within]
        return Shown(
            row=np.concatenate((single, row)),
            offset=np.concatenate((base[single], base[row] + within)),
            record=np.concatenate((self.columns.argument[single], records)),
        )

    def records_of(self, rows: Ints) -> Ints:
        """All records of these appends."""
        chosen = np.zeros(len(self.size), dtype=np.bool_)
        chosen[rows] = True
        return self.shown(chosen).record

    def first_records(self, rows: Ints) -> Ints:
        """The first record of each of these appends."""
        first = self.columns.argument[rows].copy()
        if self.columns.records is not None and self.columns.record_ends is not None:
            many = self.counts[rows] > 0
            first[many] = self.columns.records[self.columns.record_ends[rows[many]]]
        return first


def _within(counts: Ints) -> Ints:
    """0, 1, ... up to each of the counts."""
    begin = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) - np.repeat(begin, counts)


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
