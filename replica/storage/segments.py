"""The segments of one log, in order: where an offset lies, and reading from there over their borders.

Owns the list, never empty; its last segment takes appends. Knows nothing of threads or of what is flushed.
Source: Kafka's ``LogSegments``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.ids import EpochEntry, Offset
from replica.records import RecordBatch
from replica.storage.batch_reader import WINDOW_BYTES, DamagedBatchError, UnreadableFileError
from replica.storage.config import LogConfig
from replica.storage.errors import DamagedSegmentError, StorageError
from replica.storage.files import Files
from replica.storage.segment import Place, Segment
from replica.storage.trash import Trash


class Segments:
    """The open segments of the log in ``path``. Damage that is met while reading is a StorageError that names it."""

    def __init__(
        self,
        files: Files,
        path: Path,
        config: LogConfig,
        segments: Sequence[Segment],
        log_start_offset: Offset,
        epochs: Sequence[EpochEntry],
    ) -> None:
        self._files = files
        self._path = path
        self._config = config
        self._segments = list(segments)
        self._epochs = LeaderEpochCache(epochs)
        self._base_offsets = [segment.base_offset for segment in segments]
        self.log_start_offset = log_start_offset
        """Epochs are known from here on. What the first segment holds below is not read any more."""

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """Where each epoch begins, of the batches that there are."""
        return self._epochs.entries

    @property
    def first(self) -> Segment:
        """The oldest one; the log begins in it, or where it begins."""
        return self._segments[0]

    @property
    def last(self) -> Segment:
        """The one that takes appends."""
        return self._segments[-1]

    def check_continues(self, batches: Sequence[RecordBatch], expected: Offset) -> None:
        """Refuse batches that do not follow one another from an offset on, or are too large, with StorageError."""
        for batch in batches:
            if batch.base_offset != expected or batch.size_bytes > self._config.batch_bytes_max:
                raise StorageError(
                    f"a batch of {batch.size_bytes} bytes at offset {batch.base_offset} cannot be appended to "
                    f"{self._path} at offset {expected} (at most {self._config.batch_bytes_max} bytes)"
                )
            expected = batch.end_offset

    def have_room_for(self, batches: Sequence[RecordBatch]) -> bool:
        """Tell whether the last segment takes all of these."""
        bytes_before = sum(batch.size_bytes for batch in batches[:-1])
        return not batches or self.last.has_room(batches[-1], bytes_before)

    def note_appended(self, batch: RecordBatch) -> None:
        """Remember the epoch of a batch that was appended, by which a damaged one is known when it is read."""
        self._epochs.assign(batch.leader_epoch, batch.base_offset)

    def note_log_start(self, log_start_offset: Offset) -> None:
        """Forget the epochs of what is not read any more."""
        self._epochs.truncate_from_start(log_start_offset)
        self.log_start_offset = log_start_offset

    def note_truncated(self, end_offset: Offset) -> None:
        """Forget the epochs of what was cut."""
        self._epochs.truncate_from_end(end_offset)

    def roll(self, base_offset: Offset) -> None:
        """Begin a new last segment; its name is not durable yet. May raise OSError."""
        self._segments.append(Segment.create(self._files, self._path, base_offset, self._config))
        self._base_offsets.append(base_offset)

    def place_of(self, end_offset: Offset) -> tuple[Segment, Place]:
        """The segment, and where in it the batch with this base offset begins, or the segment ends.

        StorageError if the offset lies inside a batch.
        """
        segment = self._segments[bisect_right(self._base_offsets, end_offset) - 1]
        if end_offset == segment.base_offset:
            return segment, Place(position=0, base_offset=end_offset)
        with naming_damage(segment):
            place = segment.place_of(end_offset)
        if place.base_offset != end_offset:
            raise StorageError(f"cannot truncate {self._path} to offset {end_offset}, which is inside a batch")
        return segment, place

    def drop_after(self, segment: Segment) -> None:
        """Delete the segments behind this one; durable after a sync of the directory."""
        while self.last is not segment:
            # From the end, so that a crash in between leaves no hole.
            self._base_offsets.pop()
            self._segments.pop().delete()

    def wholly_below(self, offset: Offset) -> list[Segment]:
        """The segments that end at or below ``offset``, never the last one."""
        return self._segments[: max(0, bisect_right(self._base_offsets, offset) - 1)]

    def throw_away(self, segments: Sequence[Segment], trash: Trash) -> None:
        """Mark the oldest segments for removal; durable after a sync of the directory."""
        for segment in segments:
            segment.throw_away(trash)
        del self._segments[: len(segments)]
        del self._base_offsets[: len(segments)]

    def begin_anew(self, offset: Offset, forget: Callable[[], None]) -> None:
        """Drop everything for one empty segment at ``offset``, durably; ``forget`` is called in between."""
        self._segments[:] = [begin_anew(self._files, self._path, self._config, self._segments, offset, forget)]
        self._base_offsets[:] = [offset]
        self._epochs = LeaderEpochCache()
        self.log_start_offset = offset

    def begin_at_end(self, offset: Offset, forget: Callable[[], None]) -> None:
        """Drop everything for one empty segment at ``offset``, where the log ends, durably.

        A crash on the way leaves a log that ends there. ``forget`` removes what else tells of the old log, and lets it
        begin at ``offset``, so that no older segment counts.
        """
        if self.last.base_offset != offset:
            self.roll(offset)
            self._files.fsync_directory(self._path)
        forget()
        for segment in self._segments[:-1]:
            segment.delete()
        self._files.fsync_directory(self._path)
        self._segments[:], self._base_offsets[:] = [self.last], [offset]
        self._epochs = LeaderEpochCache()
        self.log_start_offset = offset

    def read(self, start_offset: Offset, end_offset: Offset, max_bytes: int) -> list[RecordBatch]:
        """Whole batches as ``LogStore.read`` returns them, each verified."""
        found: list[RecordBatch] = []
        total = 0
        for batch in self.batches_from(start_offset, wanted_bytes=max_bytes):
            total += batch.size_bytes
            if batch.end_offset > end_offset or (found and total > max_bytes):
                break
            found.append(batch)
            if batch.end_offset == end_offset or total >= max_bytes:
                break
        return found

    def batches_from(self, start_offset: Offset, *, wanted_bytes: int = WINDOW_BYTES) -> Iterator[RecordBatch]:
        """Verified batches from the one that holds ``start_offset`` to the end of the log; StorageError at damage."""
        for segment in self._segments[bisect_right(self._base_offsets, start_offset) - 1 :]:
            with naming_damage(segment):
                for position, batch in segment.batches_from(start_offset, wanted_bytes=wanted_bytes):
                    self._check_epoch(position, batch)
                    yield batch

    def young_batches(self, timestamp_ms: int) -> Iterator[RecordBatch]:
        """Verified batches, in order, that by their headers hold a record at or after a time; StorageError at damage.

        Some may have it below the log start only, and such as were not checked when they came, not at all.
        """
        for segment in self._segments:
            if segment.max_timestamp_ms >= timestamp_ms:
                with naming_damage(segment):
                    for position, batch in segment.young_batches(timestamp_ms, self.log_start_offset):
                        self._check_epoch(position, batch)
                        yield batch

    def _check_epoch(self, position: int, batch: RecordBatch) -> None:
        """The epoch lies outside the CRC, but it is known from when the batch was appended or the log was opened.

        The log may begin inside a batch, and the epochs begin with the log: of what lies below they say nothing.
        """
        if batch.end_offset <= self.log_start_offset:
            return
        written = self._epochs.epoch_for_offset(max(batch.base_offset, self.log_start_offset))
        if batch.leader_epoch != written:
            reason = f"holds a batch of epoch {batch.leader_epoch} that was written in epoch {written}"
            raise DamagedBatchError(position, reason)


def begin_anew(
    files: Files,
    path: Path,
    config: LogConfig,
    segments: Sequence[Segment],
    offset: Offset,
    forget: Callable[[], None],
) -> Segment:
    """Delete the segments of a log and return its only one, empty, at ``offset``; all durable.

    A crash on the way leaves what begins as the old log does, or what begins anew: there is a first segment at every
    moment, and it is emptied before the new one appears. ``forget`` removes what else tells of the old log: not before
    that is empty, and durably before there is another one.
    """
    oldest, *others = segments
    for segment in reversed(others):
        segment.delete()
    oldest.truncate(Place(position=0, base_offset=oldest.base_offset))
    oldest.fsync()
    forget()
    if oldest.base_offset == offset:
        files.fsync_directory(path)
        return oldest
    newest = Segment.create(files, path, offset, config)
    files.fsync_directory(path)
    oldest.delete()
    files.fsync_directory(path)
    return newest


@contextmanager
def naming_damage(segment: Segment) -> Iterator[None]:
    """Turn damage that is met in ``segment``, or that it cannot be read, into a StorageError that says where."""
    try:
        yield
    except DamagedBatchError as error:
        where = f"{segment.path} at byte {error.position}"
        raise DamagedSegmentError(f"{where} {error.reason}", offset=error.offset) from error
    except UnreadableFileError as error:
        raise DamagedSegmentError(f"{segment.path} cannot be read: {error}") from error
