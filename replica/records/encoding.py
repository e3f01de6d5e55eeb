"""Records out of columns: what a producer hands over by the thousand, encoded without an object for each.

Owns the layout of columns in memory, which is Apache Arrow's, and the encoding of them: in C where the installation has
compiled it, else in Python, more slowly and to the same bytes, by what encodes records one by one (``record.py``).
Knows nothing of Arrow itself: whoever has one of its arrays hands over where its buffers are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from ctypes import CDLL, Structure, byref, c_char, c_char_p, c_int64
from functools import cached_property
from itertools import accumulate
from types import NoneType
from typing import Any

from msgspec import Struct

from replica.records.compression import Compression
from replica.records.record import EncodedRecords, compress_records, write_record
from replica.records.walking import library

NO_HEADERS = b"\x00"
"""How no headers are encoded."""


class _Column(Structure):
    _fields_ = (
        ("data", c_char_p),
        ("size", c_int64),
        ("offsets", c_char_p),
        ("validity", c_char_p),
        ("first", c_int64),
        ("is_wide", c_int64),
    )


class _Encode(Structure):
    _fields_ = (
        *((name, _Column) for name in ("values", "keys", "headers")),
        *((name, c_char_p) for name in ("timestamps_ms", "rows")),
        *((name, c_int64) for name in ("row", "stop", "limit_bytes")),
        *((name, c_int64) for name in ("base_timestamp_ms", "max_timestamp_ms", "count", "size")),
    )


class Column:
    """The bytes of so many rows, null or not, as Arrow has them in memory.

    ``layout`` is data, its size, offsets, validity, the first row's place and whether offsets have 64 bits; an address
    or bytes for each of the three buffers. ``to_rows`` gives the rows one by one; it keeps the buffers alive.
    """

    def __init__(self, count: int, layout: tuple[Any, ...], to_rows: Callable[[], Sequence[bytes | None]]) -> None:
        self.count = count
        self.layout = layout
        self._to_rows = to_rows

    def struct(self) -> Structure:
        """What the library takes, as long as this column lives."""
        return _Column(*self.layout)

    @cached_property
    def rows(self) -> Sequence[bytes | None]:
        """The rows, each as an object."""
        return self._to_rows()

    @classmethod
    def of(cls, rows: Sequence[bytes | None]) -> Column:
        """Lay out rows that are objects. Raises TypeError for what is neither bytes nor None."""
        kinds, validity = set(map(type, rows)), None
        for kind in kinds - {bytes, NoneType}:
            if not issubclass(kind, bytes):
                raise TypeError(f"a row is {kind.__name__}; each must be bytes or None")
        present: Sequence[bytes | None] = rows
        if NoneType in kinds:
            present = [b"" if row is None else row for row in rows]
            validity = _bits(rows)
        data = b"".join(present)  # type: ignore[arg-type] # without null
        offsets = array("q", accumulate(map(len, present), initial=0))  # type: ignore[arg-type]
        kept = (rows, offsets)
        return cls(len(rows), (data, len(data), offsets.buffer_info()[0], validity, 0, 1), lambda: kept[0])


def _bits(rows: Sequence[bytes | None]) -> bytes:
    """A bit for each row, the lowest first: whether it is there."""
    bits = "".join("01"[row is not None] for row in reversed(rows))
    return int(bits, 2).to_bytes((len(rows) + 7) // 8, "little")


def _fits(timestamp_delta: int) -> bool:
    return -(1 << 63) <= timestamp_delta < 1 << 63


class RecordColumns(Struct, frozen=True, kw_only=True):
    """Records as columns of equal lengths. ``headers`` are encoded; without ``timestamps_ms`` all are of one time."""

    values: Column
    keys: Column | None = None
    headers: Column | None = None
    timestamps_ms: array[int] | None = None
    timestamp_ms: int = 0

    def timestamp_at(self, row: int) -> int:
        """The time of one record."""
        return self.timestamp_ms if self.timestamps_ms is None else self.timestamps_ms[row]


class ColumnEncoder:
    """Encodes records from columns, batch after batch: all of them, or those at ``rows``, an array of 64 bits."""

    def __init__(
        self, columns: RecordColumns, *, rows: array[int] | None = None, compression: Compression = Compression.NONE
    ) -> None:
        self._columns = columns
        self._rows = rows
        self._compression = compression
        self._stop = columns.values.count if rows is None else len(rows)
        self._native = library()
        self._job = self._new_job()

    def encode(self, place: int, limit_bytes: int) -> EncodedRecords:
        """Encode from ``place`` on as many as fit in ``limit_bytes`` before compression, and one at least.

        Raises ValueError for what no batch can hold.
        """
        assert 0 <= place < self._stop, f"{place} of {self._stop}"
        if self._native is None:
            return self.encode_in_python(place, limit_bytes)
        return self.encode_in_c(self._native, place, limit_bytes)

    def encode_in_c(self, native: CDLL, place: int, limit_bytes: int) -> EncodedRecords:
        """The encoding by the library."""
        job = self._job
        job.row, job.limit_bytes = place, limit_bytes
        fault: bytes | None = native.records_measure(byref(job))
        if fault is not None and job.count == 0:
            raise ValueError(fault.decode())
        body = bytearray(job.size)
        if not native.records_encode(byref(job), byref(c_char.from_buffer(body))):
            raise ValueError("the columns were changed while they were encoded")
        return EncodedRecords(
            body=compress_records(body, self._compression),
            record_count=job.count,
            base_timestamp_ms=job.base_timestamp_ms,
            max_timestamp_ms=job.max_timestamp_ms,
            compression=self._compression,
        )

    def _new_job(self) -> _Encode:
        columns, rows = self._columns, self._rows
        job = _Encode(stop=self._stop, base_timestamp_ms=columns.timestamp_ms)
        job.values = columns.values.struct()
        if columns.keys is not None:
            job.keys = columns.keys.struct()
        if columns.headers is not None:
            job.headers = columns.headers.struct()
        if columns.timestamps_ms is not None:
            job.timestamps_ms = columns.timestamps_ms.buffer_info()[0]
        if rows is not None:
            job.rows = rows.buffer_info()[0]
        return job

    def encode_in_python(self, place: int, limit_bytes: int) -> EncodedRecords:
        """The same without the library."""
        columns, body = self._columns, bytearray()
        rows = range(self._stop) if self._rows is None else self._rows
        times = [columns.timestamp_at(rows[place])]
        for at in range(place, self._stop):
            row, record = rows[at], bytearray()
            key = None if columns.keys is None else columns.keys.rows[row]
            headers = None if columns.headers is None else columns.headers.rows[row]
            deltas = (at - place, columns.timestamp_at(row) - times[0])
            write_record(record, key, columns.values.rows[row], headers or NO_HEADERS, deltas)
            if at > place and (len(body) + len(record) > limit_bytes or not _fits(deltas[1])):
                break
            body += record
            times[at - place :] = [columns.timestamp_at(row)]
        return EncodedRecords(
            body=compress_records(body, self._compression),
            record_count=len(times),
            base_timestamp_ms=times[0],
            max_timestamp_ms=max(times),
            compression=self._compression,
        )
