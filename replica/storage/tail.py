"""The newest batches of each log, kept in memory so that readers that keep up need no disk.

Owns a contiguous suffix of each log, bounded by what it takes of the memory, and the bound of all of them together.
Knows nothing of files.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from replica.ids import Offset
from replica.records import RecordBatch

BATCH_OVERHEAD_BYTES = 400
"""What a batch takes beside its data: the object, its numbers and its place in three lists, on 64 bits. For a batch of
one small record that is several times its data."""
TAILS_BYTES_MAX = 256 << 20


class Tails:
    """The memory that the tails of all logs share. Used from any thread.

    Where they have more than ``bytes_max``, those are emptied to which nothing was added for longest.
    """

    def __init__(self, bytes_max: int = TAILS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._sizes: OrderedDict[Tail, int] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    @property
    def total_bytes(self) -> int:
        """What they have now."""
        return self._total

    def note(self, tail: Tail, size: int) -> None:
        """A tail has so much now."""
        with self._lock:
            self._total += size - self._sizes.pop(tail, 0)
            if size:
                self._sizes[tail] = size
            while self._total > self.bytes_max and len(self._sizes) > 1:
                oldest, freed = self._sizes.popitem(last=False)
                self._total -= freed
                oldest.forget()


class _Suffix:
    """Batches that follow each other."""

    __slots__ = ("batches", "end_offsets", "positions")

    def __init__(self) -> None:
        self.batches: list[RecordBatch] = []
        self.end_offsets: list[Offset] = []
        self.positions: list[int] = []
        """Where each batch ends, in bytes since the first of all."""

    def add(self, batch: RecordBatch) -> None:
        self.positions.append(batch.size_bytes + (self.positions[-1] if self.positions else 0))
        self.batches.append(batch)
        self.end_offsets.append(batch.end_offset)

    def cut(self, batches: slice) -> None:
        del self.batches[batches], self.end_offsets[batches], self.positions[batches]

    def memory_up_to(self, index: int) -> int:
        """What the batches up to this one take, and those that were here before them took of data."""
        return self.positions[index] + (index + 1) * BATCH_OVERHEAD_BYTES

    def start_of(self, index: int) -> int:
        return self.positions[index] - self.batches[index].size_bytes

    @property
    def memory_bytes(self) -> int:
        return self.memory_up_to(len(self.batches) - 1) - self.start_of(0) if self.batches else 0


class Tail:
    """A suffix of one log in at most ``bytes_max`` bytes of memory (one batch that takes more is not kept).

    Its log takes care that one thread uses it at a time. ``forget`` alone comes from any, and whoever reads meanwhile
    goes on with what there was.
    """

    def __init__(self, bytes_max: int, shared: Tails) -> None:
        self._bytes_max = bytes_max
        self._shared = shared
        self._suffix = _Suffix()

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Add the batches that follow the last one; the oldest go when the limit is passed."""
        suffix = self._suffix
        for batch in batches:
            suffix.add(batch)
        if suffix.memory_bytes > self._bytes_max:
            self._drop_oldest(suffix)
        self._shared.note(self, suffix.memory_bytes)

    def _drop_oldest(self, suffix: _Suffix) -> None:
        # Down to half, not to the limit: cutting a list at its front costs its length, so it must be rare.
        indices = range(len(suffix.batches))
        count = bisect_left(indices, suffix.memory_up_to(indices[-1]) - self._bytes_max // 2, key=suffix.memory_up_to)
        suffix.cut(slice(count + 1))

    def truncate(self, end_offset: Offset) -> None:
        """Forget everything at and above ``end_offset``, a batch boundary."""
        self._cut(slice(bisect_right(self._suffix.end_offsets, end_offset), None))

    def drop_below(self, start_offset: Offset) -> None:
        """Forget the batches that end at or below ``start_offset``, where the log begins now."""
        self._cut(slice(bisect_right(self._suffix.end_offsets, start_offset)))

    def clear(self) -> None:
        """Forget everything."""
        self._cut(slice(None))

    def _cut(self, batches: slice) -> None:
        suffix = self._suffix
        suffix.cut(batches)
        self._shared.note(self, suffix.memory_bytes)

    def forget(self) -> None:
        """Forget everything, as others need the memory."""
        self._suffix = _Suffix()

    def holds(self, offset: Offset) -> bool:
        """Tell whether a record is in it, or comes next."""
        batches = self._suffix.batches
        return bool(batches) and offset >= batches[0].base_offset

    def batches(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> list[RecordBatch] | None:
        """Whole batches as ``LogStore.read`` returns them; None if ``start_offset`` lies before the tail."""
        suffix = self._suffix
        if not suffix.batches or start_offset < suffix.batches[0].base_offset:
            return None
        first = bisect_right(suffix.end_offsets, start_offset)
        if first == len(suffix.batches):
            return []
        fitting = max(first + 1, bisect_right(suffix.positions, suffix.start_of(first) + max_bytes))
        return suffix.batches[first : min(fitting, bisect_right(suffix.end_offsets, end_offset))]
