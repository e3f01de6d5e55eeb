"""The leader-epoch cache: at which offset each leader epoch began.

It answers the one question that replaced "truncate to the high watermark" (KIP-101, KIP-279): *where does this epoch
end in your log?* Entries are strictly increasing in both fields. The cache is kept in memory here; storing it is an
effect, loading it is recovery's part.

Source: Kafka ``LeaderEpochFileCache`` (assign, truncateFromEnd, truncateFromStart, endOffsetFor).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset


class LeaderEpochCache:
    """An ordered list of ``(epoch, start_offset)`` that stays strictly increasing in both."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: tuple[EpochEntry, ...] = tuple(entries)
        for earlier, later in pairwise(self._entries):
            if earlier.epoch >= later.epoch or earlier.start_offset >= later.start_offset:
                raise ValueError(f"epoch entries must increase in both fields: {earlier} is followed by {later}")

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first; the same tuple until something changes."""
        return self._entries

    @property
    def latest(self) -> EpochEntry | None:
        """The newest entry; it may be of an epoch in which nothing has been written yet."""
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: Epoch, start_offset: Offset) -> bool:
        """Note that ``epoch`` begins at ``start_offset``; tell whether anything changed.

        An epoch keeps its first start. Otherwise every entry that is not strictly below the new one in both fields
        gives way: it described records that are gone or never were.
        """
        latest = self.latest
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._entries = (*kept, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drop entries that start at or after ``end_offset``; tell whether any did. Negative offsets do nothing."""
        if end_offset < 0:
            return False
        kept = tuple(entry for entry in self._entries if entry.start_offset < end_offset)
        if len(kept) == len(self._entries):
            return False
        self._entries = kept
        return True

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Forget what lies below ``start_offset``, keeping the epoch that holds it; tell whether anything changed."""
        if start_offset < 0:
            return False
        dropped = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if not dropped or dropped == [EpochEntry(dropped[-1].epoch, start_offset)]:
            return False
        kept = self._entries[len(dropped) :]
        self._entries = (EpochEntry(dropped[-1].epoch, start_offset), *kept)
        return True

    def end_offset_for(self, epoch: Epoch | None, log_end_offset: Offset) -> EpochEndOffset | None:
        """Find the largest known epoch not above ``epoch`` and the offset at which it ends.

        Absent where the question has no answer here: no epoch was asked for, the cache is empty, or ``epoch`` is newer
        than every known one. An epoch older than the first known one ends where the first begins.
        """
        latest = self.latest
        if epoch is None or latest is None or epoch > latest.epoch:
            return None
        if epoch == latest.epoch:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[above].start_offset
        floor_epoch = self._entries[above - 1].epoch if above > 0 else epoch
        return EpochEndOffset(floor_epoch, end_offset)

    def epoch_for_offset(self, offset: Offset) -> Epoch | None:
        """Name the epoch that holds ``offset``: that of the entry with the greatest start not above it."""
        latest = self.latest
        if latest is not None and offset >= latest.start_offset:
            return latest.epoch
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else None
