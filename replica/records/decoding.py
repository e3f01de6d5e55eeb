"""Records of batches as columns, laid out as Apache Arrow has them: what a consumer gets without an object for each.

Owns the decoding into columns: in C where the installation has compiled it, else in Python, more slowly and with the
same result, by what decodes records one by one (``record.py``), which is the reference for every fault as well. Knows
nothing of Arrow itself: whoever wants its arrays makes them of these buffers.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from ctypes import CDLL, Structure, addressof, byref, c_char, c_int64, c_void_p
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from replica.records.batch import HEADER_BYTES, RecordBatch
from replica.records.compression import DECOMPRESSED_BYTES_MAX
from replica.records.errors import CorruptRecordError
from replica.records.record import Header, Record, decompressed, scan_records

_GIVEN = ("count", "start", "base_offset", "epoch", "base_timestamp_ms", "has_append_time", "append_time_ms")
_MEASURED = ("rows", "key_bytes", "value_bytes", "headers", "name_bytes", "content_bytes")


class _Batch(Structure):
    _fields_ = tuple((name, c_int64) for name in (*_GIVEN, "position", *_MEASURED))


class _Strings(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("data", "validity", "ends")),
        *((name, c_int64) for name in ("room", "size", "rows", "nulls")),
    )


class _Columns(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("offsets", "timestamps_ms", "epochs", "header_ends")),
        *((name, c_int64) for name in ("room", "rows", "header_room")),
        *((name, _Strings) for name in ("keys", "values", "names", "contents")),
    )


class Strings:
    """A column of bytes: row n stands in ``data`` from ``offsets[n]`` up to the next, if its bit of ``validity`` is 1.

    There is one offset more than there are rows, of 32 bits; bits are counted from the lowest of the first byte.
    """

    def __init__(self, rows: int, size_bytes: int) -> None:
        self.data = bytearray(size_bytes)
        self.offsets = array("i", bytes(4 * (rows + 1)))
        self.validity = bytearray((rows + 7) // 8)
        self.null_count = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def _bytes(self) -> bytes:
        return bytes(self.data)

    def rows(self, start: int, stop: int) -> Sequence[bytes | None]:
        """These rows, each as an object."""
        if self.null_count == len(self):
            return [None] * (stop - start)
        data = self._bytes
        found = [data[begin:end] for begin, end in pairwise(self.offsets[start : stop + 1])]
        if not self.null_count:
            return found
        bits = self.validity
        return [each if bits[at >> 3] >> (at & 7) & 1 else None for at, each in enumerate(found, start)]

    def struct(self) -> _Strings:
        """What the library fills."""
        return _Strings(
            data=_address(self.data),
            validity=_address(self.validity),
            ends=self.offsets.buffer_info()[0] + self.offsets.itemsize,
            room=len(self.data),
        )

    @classmethod
    def of(cls, rows: Sequence[bytes | None]) -> Strings:
        """Lay out rows that are objects."""
        made = cls(len(rows), sum(len(row) for row in rows if row is not None))
        end = 0
        for at, row in enumerate(rows):
            if row is None:
                made.null_count += 1
            else:
                made.validity[at >> 3] |= 1 << (at & 7)
                made.data[end : end + len(row)] = row
                end += len(row)
            made.offsets[at + 1] = end
        return made


def _address(buffer: bytearray) -> int | None:
    return addressof(c_char.from_buffer(buffer)) if buffer else None


class DecodedRecords(Struct, frozen=True, kw_only=True):
    """Records as columns of equal lengths, in order. Timestamps are -1 for none.

    The headers of row n are those from ``header_offsets[n]`` up to the next in ``names`` and ``contents``.
    """

    offsets: array[int]
    timestamps_ms: array[int]
    leader_epochs: array[int]
    keys: Strings
    values: Strings
    header_offsets: array[int]
    names: Strings
    contents: Strings

    def __len__(self) -> int:
        return len(self.offsets)

    def headers(self, start: int, stop: int) -> Iterator[tuple[Header, ...]]:
        """The headers of these rows."""
        ends = self.header_offsets[start : stop + 1]
        first, last = ends[0], ends[-1]
        names = [name.decode() for name in self.names.rows(first, last) if name is not None]
        pairs = list(zip(names, self.contents.rows(first, last), strict=True))
        for begin, end in pairwise(ends):
            yield tuple(pairs[begin - first : end - first])


class ColumnDecoder:
    """Decodes batches, one after the other, into columns of all of them; by the library ``native``, or without one."""

    def __init__(self, native: CDLL | None) -> None:
        self._native = native
        self._batches: list[tuple[RecordBatch, bytes, _Batch]] = []
        self.size_bytes = 0
        """So many bytes are in the batches, uncompressed."""

    def add(self, batch: RecordBatch, start: int) -> None:
        """Take the records of ``batch`` at offset ``start`` and behind. Raises CorruptRecordError, as the reference."""
        data = decompressed(batch, limit_bytes=DECOMPRESSED_BYTES_MAX)
        measured = measured_of(batch, start)
        fault = None if self._native is None else measure(self._native, data, measured)
        if self._native is None or fault is not None:
            deque(scan_records(batch, data), maxlen=0)  # Raises, and says more of a fault.
        if fault is not None:
            raise fault
        self._batches.append((batch, data, measured))
        self.size_bytes += len(data)

    def finish(self) -> DecodedRecords:
        """The columns of all that was taken."""
        return self.in_python() if self._native is None else self.in_c(self._native)

    def in_c(self, native: CDLL) -> DecodedRecords:
        """The columns by the library."""
        total = {name: sum(getattr(each, name) for _, _, each in self._batches) for name in _MEASURED}
        made = _room_for(total["rows"], total)
        columns = _Columns(
            offsets=made.offsets.buffer_info()[0],
            timestamps_ms=made.timestamps_ms.buffer_info()[0],
            epochs=made.leader_epochs.buffer_info()[0],
            header_ends=made.header_offsets.buffer_info()[0] + made.header_offsets.itemsize,
            room=total["rows"],
            header_room=total["headers"],
            keys=made.keys.struct(),
            values=made.values.struct(),
            names=made.names.struct(),
            contents=made.contents.struct(),
        )
        for _, data, measured in self._batches:
            is_filled = native.columns_fill(data, HEADER_BYTES, len(data), byref(measured), byref(columns))
            assert is_filled, "a batch has more records than were measured"
        for name in ("keys", "values", "names", "contents"):
            getattr(made, name).null_count = getattr(columns, name).nulls
        return made

    def in_python(self) -> DecodedRecords:
        """The same without the library."""
        rows: list[tuple[RecordBatch, Record]] = []
        for batch, data, measured in self._batches:
            rows += [(batch, record) for record in list(scan_records(batch, data))[measured.start :]]
        headers = [header for _, record in rows for header in record.headers]
        header_offsets = array("i", [0])
        for _, record in rows:
            header_offsets.append(header_offsets[-1] + len(record.headers))
        return DecodedRecords(
            offsets=array("q", [record.offset for _, record in rows]),
            timestamps_ms=array("q", [record.timestamp_ms for _, record in rows]),
            leader_epochs=array("i", [batch.leader_epoch for batch, _ in rows]),
            keys=Strings.of([record.key for _, record in rows]),
            values=Strings.of([record.value for _, record in rows]),
            header_offsets=header_offsets,
            names=Strings.of([name.encode() for name, _ in headers]),
            contents=Strings.of([content for _, content in headers]),
        )


def measured_of(batch: RecordBatch, start: int) -> _Batch:
    """What the library is told of a batch, before it has measured it."""
    return _Batch(
        count=batch.record_count,
        start=max(0, start - batch.base_offset),
        base_offset=batch.base_offset,
        epoch=batch.leader_epoch,
        base_timestamp_ms=batch.base_timestamp_ms,
        has_append_time=batch.has_log_append_time,
        append_time_ms=batch.max_timestamp_ms,
    )


def measure(native: CDLL, data: bytes, batch: Structure) -> CorruptRecordError | None:
    """Find what the records of a batch take, or the first fault."""
    fault: bytes | None = native.columns_measure(data, HEADER_BYTES, len(data), byref(batch))
    return None if fault is None else CorruptRecordError(batch.position, fault.decode())


def _room_for(rows: int, total: dict[str, int]) -> DecodedRecords:
    return DecodedRecords(
        offsets=array("q", bytes(8 * rows)),
        timestamps_ms=array("q", bytes(8 * rows)),
        leader_epochs=array("i", bytes(4 * rows)),
        keys=Strings(rows, total["key_bytes"]),
        values=Strings(rows, total["value_bytes"]),
        header_offsets=array("i", bytes(4 * (rows + 1))),
        names=Strings(total["headers"], total["name_bytes"]),
        contents=Strings(total["headers"], total["content_bytes"]),
    )
