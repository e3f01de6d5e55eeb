"""A disk of plain lists: what a replica on a bench has written of its log, and what of that is flushed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from replica.ids import EpochEntry, Offset
from replica.records import RecordBatch


@dataclass
class Disk:
    """The log of one replica. Nothing of it is cut while a flush is owed: the core must not ask for that."""

    batches: list[RecordBatch] = field(default_factory=list)
    start: Offset = Offset(0)  # noqa: RUF009 (a NewType call, immutable)
    flushed_end: Offset = Offset(0)  # noqa: RUF009 (a NewType call, immutable)
    epochs: tuple[EpochEntry, ...] = ()
    owed: list[Offset] = field(default_factory=list)

    @property
    def end(self) -> Offset:
        """Where the log ends: an empty one where it begins."""
        return self.batches[-1].end_offset if self.batches else self.start

    def append(self, batches: Iterable[RecordBatch]) -> None:
        """Go on behind what there is; an empty log may also take a batch that begins before it."""
        for batch in batches:
            assert batch.base_offset == self.end or not self.batches, (batch, self.end)
            self.batches.append(batch)

    def cut(self, end_offset: Offset) -> None:
        """Drop what is at and above ``end_offset``."""
        assert not self.owed, ("truncated while flushes are owed", self.owed)
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        assert self.end == end_offset, ("truncated inside a batch", self.end, end_offset)
        self.flushed_end = min(self.flushed_end, end_offset)

    def begin_anew(self, start: Offset) -> None:
        """Drop everything."""
        assert not self.owed, ("emptied while flushes are owed", self.owed)
        self.batches = []
        self.start = self.flushed_end = start

    def begin_at(self, start: Offset) -> None:
        """Drop what lies below ``start``."""
        self.batches = [batch for batch in self.batches if batch.end_offset > start]
        self.start = start

    def flush(self) -> Offset:
        """Finish the oldest flush that is owed; return up to where."""
        end_offset = self.owed.pop(0)
        self.flushed_end = max(self.flushed_end, end_offset)
        return end_offset

    def between(self, start: Offset, end: Offset) -> Iterator[RecordBatch]:
        """Walk the batches that lie in ``[start, end)``, beginning with the one that holds ``start``."""
        for index in range(bisect_left(self.batches, start, key=lambda batch: batch.last_offset), len(self.batches)):
            if self.batches[index].end_offset > end:
                return
            yield self.batches[index]

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        """Read whole batches of a range: one at least, more within its bytes."""
        data = b""
        for batch in self.between(start, end):
            if data and len(data) + batch.size_bytes > max_bytes:
                break
            data += batch.data
        assert data, ("nothing to read", start, end)
        return data
