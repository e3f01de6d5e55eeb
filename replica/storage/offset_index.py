"""The sparse offset index of one segment: where to begin reading for an offset.

Owns the entries (one about every ``index_interval_bytes`` of log) and the ``.index`` file. The index is derived data:
it may be lost or rebuilt at any time, so it is written when its segment is finished or closed, not while it grows.
File: 8 bytes an entry, big-endian, offset relative to the segment's base (u32), position in the segment (u32).
Source: Kafka's ``OffsetIndex``.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path

from replica.ids import Offset
from replica.storage.files import Files, atomic_write, read_file

ENTRY_BYTES = 8
RELATIVE_OFFSET_MAX = 0xFFFF_FFFF
POSITION_MAX = 0xFFFF_FFFF

_U32 = "I"


class OffsetIndex:
    """Entries in order of offset: each a batch's base offset and its position. Lookups are O(log n)."""

    def __init__(self, base_offset: Offset, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._relative_offsets = array(_U32)
        self._positions = array(_U32)
        self._is_stored = False

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def last_position(self) -> int:
        """Where the last batch noted stands, 0 without one."""
        return self._positions[-1] if self._positions else 0

    def maybe_add(self, base_offset: Offset, position: int) -> bool:
        """Note a batch at ``position``, if it lies an interval or more behind the last one noted (position 0 never).

        Tell whether a new interval begins with it.
        """
        if position - self.last_position < self._interval_bytes:
            return False
        self._relative_offsets.append(base_offset - self._base_offset)
        self._positions.append(position)
        self._is_stored = False
        return True

    def extend(self, relative_offsets: bytes, positions: bytes) -> None:
        """Note batches that each begin a new interval; both as an array of u32 has them in memory."""
        self._relative_offsets.frombytes(relative_offsets)
        self._positions.frombytes(positions)
        self._is_stored = False

    def last_before(self, offset: Offset) -> tuple[Offset, int]:
        """Base offset and position of the last noted batch at or below ``offset``; of the first batch if none is."""
        interval = self.interval_of(offset)
        return self.start_of(interval), self._positions[interval - 1] if interval else 0

    def interval_of(self, offset: Offset) -> int:
        """The number of the interval between two entries, from 0 on, that holds ``offset``."""
        return bisect_right(self._relative_offsets, min(max(offset - self._base_offset, 0), RELATIVE_OFFSET_MAX))

    def start_of(self, interval: int) -> Offset:
        """The base offset of the first batch in an interval."""
        return Offset(self._base_offset + (self._relative_offsets[interval - 1] if interval else 0))

    def truncate(self, size: int) -> None:
        """Forget batches at or behind ``size`` bytes of the segment."""
        count = bisect_right(self._positions, size - 1) if size > 0 else 0
        if count < len(self._positions):
            del self._relative_offsets[count:]
            del self._positions[count:]
            self._is_stored = False

    def store(self, files: Files, path: Path) -> None:
        """Replace the index file, durably, unless it holds just these entries already. May raise OSError."""
        if not self._is_stored:
            atomic_write(files, path, self.encoded())
            self._is_stored = True

    def encoded(self) -> bytes:
        """The entries as the file has them."""
        interleaved = array(_U32, bytes(ENTRY_BYTES * len(self)))
        interleaved[::2], interleaved[1::2] = self._relative_offsets, self._positions
        if sys.byteorder == "little":
            interleaved.byteswap()
        return interleaved.tobytes()

    def load(self, files: Files, path: Path, *, segment_bytes: int) -> bool:
        """Take the entries from the file; False and none taken if it is missing or cannot be the segment's."""
        if not files.exists(path):
            return False
        content = read_file(files, path)
        if len(content) % ENTRY_BYTES:
            return False
        interleaved = array(_U32, content)
        if sys.byteorder == "little":
            interleaved.byteswap()
        relative_offsets, positions = interleaved[::2], interleaved[1::2]
        if not _grows(relative_offsets) or not _grows(positions) or (positions and positions[-1] >= segment_bytes):
            return False
        self._relative_offsets, self._positions = relative_offsets, positions
        self._is_stored = True
        return True


def _grows(values: array[int]) -> bool:
    return all(before < after for before, after in pairwise(values))
