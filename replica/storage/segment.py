"""One segment of a log: a ``.log`` file of batches, back to back, and its indexes by offset and by time.

Owns the three files and the handle of the first. Knows nothing of other segments, of threads or of what is flushed.
Source: Kafka's ``LogSegment``, ``LogFileUtils``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from replica.ids import Offset
from replica.records import EVER, RecordBatch
from replica.records.runs import Expected, LastMark, Run, Runs
from replica.storage.batch_reader import WINDOW_BYTES, DamagedBatchError, FileWindow, check_next, read_batches
from replica.storage.config import LogConfig
from replica.storage.files import Files, Handle, OpenMode, write_fully
from replica.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from replica.storage.time_index import TimeIndex
from replica.storage.trash import Trash

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"


def log_file_name(base_offset: Offset) -> str:
    """The name of the segment that begins at ``base_offset``: 20 digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{LOG_SUFFIX}"


def base_offset_of(name: str, suffix: str) -> Offset | None:
    """The base offset in a file name; None if it is not such a name."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != 20 or not stem.isascii() or not stem.isdigit():
        return None
    return Offset(int(stem))


class Place(Struct, frozen=True, kw_only=True):
    """Where in a segment a batch begins, and how new the records before it are, from the last index entry on."""

    position: int
    base_offset: Offset
    newest_before_ms: int = EVER


class Segment:
    """An open segment. ``size`` is the position behind its last batch; a torn tail in the file is not counted."""

    def __init__(self, files: Files, path: Path, base_offset: Offset, handle: Handle, config: LogConfig) -> None:
        self._files = files
        self._handle = handle
        self._config = config
        self.path = path
        self.base_offset = base_offset
        self.size = files.size(handle)
        self.index = OffsetIndex(base_offset, config.index_interval_bytes)
        self.time_index = TimeIndex()

    @classmethod
    def create(cls, files: Files, directory: Path, base_offset: Offset, config: LogConfig) -> Segment:
        """Make a new, empty segment; its name is durable after a sync of the directory."""
        path = directory / log_file_name(base_offset)
        return cls(files, path, base_offset, files.open(path, OpenMode.CREATE), config)

    @classmethod
    def open(cls, files: Files, directory: Path, base_offset: Offset, config: LogConfig) -> Segment:
        """Open an existing segment, its index empty."""
        path = directory / log_file_name(base_offset)
        return cls(files, path, base_offset, files.open(path, OpenMode.READ_WRITE), config)

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)

    @property
    def time_index_path(self) -> Path:
        return self.path.with_suffix(TIME_INDEX_SUFFIX)

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of its records, NO_TIMESTAMP where that is what they bear. Nothing is read for it."""
        return self.time_index.max_timestamp_ms

    def has_room(self, batch: RecordBatch, pending_bytes: int) -> bool:
        """Tell whether ``batch`` still fits behind ``pending_bytes`` that are about to be written.

        An empty segment takes any batch; a relative offset must fit into the index.
        """
        if self.size + pending_bytes == 0:
            return True
        fits = self.size + pending_bytes + batch.size_bytes <= self._config.segment_bytes
        return fits and batch.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Write behind the last batch, into the page cache. May raise OSError; the file is then to be abandoned."""
        write_fully(self._files, self._handle, b"".join(batch.data for batch in batches), self.size)
        for batch in batches:
            self.note(self.size, batch)
            self.size += batch.size_bytes

    def note(self, position: int, batch: RecordBatch) -> None:
        """Let the indexes know of the batch at ``position``, in order; it does no harm to note the last ones again."""
        if self.index.maybe_add(batch.base_offset, position):
            self.time_index.begin_interval()
        self.time_index.note(batch.max_timestamp_ms)

    def note_run(self, window: FileWindow, position: int, runs: Runs, expected: Expected) -> Run:
        """Read and note batches from ``position`` on that are what is expected; none, or not all, may be."""
        data, start = window.around(position)
        last_mark = LastMark(
            base_offset=self.base_offset, position=self.index.last_position, newest_ms=self.time_index.open_ms
        )
        run = runs.first(data, position - start, file_position=start, expected=expected, last_mark=last_mark)
        self.index.extend(run.mark_offsets, run.mark_positions)
        self.time_index.extend(run.newest_ms, run.open_ms)
        return run

    def batches_from(self, offset: Offset, *, wanted_bytes: int = WINDOW_BYTES) -> Iterator[tuple[int, RecordBatch]]:
        """Yield ``(position, batch)`` verified, from the batch that holds ``offset``; DamagedBatchError at damage.

        ``wanted_bytes`` is how much the caller will use: a short read should not fetch a whole window.
        """
        expected, start = self.index.last_before(offset)
        window = self.window(min(WINDOW_BYTES, wanted_bytes + 2 * self._config.index_interval_bytes))
        try:
            for position, batch in read_batches(window, start, batch_bytes_max=self._config.batch_bytes_max):
                check_next(position, batch, expected_offset=expected, last_epoch=None)
                expected = batch.end_offset
                if batch.end_offset > offset:
                    yield position, batch
        except DamagedBatchError as error:
            error.offset = expected
            raise

    def young_batches(self, timestamp_ms: int, offset: Offset) -> Iterator[tuple[int, RecordBatch]]:
        """Yield ``(position, batch)`` verified, from ``offset`` on, that by their headers hold a record not older.

        Only intervals are read in which there is one. DamagedBatchError at damage.
        """
        interval = self.time_index.first_from(self.index.interval_of(offset), timestamp_ms)
        while interval is not None:
            is_last = interval == len(self.index)
            end_offset = None if is_last else self.index.start_of(interval + 1)
            first_offset = Offset(max(offset, self.index.start_of(interval)))
            for position, batch in self.batches_from(first_offset, wanted_bytes=1):
                if batch.max_timestamp_ms >= timestamp_ms:
                    yield position, batch
                if batch.end_offset == end_offset:
                    break
            interval = self.time_index.first_from(interval + 1, timestamp_ms)

    def place_of(self, offset: Offset) -> Place:
        """Where the batch begins that has, or holds, ``offset``, or the segment ends. DamagedBatchError at damage."""
        before = self.index.last_before(Offset(offset - 1))
        newest_ms = EVER
        for position, batch in self.batches_from(before[0]):
            if batch.end_offset > offset:
                return Place(position=position, base_offset=batch.base_offset, newest_before_ms=newest_ms)
            newest_ms = max(newest_ms, batch.max_timestamp_ms)
        return Place(position=self.size, base_offset=offset, newest_before_ms=newest_ms)

    def window(self, window_bytes: int = WINDOW_BYTES) -> FileWindow:
        """A fresh view of the file up to ``size``."""
        return FileWindow(self._files, self._handle, self.size, window_bytes)

    def truncate(self, place: Place) -> None:
        """Drop the batches from this place on; durable after ``fsync``."""
        self.cut_tail(place.position)
        self.index.truncate(self.size)
        self.time_index.truncate(len(self.index), place.newest_before_ms)

    def cut_tail(self, size: int) -> None:
        """Cut to ``size`` bytes what stands behind the last batch that was noted; durable after ``fsync``."""
        self._files.ftruncate(self._handle, size)
        self.size = size

    def fsync(self) -> None:
        """Bring the batches to stable storage (not the file's name)."""
        self._files.fsync(self._handle)

    def reset_indexes(self) -> None:
        """Forget all entries, to note the batches again while they are read."""
        self.index = OffsetIndex(self.base_offset, self._config.index_interval_bytes)
        self.time_index = TimeIndex()

    def load_indexes(self) -> bool:
        """Take both from their files; False if one is of no use. The batches behind the last entry are to be noted."""
        has_index = self.index.load(self._files, self.index_path, segment_bytes=self.size)
        path, count = self.time_index_path, len(self.index)
        return has_index and self.time_index.load(self._files, path, count=count, offset_index=self.index.encoded())

    def store_indexes(self) -> None:
        """Write both to their files, durably."""
        self.index.store(self._files, self.index_path)
        self.time_index.store(self._files, self.time_index_path, self.index.encoded())

    def close(self) -> None:
        """Give the handle back."""
        self._files.close(self._handle)

    def delete(self) -> None:
        """Close, and remove the files' names; durable after a sync of the directory."""
        self.close()
        for path in self._present():
            self._files.unlink(path)

    def throw_away(self, trash: Trash) -> None:
        """Close, and mark the files for a later removal; durable after a sync of the directory."""
        self.close()
        for path in self._present():
            trash.put_file(path)

    def _present(self) -> list[Path]:
        return [self.path, *filter(self._files.exists, (self.index_path, self.time_index_path))]
