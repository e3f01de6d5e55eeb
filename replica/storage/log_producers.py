"""The idempotent producers of one open log: what is known of them, and what of it stands in snapshots.

Owns when a snapshot is due and when what is known must be read anew. A quorum log has no producers: then everything
here does nothing. Knows nothing of locks: its log calls it under its own.
Source: Kafka's ``ProducerStateManager``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica.core.log.recovered import ProducerEntry
from replica.core.partition.producer_state import ProducerScan
from replica.ids import Offset
from replica.records import RecordBatch
from replica.storage.producer_snapshots import ProducerSnapshots, read_on
from replica.storage.segment import Segment
from replica.storage.segments import Segments
from replica.storage.trash import Trash


class LogProducers:
    """The producers of the log whose ``segments`` these are; ``snapshots`` are absent in a quorum log."""

    def __init__(
        self, snapshots: ProducerSnapshots | None, entries: tuple[ProducerEntry, ...], segments: Segments
    ) -> None:
        self._snapshots = snapshots
        self._segments = segments
        self._known = None if snapshots is None else ProducerScan(entries)
        """Absent in a quorum log, and from a truncation until the log is read again."""
        self._unstored: dict[Offset, tuple[ProducerEntry, ...]] = {}
        """Snapshots that the next flush stores."""

    def note(self, batch: RecordBatch) -> None:
        """Remember who wrote a batch that was appended."""
        if self._known is not None:
            self._known.note(batch)

    def note_rolled(self, base_offset: Offset) -> None:
        """Remember for the next flush what is known where a new segment begins."""
        if self._known is not None:
            self._unstored[base_offset] = self._known.entries

    def take_unstored(self) -> Mapping[Offset, tuple[ProducerEntry, ...]]:
        """Hand over what a flush that begins now is to ``store``."""
        unstored, self._unstored = self._unstored, {}
        return unstored

    def store(self, unstored: Mapping[Offset, tuple[ProducerEntry, ...]]) -> None:
        """Keep these snapshots, durable on return."""
        for offset, entries in unstored.items():
            assert self._snapshots is not None, f"a quorum log has no producers to keep at {offset}"
            self._snapshots.store(offset, entries)

    def forget_above(self, end_offset: Offset) -> None:
        """Remove what tells of batches at and above ``end_offset``; what stands below is to be read again."""
        self._known = None
        self._unstored = {offset: entries for offset, entries in self._unstored.items() if offset <= end_offset}
        if self._snapshots is not None:
            self._snapshots.remove_above(end_offset)

    def begin_anew(self, offset: Offset, entries: tuple[ProducerEntry, ...]) -> None:
        """Forget everything, durably; ``entries`` are those to know of from now on, in a log that begins there."""
        self._known, self._unstored = None, {}
        if self._snapshots is not None:
            self._snapshots.remove_all()
            if entries:
                self._snapshots.store(offset, entries)

    def keep_beside(self, log_start_offset: Offset, log_end_offset: Offset, dropped: Sequence[Segment]) -> None:
        """See to it that what the oldest segments say of producers stands in a snapshot where the next one begins.

        The next one may also begin where the log now begins and ends, before anything else is stored.
        """
        if self._snapshots is None:
            return
        self.store(self.take_unstored())
        if dropped:
            first_offset = next(segment.base_offset for segment in self._segments if segment not in dropped)
            self._snapshots.store_missing(first_offset, lambda: self.read(first_offset))
        if log_start_offset == log_end_offset:
            self._snapshots.store_missing(log_start_offset, lambda: self.scan(log_end_offset))

    def throw_away_below(self, offset: Offset, trash: Trash) -> None:
        """Mark the snapshots below ``offset`` for removal; durable after a sync of the directory."""
        if self._snapshots is not None:
            self._snapshots.throw_away_below(offset, trash)

    def store_end(self, log_end_offset: Offset) -> None:
        """Keep what is known at the log's end, unless that is on disk."""
        if self._snapshots is not None:
            self._snapshots.store_missing(log_end_offset, lambda: self.scan(log_end_offset))

    def read(self, end_offset: Offset) -> tuple[ProducerEntry, ...]:
        """What the batches below ``end_offset`` have left, read from the disk."""
        if self._snapshots is None:
            return ()
        first_offset, batches_from = self._segments.first.base_offset, self._segments.batches_from
        return read_on(self._snapshots, batches_from, first_offset=first_offset, end_offset=end_offset).entries

    def scan(self, log_end_offset: Offset) -> tuple[ProducerEntry, ...]:
        """What the whole log has left; read from the disk where a truncation has come in between."""
        if self._snapshots is None:
            return ()
        if self._known is None:
            self._known = ProducerScan(self.read(log_end_offset))
        return self._known.entries
