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
        self._bytes = 0
        self._batches: list[RecordBatch] = []
        self._base_offsets: list[Offset] = []

    def append(self, batch: RecordBatch) -> None:
        """Add the batch that follows the last one; the oldest go when the limit is passed."""
        self._batches.append(batch)
        self._base_offsets.append(batch.base_offset)
        self._bytes += batch.size_bytes
        if self._bytes > self._bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        # Down to half, not to the limit: cutting a list at its front costs its length, so it must be rare.
        count = 0
        while self._bytes > self._bytes_max // 2:
            self._bytes -= self._batches[count].size_bytes
            count += 1
        del self._batches[:count]
        del self._base_offsets[:count]

    def truncate(self, end_offset: Offset) -> None:
        """Forget everything at and above ``end_offset``, a batch boundary."""
        count = bisect_left(self._base_offsets, end_offset)
        self._bytes -= sum(batch.size_bytes for batch in self._batches[count:])
        del self._batches[count:]
        del self._base_offsets[count:]

    def holds(self, offset: Offset) -> bool:
        """Tell whether a record is in it, or comes next."""
        return bool(self._batches) and offset >= self._base_offsets[0]

    def batches(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> list[RecordBatch] | None:
        """Whole batches as ``LogStore.read`` returns them; None if ``start_offset`` lies before the tail."""
        if not self.holds(start_offset):
            return None
        found: list[RecordBatch] = []
        total = 0
        for at in range(bisect_right(self._base_offsets, start_offset) - 1, len(self._batches)):
            batch = self._batches[at]
            total += batch.size_bytes
            if batch.end_offset > end_offset or (found and total > max_bytes):
                break
            found.append(batch)
        return found
