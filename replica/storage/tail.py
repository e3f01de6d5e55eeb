"""The newest batches of a log, kept in memory so that readers that keep up need no disk.

Owns a contiguous suffix of the log, bounded in bytes. Knows nothing of files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from replica.ids import Offset
from replica.records import RecordBatch


class Tail:
    """A suffix of the log in at most ``bytes_max`` bytes (one batch that is longer is not kept)."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._batches: list[RecordBatch] = []
        self._end_offsets: list[Offset] = []
        self._positions: list[int] = []
        """Where each batch ends, in bytes since the tail was new."""

    def append(self, batch: RecordBatch) -> None:
        """Add the batch that follows the last one; the oldest go when the limit is passed."""
        self._positions.append(batch.size_bytes + (self._positions[-1] if self._positions else 0))
        self._batches.append(batch)
        self._end_offsets.append(batch.end_offset)
        if self._positions[-1] - self._start_position > self._bytes_max:
            self._drop_oldest()

    @property
    def _start_position(self) -> int:
        """Where the first batch begins."""
        return self._positions[0] - self._batches[0].size_bytes

    def _drop_oldest(self) -> None:
        # Down to half, not to the limit: cutting a list at its front costs its length, so it must be rare.
        count = bisect_left(self._positions, self._positions[-1] - self._bytes_max // 2)
        self._cut(slice(count + 1))

    def start_at(self, offset: Offset) -> None:
        """Forget every batch that lies below ``offset`` as a whole: the log begins there now."""
        self._cut(slice(bisect_right(self._end_offsets, offset)))

    def truncate(self, end_offset: Offset) -> None:
        """Forget everything at and above ``end_offset``, a batch boundary."""
        self._cut(slice(bisect_right(self._end_offsets, end_offset), None))

    def _cut(self, batches: slice) -> None:
        del self._batches[batches], self._end_offsets[batches], self._positions[batches]

    def holds(self, offset: Offset) -> bool:
        """Tell whether a record is in it, or comes next."""
        first = self._batches[:1]  # At once: whoever raises the log's start in a thread may empty it meanwhile.
        return bool(first) and offset >= first[0].base_offset

    def batches(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> list[RecordBatch] | None:
        """Whole batches as ``LogStore.read`` returns them; None if ``start_offset`` lies before the tail."""
        if not self.holds(start_offset):
            return None
        first = bisect_right(self._end_offsets, start_offset)
        if first == len(self._batches):
            return []
        position = self._positions[first] - self._batches[first].size_bytes
        fitting = max(first + 1, bisect_right(self._positions, position + max_bytes))
        return self._batches[first : min(fitting, bisect_right(self._end_offsets, end_offset))]
