"""Runs of batches that plainly follow one another, as whoever opens a log meets them by the million.

Owns the walk in C over them, which makes no objects. It only ever says that batches are well, CRC and all: where a run
ends, its caller looks at the next batch by ``scanning``, and that alone says what is wrong with it, if anything is.
Where no library was compiled there are none. Source: Kafka's ``LogSegment.recover``.
"""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, byref, c_int64, c_uint32

from msgspec import Struct

from replica.ids import Epoch, Offset
from replica.records.batch import RecordBatch, batch_size_at, parse_batch
from replica.records.compression import DECOMPRESSED_BYTES_MAX

RUN_BATCHES_MAX = 16_384
"""How many batches a run may have."""


class Expected(Struct, frozen=True, kw_only=True):
    """What is plain: batches of ``epoch`` from ``next_offset`` on, none of which ends above ``stop_offset``.

    ``keeps_producers``: those who wrote them are asked for.
    """

    next_offset: Offset
    epoch: Epoch
    stop_offset: Offset
    keeps_producers: bool


class LastMark(Struct, frozen=True, kw_only=True):
    """Up to where a segment, which begins at ``base_offset``, is indexed, and the newest time in it behind that."""

    base_offset: Offset
    position: int
    newest_ms: int


class Run(Struct, frozen=True, kw_only=True):
    """So many bytes of batches, and where the next one begins.

    A mark is the first batch at least ``mark_bytes`` behind the one before: its offset (from the segment's base), its
    position, and the newest time between the one before and it, each as an array of u32, u32 and i64 has them in
    memory; ``open_ms`` is the newest time behind the last. ``produced`` are batches of idempotent producers, in order:
    all but those of which five of the same producer and epoch come behind.
    """

    size_bytes: int
    end_offset: Offset
    mark_offsets: bytes
    mark_positions: bytes
    newest_ms: bytes
    open_ms: int
    produced: tuple[RecordBatch, ...]


class _Walk(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("file_position", "base_offset", "batch_bytes_max", "decompressed_bytes_max")),
        *((name, c_int64) for name in ("mark_bytes", "epoch", "stop_offset", "keeps_producers", "room")),
        *((name, c_int64) for name in ("position", "next_offset", "marked_position", "open_ms", "marks", "kept")),
        *((name, POINTER(c_uint32)) for name in ("mark_offsets", "mark_positions")),
        ("newest_ms", POINTER(c_int64)),
        ("kept_positions", POINTER(c_uint32)),
    )


class Runs:
    """Finds runs, one after the other. Not for several threads at once."""

    def __init__(self, native: CDLL, *, batch_bytes_max: int, mark_bytes: int) -> None:
        self._native = native
        self._offsets, self._positions, self._kept = ((c_uint32 * RUN_BATCHES_MAX)() for _ in range(3))
        self._newest_ms = (c_int64 * RUN_BATCHES_MAX)()
        self._walk = _Walk(
            batch_bytes_max=batch_bytes_max,
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
            mark_bytes=mark_bytes,
            mark_offsets=self._offsets,
            mark_positions=self._positions,
            newest_ms=self._newest_ms,
            kept_positions=self._kept,
        )

    def first(self, data: bytes, at: int, *, file_position: int, expected: Expected, last_mark: LastMark) -> Run:
        """The run that begins at ``at`` in ``data``, whose first byte stands at ``file_position`` of its segment."""
        walk = self._walk
        walk.position, walk.file_position, walk.room = at, file_position, RUN_BATCHES_MAX
        walk.next_offset, walk.epoch, walk.stop_offset = expected.next_offset, expected.epoch, expected.stop_offset
        walk.keeps_producers = expected.keeps_producers
        walk.base_offset, walk.marked_position = last_mark.base_offset, last_mark.position
        walk.open_ms = last_mark.newest_ms
        self._native.batches_walk(data, len(data), byref(walk))
        return Run(
            size_bytes=walk.position - at,
            end_offset=Offset(walk.next_offset),
            mark_offsets=bytes(memoryview(self._offsets)[: walk.marks]),
            mark_positions=bytes(memoryview(self._positions)[: walk.marks]),
            newest_ms=bytes(memoryview(self._newest_ms)[: walk.marks]),
            open_ms=walk.open_ms,
            produced=tuple(_batch_at(data, position) for position in sorted(self._kept[: walk.kept])),
        )


def _batch_at(data: bytes, position: int) -> RecordBatch:
    size = batch_size_at(data, position)
    assert size is not None
    return parse_batch(data[position : position + size], position, verify=False)
