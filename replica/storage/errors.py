"""What can be wrong with a data directory, one class per kind, each message one sentence that says what to do.

Owns the exceptions of this package. A ``StorageError`` means that nothing on this disk is trusted any more: the replica
stops, and never tries the same call again. A ``DamagedLogError`` is about one partition's log: nothing of that is. A
``FailedDirectoryError`` is about one log directory.
"""

from __future__ import annotations

from pathlib import Path

from replica.ids import Offset, TopicPartition


class StorageError(Exception):
    """Reading, writing or flushing failed, or the disk does not hold what was written to it."""


class DamagedSegmentError(StorageError):
    """A segment cannot be read, or does not hold what was written: from record ``offset`` on, if that is known."""

    def __init__(self, reason: str, *, offset: Offset | None = None) -> None:
        super().__init__(reason)
        self.offset = offset


class DamagedLogError(StorageError):
    """The log of one partition cannot be read, or does not hold what was written. Other logs are as good as before."""

    def __init__(self, topic_partition: TopicPartition, reason: str, *, offset: Offset | None = None) -> None:
        super().__init__(reason)
        self.topic_partition = topic_partition
        self.offset = offset


class FailedDirectoryError(StorageError):
    """The disk of one log directory refuses. Nothing on it is trusted any more; other disks are as good as before."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(reason)
        self.directory = directory


class OutOfDescriptorsError(StorageError):
    """A segment cannot be read now for want of a file descriptor, which says nothing about the disk."""


class OffsetOutOfRangeError(StorageError):
    """A read or a truncation outside ``[log_start_offset, log_end_offset]``: the caller's mistake."""


class NotFormattedError(StorageError):
    """The data directory does not exist or was never formatted. A replica never formats one by itself."""


class AlreadyFormattedError(StorageError):
    """The directory to format holds something already."""


class ForeignDirectoryError(StorageError):
    """The data directory belongs to another cluster or to another replica."""


class DirectoryLockedError(StorageError):
    """Another process uses the data directory."""


class CorruptCheckpointError(StorageError):
    """A small state file (checkpoint, quorum-state, meta.properties) is missing or malformed; ``line`` is 1-based."""

    def __init__(self, path: Path, reason: str, *, line: int | None = None) -> None:
        where = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(
            f"{where}: {reason}; restore the file, or format an empty directory and rejoin as a new replica"
        )
        self.path = path
        self.line = line


class CorruptLogError(StorageError):
    """Flushed data is damaged or missing: at byte ``position`` of ``path``, from record ``offset`` on."""

    def __init__(self, path: Path, *, position: int, offset: Offset, recovery_point: Offset, reason: str) -> None:
        super().__init__(
            f"{path} at byte {position} (offset {offset}) {reason}, but everything below offset {recovery_point} was "
            "flushed and may not be cut; nothing was changed, and this replica can rejoin only as a wiped one "
            "(format an empty data directory)"
        )
        self.path = path
        self.position = position
        self.offset = offset
