"""How far one log is sound: every batch read, checked and indexed in one pass, or the ends of its segments only.

Owns what makes a batch the next one of its log: its CRC, its offset, its epoch. An epoch lies outside the CRC; below
the recovery point it must be the one that was stored before its batch was appended. Batches that plainly follow one
another are passed over by the run, without an object for each; any other is looked at by itself, and so is the next
one behind each run. Knows nothing of what may be done about damage. Source: Kafka's ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import CDLL
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.partition.producer_state import ProducerScan
from replica.ids import EpochEntry, Offset
from replica.records import RecordBatch
from replica.records.runs import Expected, Runs
from replica.records.walking import library
from replica.storage.batch_reader import DamagedBatchError, FileWindow, check_next, read_batches
from replica.storage.config import LogConfig
from replica.storage.segment import Segment

_WINDOW_BYTES = 2 << 20
"""How much is read from a file at a time, unless one batch is longer. More costs page faults where logs are many."""
_FIRST = Offset(0)
_NOWHERE = Offset((1 << 63) - 1)
"""Above all offsets."""


@dataclass(slots=True, kw_only=True)
class LogScan:
    """How far a log is sound. ``kept`` counts the segments that stay; the last of them is cut to ``kept_bytes``.

    ``producers``, where they are asked for, are those of all batches but those that end at or below ``producers_from``.
    """

    config: LogConfig
    log_start_offset: Offset
    recovery_point: Offset
    written_in: LeaderEpochCache
    """The stored epochs, to be asked."""
    end_offset: Offset
    producers: ProducerScan | None = None
    producers_from: Offset = _FIRST
    kept: int = 0
    kept_bytes: int = 0
    epochs: list[EpochEntry] = field(default_factory=list)
    damage: tuple[Path, DamagedBatchError] | None = None
    native: CDLL | None = field(default_factory=library)
    """What finds runs; absent where every batch has to be looked at by itself."""

    def search(self, segments: Iterable[Segment]) -> None:
        """Read everything up to the first damage."""
        for segment in segments:
            try:
                self.search_segment(segment)
            except DamagedBatchError as error:
                self.damage = segment.path, error
                return

    def search_segment(self, segment: Segment) -> None:
        """Read the next segment, and build its indexes. Raises DamagedBatchError."""
        self._begin(segment)
        segment.reset_indexes()
        window = segment.window(_WINDOW_BYTES)
        runs = None if self.native is None else self._runs(self.native)
        while self.kept_bytes < segment.size:
            if runs is not None and self.epochs:
                self._take_run(segment, window, runs)
            for position, batch in islice(self._read(window, self.kept_bytes), 1):
                self._take(segment, position, batch)

    def search_ends(self, segments: Iterable[Segment]) -> None:
        """Read the end of each segment, or raise DamagedBatchError if one does not reach the next."""
        for segment in segments:
            self._begin(segment)
            _, start = segment.index.last_before(Offset(segment.base_offset + (1 << 32)))
            for position, batch in self._read(segment.window(), start):
                if position == start:
                    self.end_offset = batch.base_offset
                self._take(segment, position, batch)

    def _read(self, window: FileWindow, position: int) -> Iterable[tuple[int, RecordBatch]]:
        return read_batches(window, position, batch_bytes_max=self.config.batch_bytes_max)

    def _runs(self, native: CDLL) -> Runs:
        return Runs(native, batch_bytes_max=self.config.batch_bytes_max, mark_bytes=self.config.index_interval_bytes)

    def _begin(self, segment: Segment) -> None:
        if segment.base_offset != self.end_offset:
            raise DamagedBatchError(0, f"begins at offset {segment.base_offset} instead")
        self.kept, self.kept_bytes = self.kept + 1, 0

    def _take_run(self, segment: Segment, window: FileWindow, runs: Runs) -> None:
        """Add batches of the last epoch, as many as need no second look: perhaps none."""
        expected = Expected(
            next_offset=self.end_offset,
            epoch=self.epochs[-1].epoch,
            stop_offset=self._plain_until(),
            keeps_producers=self.producers is not None,
        )
        run = segment.note_run(window, self.kept_bytes, runs, expected)
        self.end_offset = run.end_offset
        self.kept_bytes += run.size_bytes
        for batch in run.produced:
            self._note_producer(batch)

    def _plain_until(self) -> Offset:
        """Up to where batches of the last epoch are of the epoch that is stored, or none need be."""
        if self.end_offset >= self.recovery_point:
            return _NOWHERE
        if self.end_offset < self.log_start_offset:
            return self.log_start_offset
        if self.written_in.epoch_for_offset(self.end_offset) not in (None, self.epochs[-1].epoch):
            return self.end_offset
        starts = (entry.start_offset for entry in self.written_in.entries)
        return min((start for start in starts if start > self.end_offset), default=_NOWHERE)

    def _take(self, segment: Segment, position: int, batch: RecordBatch) -> None:
        """Add the next batch, or raise DamagedBatchError if it does not continue the log.

        Below the recovery point it is of the epoch that is stored. 1. A bit of the last epoch flips, while the replica
        is down. 2. It comes back, and its log ends in an epoch that never was. 3. By that it is newer than those of all
        others: it is elected, without what they have committed since. (The log may begin inside a batch, and the epochs
        begin with the log.)
        """
        offset = max(batch.base_offset, self.log_start_offset)
        if offset < min(batch.end_offset, self.recovery_point):
            written = self.written_in.epoch_for_offset(offset)
            if written not in (None, batch.leader_epoch):
                reason = f"holds a batch of epoch {batch.leader_epoch} that was written in epoch {written}"
                raise DamagedBatchError(position, reason)
        last_epoch = self.epochs[-1].epoch if self.epochs else None
        check_next(position, batch, expected_offset=self.end_offset, last_epoch=last_epoch)
        if batch.leader_epoch != last_epoch:
            self.epochs.append(EpochEntry(batch.leader_epoch, batch.base_offset))
        self.end_offset = batch.end_offset
        self.kept_bytes = position + batch.size_bytes
        segment.note(position, batch)
        self._note_producer(batch)

    def _note_producer(self, batch: RecordBatch) -> None:
        if self.producers is not None and batch.end_offset > self.producers_from:
            self.producers.note(batch)
