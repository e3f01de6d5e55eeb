"""What rows of a log say, as arrays: appends with an offset, and reads of some length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import NIL, Bools, Columns, Ending, Function, Ints
from nemesis.pipeline.corpora.encoding import columns_of


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
