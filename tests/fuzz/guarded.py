"""Memory behind whose last byte there is none: a native decoder that reads too far ends the process there.

Owns the memory, and the way in which the library in C is handed an input in it.
"""

from __future__ import annotations

import mmap
import tempfile
from ctypes import CDLL, addressof, byref, c_char, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path

from replica.records import (
    HEADER_BYTES,
    Column,
    ColumnEncoder,
    CorruptRecordError,
    RecordColumns,
    encode_headers,
    parse_batches,
)
from replica.records.decoding import _MEASURED, _Columns, _room_for, measured_of
from replica.records.walking import _Walk
from tests.records.compiled import compiled

ROOM_BYTES = 1 << 19
PROT_NONE = 0


class Guarded:
    """A piece of memory, and a page behind it that nobody may touch."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, ROOM_BYTES + mmap.PAGESIZE)
        self._start = addressof(c_char.from_buffer(self._map))
        protect = CDLL(None, use_errno=True).mprotect
        protect.argtypes, protect.restype = (c_void_p, c_size_t, c_int), c_int
        assert protect(self._start + ROOM_BYTES, mmap.PAGESIZE, PROT_NONE) == 0, "no memory can be guarded here"

    def put(self, data: bytes) -> c_void_p:
        """Put bytes at the end, and return where they stand."""
        at = ROOM_BYTES - len(data)
        self._map[at:ROOM_BYTES] = data
        return c_void_p(self._start + at)


@cache
def _native() -> tuple[CDLL, Guarded, Guarded]:
    """The library as the source is now, with functions that take addresses, and memory for what it reads."""
    with tempfile.TemporaryDirectory() as folder:
        native = compiled(Path(folder))
    for name in ("records_walk", "columns_measure", "columns_fill"):
        getattr(native, name).argtypes = None
    return native, Guarded(), Guarded()


def read_guarded(content: bytes) -> None:
    """Walk over, measure and fill columns from batches whose records nobody has looked at. Raises CorruptRecordError.

    Their headers are those that a log would have taken; the second time there is less room than was measured.
    """
    native, guarded, _ = _native()
    for batch in parse_batches(content):
        at, size = guarded.put(batch.data), c_size_t(len(batch.data))
        walk = _Walk(batch.record_count, batch.base_timestamp_ms)
        fault: bytes | None = native.records_walk(at, c_int64(HEADER_BYTES), size, byref(walk))
        measured = measured_of(batch, batch.base_offset + batch.record_count % 3)
        assert bool(native.columns_measure(at, c_int64(HEADER_BYTES), size, byref(measured))) is bool(fault)
        total = {name: getattr(measured, name) for name in _MEASURED}
        for less in (0, 1):
            short = {name: max(0, each - less) for name, each in total.items()}
            made = _room_for(min(short["rows"], ROOM_BYTES), short)
            columns = _Columns(
                offsets=made.offsets.buffer_info()[0],
                timestamps_ms=made.timestamps_ms.buffer_info()[0],
                epochs=made.leader_epochs.buffer_info()[0],
                header_ends=made.header_offsets.buffer_info()[0] + made.header_offsets.itemsize,
                room=len(made.offsets),
                header_room=short["headers"],
                keys=made.keys.struct(),
                values=made.values.struct(),
                names=made.names.struct(),
                contents=made.contents.struct(),
            )
            is_filled = native.columns_fill(at, c_int64(HEADER_BYTES), size, byref(measured), byref(columns))
            assert bool(is_filled) or less or fault, "what was measured was not filled"
        if fault is not None:
            raise CorruptRecordError(walk.position, fault.decode())


def encode_guarded(content: bytes) -> None:
    """Encode a column as Arrow has it in memory, whose offsets may be anything. Raises ValueError.

    The first byte says whether offsets have 64 bits, the second how many rows there are; offsets follow, then data.
    """
    native, guarded, guarded_offsets = _native()
    is_wide, count = bool(content[:1] and content[0] & 1), 1 + sum(content[1:2]) % 20
    end = 2 + (count + 1) * (8 if is_wide else 4)
    offsets, data = content[2:end], content[end:]
    if len(offsets) < end - 2:
        raise ValueError("there are fewer offsets than rows")
    layout = (guarded.put(data).value, len(data), guarded_offsets.put(offsets).value, None, 0, is_wide)
    column = Column(count, layout, lambda: [b""] * count)
    headers = Column.of([encode_headers([("h", None)])] * count)
    encoder = ColumnEncoder(RecordColumns(values=column, headers=headers))
    place = 0
    while place < count:
        place += encoder.encode_in_c(native, place, 1 + len(data) % 500).record_count
