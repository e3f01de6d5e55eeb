"""Hands the library in C bytes of every kind, each right in front of memory that nobody may touch.

Run as a program, since a byte that is read too much ends the process: ``python -m tests.records.fuzz_native LIBRARY
SEED COUNT`` prints how many bodies were well and how many were not, and the same of columns.
"""

from __future__ import annotations

import mmap
import sys
from array import array
from ctypes import CDLL, addressof, byref, c_char, c_int, c_size_t, c_void_p
from random import Random

from replica.records import HEADER_BYTES, Column, ColumnEncoder, Record, RecordColumns, encode_batch, encode_headers
from replica.records.decoding import _MEASURED, _Batch, _Columns, _room_for
from replica.records.walking import _Walk, load

ROOM_BYTES = 1 << 16
PROT_NONE = 0


class Guarded:
    """Memory behind whose last byte there is none."""

    def __init__(self) -> None:
        page = mmap.PAGESIZE
        self._size = ROOM_BYTES + page
        self._map = mmap.mmap(-1, self._size)
        self._start = addressof(c_char.from_buffer(self._map))
        protect = CDLL(None, use_errno=True).mprotect
        protect.argtypes, protect.restype = (c_void_p, c_size_t, c_int), c_int
        assert protect(self._start + ROOM_BYTES, page, PROT_NONE) == 0, "no memory can be guarded here"

    def put(self, data: bytes) -> int:
        """Put bytes at the end, and return where they stand."""
        at = ROOM_BYTES - len(data)
        self._map[at:ROOM_BYTES] = data
        return self._start + at


def drawn(random: Random) -> tuple[bytes, int]:
    """A batch without its header, with its count of records: well, tampered with, cut off, or nothing but noise."""
    records = [
        Record(
            offset=at,  # type: ignore[arg-type] # a number is enough
            timestamp_ms=random.choice((0, 1, 1 << 40)),
            key=random.choice((None, b"", random.randbytes(random.randrange(9)))),
            value=random.choice((None, random.randbytes(random.randrange(200)))),
            headers=tuple(("h" * random.randrange(4), random.choice((None, b"c"))) for _ in range(random.randrange(3))),
        )
        for at in range(random.randrange(1, 9))
    ]
    body = bytearray(encode_batch(records).data[HEADER_BYTES:])
    for _ in range(random.choice((0, 0, 1, 3, 20))):
        body[random.randrange(len(body))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
    if random.random() < 0.3:
        del body[random.randrange(len(body)) :]
    if random.random() < 0.1:
        body = bytearray(random.randbytes(random.randrange(64)))
    return bytes(body), random.choice((len(records), len(records), 1, 1000, 1 << 40))


def read(native: CDLL, guarded: Guarded, random: Random) -> bool:
    """Walk, measure and fill from one body; whether it was well."""
    body, count = drawn(random)
    at, size = guarded.put(body), len(body)
    for name in ("records_walk", "columns_measure", "columns_fill"):
        getattr(native, name).argtypes = None
    walk = _Walk(count, 5)
    base = c_void_p(at)
    is_well = not native.records_walk(base, 0, _long(size), byref(walk))
    batch = _Batch(count=count, start=random.choice((0, 1, 3)), base_timestamp_ms=5)
    fault = native.columns_measure(base, 0, _long(size), byref(batch))
    assert is_well is not bool(fault), "the walk and the measure differ"
    total = {name: getattr(batch, name) for name in _MEASURED}
    for less in (0, 1):  # The second time there is too little room.
        short = {name: max(0, each - less) for name, each in total.items()}
        made = _room_for(min(short["rows"], 1000), short)
        columns = _Columns(
            offsets=made.offsets.buffer_info()[0],
            timestamps_ms=made.timestamps_ms.buffer_info()[0],
            epochs=made.leader_epochs.buffer_info()[0],
            header_ends=made.header_offsets.buffer_info()[0] + 4,
            room=len(made.offsets),
            header_room=short["headers"],
            keys=made.keys.struct(),
            values=made.values.struct(),
            names=made.names.struct(),
            contents=made.contents.struct(),
        )
        is_filled = native.columns_fill(base, 0, _long(size), byref(batch), byref(columns))
        assert bool(is_filled) or less or not is_well, "what was measured was not filled"
    return is_well


def _long(number: int) -> c_size_t:
    return c_size_t(number)


def write(native: CDLL, guarded: tuple[Guarded, Guarded], random: Random) -> bool:
    """Encode a column whose offsets may be anything; whether they were well."""
    rows = [random.randbytes(random.randrange(50)) for _ in range(random.randrange(1, 20))]
    data, ends = b"".join(rows), [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    for _ in range(random.choice((0, 0, 1, 3))):
        ends[random.randrange(len(ends))] = random.choice((-1, 0, len(data), len(data) + 1, 2**31 - 1, -(2**31)))
    is_wide = random.random() < 0.5
    offsets = array("q" if is_wide else "i", ends).tobytes()
    column = Column(
        len(rows), (guarded[0].put(data), len(data), guarded[1].put(offsets), None, 0, is_wide), lambda: rows
    )
    headers = Column.of([encode_headers([("h", None)]) for _ in rows])
    encoder = ColumnEncoder(RecordColumns(values=column, headers=headers))
    place = 0
    try:
        while place < len(rows):
            place += encoder.encode_in_c(native, place, random.randrange(500)).record_count
    except ValueError:
        return False
    return True


def main(library: str, seed: int, count: int) -> None:
    """Fuzz, and tell what was seen."""
    native, random = load(library), Random(seed)
    assert native is not None, library
    guards = (Guarded(), Guarded())
    writes = [write(native, guards, random) for _ in range(count)]
    reads = [read(native, guards[0], random) for _ in range(count)]
    print(sum(reads), len(reads) - sum(reads), sum(writes), len(writes) - sum(writes))  # noqa: T201 - its result


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
