"""One segment of a log: a ``.log`` file of batches, back to back, and its offset index.

Owns the two files and the handle of the first. Knows nothing of other segments, of threads or of what is flushed.
Source: Kafka's ``LogSegment``, ``LogFileUtils``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from replica.ids import Offset
from replica.records import NO_TIMESTAMP, RecordBatch
from replica.storage.batch_reader import WINDOW_BYTES, DamagedBatchError, FileWindow, check_next, read_batches
from replica.storage.config import LogConfig
from replica.storage.files import Files, Handle, OpenMode, write_fully
from replica.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from replica.storage.trash import Trash

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"


def log_file_name(base_offset: Offset) -> str:
    """The name of the segment that begins at ``base_offset``: 20 digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{LOG_SUFFIX}"


def base_offset_of(name: str, suffix: str) -> Offset | None:
    """The base offset in a file name; None if it is not such a name."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != 20 or not stem.isascii() or not stem.isdigit():
        return None
    return Offset(int(stem))


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
        self._max_timestamp_ms: int | None = None
        """Absent until somebody asks for it, and after a truncation."""

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
            self.index.maybe_add(batch.base_offset, self.size)
            self.size += batch.size_bytes
            if self._max_timestamp_ms is not None:
                self._max_timestamp_ms = max(self._max_timestamp_ms, batch.max_timestamp_ms)

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

    def max_timestamp_ms(self) -> int:
        """The largest timestamp of its records, -1 if none has one. The first time, all batches are read for it.

        DamagedBatchError at damage.
        """
        if self._max_timestamp_ms is None:
            batches = (batch for _, batch in self.batches_from(self.base_offset))
            self._max_timestamp_ms = max((batch.max_timestamp_ms for batch in batches), default=NO_TIMESTAMP)
        return self._max_timestamp_ms

    def window(self, window_bytes: int = WINDOW_BYTES) -> FileWindow:
        """A fresh view of the file up to ``size``."""
        return FileWindow(self._files, self._handle, self.size, window_bytes)

    def truncate(self, size: int) -> None:
        """Cut to ``size`` bytes, a batch boundary; durable after ``fsync``."""
        self._files.ftruncate(self._handle, size)
        self.size = size
        self.index.truncate(size)
        self._max_timestamp_ms = None

    def fsync(self) -> None:
        """Bring the batches to stable storage (not the file's name)."""
        self._files.fsync(self._handle)

    def reset_index(self) -> None:
        """Forget all entries, to note the batches again while they are read."""
        self.index = OffsetIndex(self.base_offset, self._config.index_interval_bytes)

    def load_index(self) -> bool:
        """Take the index from its file; False if the file is of no use."""
        return self.index.load(self._files, self.index_path, segment_bytes=self.size)

    def store_index(self) -> None:
        """Write the index to its file, durably."""
        self.index.store(self._files, self.index_path)

    def close(self) -> None:
        """Give the handle back."""
        self._files.close(self._handle)

    def delete(self) -> None:
        """Close, and remove both files' names; durable after a sync of the directory."""
        self.close()
        for path in self._present():
            self._files.unlink(path)

    def throw_away(self, trash: Trash) -> None:
        """Close, and mark both files for a later removal; durable after a sync of the directory."""
        self.close()
        for path in self._present():
            trash.put_file(path)

    def _present(self) -> list[Path]:
        return [self.path, *([self.index_path] if self._files.exists(self.index_path) else [])]
