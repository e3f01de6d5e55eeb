"""Logs as chains, by which a judge compares them without their records.

Two batches are the same link exactly when they are the same bytes on the same link before them, so that equal links
mean equal logs up to there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from replica.ids import Epoch, Offset
from replica.records import RecordBatch

FIRST = Offset(0)
ROOT = 0
"""The link before the first batch."""


@dataclass(slots=True)
class Chain:
    """One log as ends, epochs and links, batch by batch."""

    start: Offset = FIRST
    """Where it begins."""
    base: int = ROOT
    """The link before its first batch."""
    ends: list[Offset] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    links: list[int] = field(default_factory=list)

    @property
    def end(self) -> Offset:
        """Where the log ends."""
        return self.ends[-1] if self.ends else self.start

    @property
    def last_link(self) -> int:
        """The link of the whole log."""
        return self.links[-1] if self.links else self.base

    def add(self, batch: RecordBatch, link: int) -> None:
        """Append a batch."""
        self.ends.append(batch.end_offset)
        self.epochs.append(batch.leader_epoch)
        self.links.append(link)

    def truncate_to(self, end_offset: Offset) -> None:
        """Drop what is at and above ``end_offset``."""
        kept = bisect_right(self.ends, end_offset)
        del self.ends[kept:], self.epochs[kept:], self.links[kept:]

    def begin_at(self, start: Offset, base: int) -> None:
        """Forget what lies below ``start``, a batch boundary; ``base`` is the link of everything below it."""
        forgotten = bisect_right(self.ends, start)
        del self.ends[:forgotten], self.epochs[:forgotten], self.links[:forgotten]
        self.start, self.base = start, base

    def epoch_starts(self) -> tuple[tuple[Epoch, Offset], ...]:
        """Each epoch with the offset at which it begins."""
        starts = [self.start, *self.ends]
        return tuple(
            (epoch, starts[index])
            for index, epoch in enumerate(self.epochs)
            if not index or epoch != self.epochs[index - 1]
        )

    def link_at(self, end_offset: Offset) -> int | None:
        """The link of everything below ``end_offset``; None if no batch ends there."""
        if end_offset == self.start:
            return self.base
        index = bisect_left(self.ends, end_offset)
        return self.links[index] if index < len(self.ends) and self.ends[index] == end_offset else None

    def common_end(self, other: Chain) -> Offset:
        """Up to where the two are the same; the later start where they share no link."""
        at = dict(zip(other.ends, other.links, strict=True)) | {other.start: other.base}
        for end, link in zip(reversed(self.ends), reversed(self.links), strict=True):
            if at.get(end) == link:
                return end
        return max(self.start, other.start)
