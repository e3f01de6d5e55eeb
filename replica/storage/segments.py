"""The segments of one log, in order: where an offset lies, and reading from there over their borders.

Owns the list, never empty; its last segment takes appends. Knows nothing of threads or of what is flushed.
Source: Kafka's ``LogSegments``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from replica.core.epoch_cache import LeaderEpochCache
from replica.ids import EpochEntry, Offset
from replica.records import RecordBatch
from replica.storage.batch_reader import DamagedBatchError
from replica.storage.config import LogConfig
from replica.storage.errors import StorageError
from replica.storage.files import Files
from replica.storage.segment import Segment


class Segments:
    """The open segments of the log in ``path``. Damage that is met while reading is a StorageError that names it."""

    def __init__(
        self, files: Files, path: Path, config: LogConfig, segments: Sequence[Segment], epochs: Sequence[EpochEntry]
    ) -> None:
        self._files = files
        self._path = path
        self._config = config
        self._segments = list(segments)
        self._epochs = LeaderEpochCache(epochs)
        self._base_offsets = [segment.base_offset for segment in segments]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def last(self) -> Segment:
        """The one that takes appends."""
        return self._segments[-1]

    def note_appended(self, batch: RecordBatch) -> None:
        """Remember the epoch of a batch that was appended, by which a damaged one is known when it is read."""
        self._epochs.assign(batch.leader_epoch, batch.base_offset)

    def note_truncated(self, end_offset: Offset) -> None:
        """Forget the epochs of what was cut."""
        self._epochs.truncate_from_end(end_offset)

    def roll(self, base_offset: Offset) -> None:
        """Begin a new last segment; its name is not durable yet. May raise OSError."""
        self._segments.append(Segment.create(self._files, self._path, base_offset, self._config))
        self._base_offsets.append(base_offset)

    def position_of(self, end_offset: Offset) -> tuple[Segment, int]:
        """The segment and the byte at which the batch with this base offset begins, or the segment ends.

        StorageError if the offset lies inside a batch.
        """
        segment = self._segments[bisect_right(self._base_offsets, end_offset) - 1]
        if end_offset == segment.base_offset:
            return segment, 0
        with _naming_damage(segment):
            for position, batch in segment.batches_from(end_offset):
                if batch.base_offset == end_offset:
                    return segment, position
                raise StorageError(f"cannot truncate {self._path} to offset {end_offset}, which is inside a batch")
        return segment, segment.size

    def drop_after(self, segment: Segment) -> None:
        """Delete the segments behind this one; durable after a sync of the directory."""
        while self.last is not segment:
            # From the end, so that a crash in between leaves no hole.
            self._base_offsets.pop()
            self._segments.pop().delete()

    def read(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> list[RecordBatch]:
        """Whole batches as ``LogStore.read`` returns them, each verified."""
        found: list[RecordBatch] = []
        total = 0
        for batch in self._batches_from(start_offset, max_bytes):
            total += batch.size_bytes
            if batch.end_offset > end_offset or (found and total > max_bytes):
                break
            found.append(batch)
            if batch.end_offset == end_offset or total >= max_bytes:
                break
        return found

    def _batches_from(self, start_offset: Offset, max_bytes: int) -> Iterator[RecordBatch]:
        """Verified batches from the one that holds ``start_offset`` to the end of the log."""
        for segment in self._segments[bisect_right(self._base_offsets, start_offset) - 1 :]:
            with _naming_damage(segment):
                for position, batch in segment.batches_from(start_offset, wanted_bytes=max_bytes):
                    self._check_epoch(position, batch)
                    yield batch

    def _check_epoch(self, position: int, batch: RecordBatch) -> None:
        """The epoch lies outside the CRC, but it is known from when the batch was appended or the log was opened."""
        written = self._epochs.epoch_for_offset(batch.base_offset)
        if batch.leader_epoch != written:
            reason = f"holds a batch of epoch {batch.leader_epoch} that was written in epoch {written}"
            raise DamagedBatchError(position, reason)


@contextmanager
def _naming_damage(segment: Segment) -> Iterator[None]:
    try:
        yield
    except DamagedBatchError as error:
        raise StorageError(f"{segment.path} at byte {error.position} {error.reason}") from error
