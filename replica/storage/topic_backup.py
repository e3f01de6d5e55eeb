"""The back-up of a topic: a folder with the batches of each partition in segment files, and a manifest of all of them.

Owns the folder. Segments are as in a log, ``<topic>-<partition>/<first offset>.log``, each as long as one back-up has
made it; they are written first, the manifest last, and what it does not name is not part of the back-up: one that was
interrupted leaves the folder as it was before. Knows nothing of brokers.

    manifest.json: {"checksum": CRC-32C of the manifest as it stands there, "manifest": {...}}

Source: Kafka's ``LogSegment``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from replica.ids import OFFSET_MAX, Epoch, Offset, TopicPartition
from replica.records import RecordBatch
from replica.records.checksum import checksum
from replica.storage.batch_reader import DamagedBatchError, FileWindow, check_next, read_batches
from replica.storage.config import LogConfig
from replica.storage.errors import StorageError
from replica.storage.files import (
    OS_FILES,
    TEMPORARY_SUFFIX,
    Files,
    OpenMode,
    atomic_write,
    make_directory,
    read_file,
    write_fully,
)
from replica.storage.log_directories import is_topic
from replica.storage.segment import LOG_SUFFIX

MANIFEST = "manifest.json"
VERSION = 0

_Number = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


class CorruptTopicBackupError(StorageError):
    """The folder holds no back-up of a topic, or not the whole of one, or not as it was written."""


class SegmentFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a partition: the batches from ``base_offset`` to ``end_offset`` (exclusive)."""

    base_offset: _Number
    end_offset: _Number
    last_epoch: _Number
    size_bytes: _Number
    checksum: _Number


class PartitionBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One partition: its records from ``start_offset`` on, in segments that follow each other without a gap.

    The first segment may begin below: with a batch of which the first records were deleted.
    """

    partition: _Number
    start_offset: _Number
    segments: tuple[SegmentFile, ...] = ()

    @property
    def base_offset(self) -> Offset:
        """Where the first batch begins."""
        return Offset(self.segments[0].base_offset if self.segments else self.start_offset)

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""
        return Offset(self.segments[-1].end_offset if self.segments else self.start_offset)

    @property
    def last_epoch(self) -> Epoch | None:
        """The leader epoch of the last record, if there is one."""
        return Epoch(self.segments[-1].last_epoch) if self.segments else None


class TopicBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest: what the topic is called and told, and all its partitions in the order of their numbers."""

    version: int = VERSION
    topic: str
    topic_id: _Number
    cluster_id: str
    release: str
    taken_ms: _Number
    configs: dict[str, str]
    partitions: tuple[PartitionBackup, ...]

    def name_of(self, partition: PartitionBackup) -> TopicPartition:
        """The partition as it was called."""
        return TopicPartition(self.topic, partition.partition)


class _Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    checksum: _Number
    manifest: msgspec.Raw


def encode_manifest(backup: TopicBackup) -> bytes:
    """Encode a manifest."""
    written = msgspec.json.format(msgspec.json.encode(backup), indent=1)
    document = _Document(checksum=checksum(written), manifest=msgspec.Raw(written))
    return msgspec.json.encode(document)


def decode_manifest(data: bytes) -> TopicBackup:
    """Decode a manifest, and see that it is as it was written. Raises CorruptTopicBackupError."""
    try:
        document = msgspec.json.decode(data, type=_Document)
        written = bytes(document.manifest)
        if checksum(written) != document.checksum:
            raise CorruptTopicBackupError(f"{MANIFEST} does not have its checksum")
        backup = msgspec.json.decode(written, type=TopicBackup)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptTopicBackupError(f"{MANIFEST} is malformed: {error}") from error
    if backup.version != VERSION:
        raise CorruptTopicBackupError(f"{MANIFEST} has version {backup.version}; only {VERSION} is known")
    if not is_topic(backup.topic) or [one.partition for one in backup.partitions] != [*range(len(backup.partitions))]:
        raise CorruptTopicBackupError(f"{MANIFEST} names partitions that no topic has")
    for partition in backup.partitions:
        _check_follow(partition)
    return backup


def _check_follow(partition: PartitionBackup) -> None:
    gaps = [after for before, after in pairwise(partition.segments) if after.base_offset != before.end_offset]
    empty = [one for one in partition.segments if one.base_offset >= one.end_offset]
    first = partition.segments[:1]
    if gaps or empty or any(not one.base_offset <= partition.start_offset < one.end_offset for one in first):
        raise CorruptTopicBackupError(f"{MANIFEST} has segments of partition {partition.partition} with a gap")


# --- the folder -----------------------------------------------------------------------------------------------------


def segment_path(folder: Path, name: TopicPartition, base_offset: int) -> Path:
    """The file of the segment that begins there."""
    return folder / str(name) / f"{base_offset:020d}{LOG_SUFFIX}"


def read_manifest(folder: Path, files: Files = OS_FILES) -> TopicBackup | None:
    """Read the manifest; absent where there is none, as after a first back-up that was interrupted.

    Raises CorruptTopicBackupError, StorageError.
    """
    try:
        return decode_manifest(read_file(files, folder / MANIFEST))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except CorruptTopicBackupError as error:
        raise CorruptTopicBackupError(f"{folder} cannot be used: {error}") from error
    except OSError as error:
        raise StorageError(f"cannot read {folder / MANIFEST}: {error}") from error


def write_manifest(folder: Path, backup: TopicBackup, files: Files = OS_FILES) -> None:
    """Make what was written part of the back-up, durably. Raises StorageError."""
    try:
        atomic_write(files, folder / MANIFEST, encode_manifest(backup))
    except OSError as error:
        raise StorageError(f"cannot write {folder / MANIFEST}: {error}") from error


class SegmentWriter:
    """Writes one segment of a partition, batch after batch. Every method may raise StorageError."""

    def __init__(self, folder: Path, name: TopicPartition, files: Files = OS_FILES) -> None:
        self._files = files
        self._folder = folder
        self._name = name
        self._size_bytes = self._checksum = 0
        self._first: RecordBatch | None = None
        self._last: RecordBatch | None = None
        try:
            make_directory(files, folder / str(name))
            self._temporary = folder / str(name) / f"segment{TEMPORARY_SUFFIX}"
            self._handle = files.open(self._temporary, OpenMode.CREATE)
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error}") from error

    def append(self, batch: RecordBatch) -> None:
        """Write the next batch."""
        try:
            write_fully(self._files, self._handle, batch.data, self._size_bytes)
        except OSError as error:
            raise StorageError(f"cannot write {self._temporary}: {error}") from error
        self._size_bytes += batch.size_bytes
        self._checksum = checksum(batch.data, self._checksum)
        self._first = self._first or batch
        self._last = batch

    def finish(self) -> SegmentFile | None:
        """Make the segment durable under its name; absent, and no file, where nothing was written."""
        try:
            self._files.fsync(self._handle)
            self._files.close(self._handle)
            if self._first is None or self._last is None:
                self._files.unlink(self._temporary)
                return None
            path = segment_path(self._folder, self._name, self._first.base_offset)
            self._files.rename(self._temporary, path)
            self._files.fsync_directory(path.parent)
        except OSError as error:
            raise StorageError(f"cannot write {self._temporary}: {error}") from error
        return SegmentFile(
            base_offset=self._first.base_offset,
            end_offset=self._last.end_offset,
            last_epoch=self._last.leader_epoch,
            size_bytes=self._size_bytes,
            checksum=self._checksum,
        )


def read_partition(
    folder: Path, backup: TopicBackup, partition: PartitionBackup, files: Files = OS_FILES
) -> Iterator[RecordBatch]:
    """Yield all batches of a partition in order, each checked; the file as a whole when its last one was yielded.

    Raises CorruptTopicBackupError, StorageError.
    """
    last_epoch: Epoch | None = None
    for segment in partition.segments:
        path = segment_path(folder, backup.name_of(partition), segment.base_offset)
        try:
            for batch in _read_segment(files, path, segment, last_epoch):
                last_epoch = batch.leader_epoch
                yield batch
        except FileNotFoundError as error:
            raise CorruptTopicBackupError(f"{path} is missing") from error
        except DamagedBatchError as error:
            raise CorruptTopicBackupError(f"{path} is damaged: {error}") from error
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error}") from error


def _read_segment(files: Files, path: Path, segment: SegmentFile, last_epoch: Epoch | None) -> Iterator[RecordBatch]:
    handle = files.open(path, OpenMode.READ)
    try:
        size_bytes, found, offset = files.size(handle), 0, Offset(segment.base_offset)
        if size_bytes != segment.size_bytes:
            raise DamagedBatchError(size_bytes, f"ends, and should at {segment.size_bytes}")
        window = FileWindow(files, handle, size_bytes)
        for position, batch in read_batches(window, 0, batch_bytes_max=LogConfig().batch_bytes_max):
            check_next(position, batch, expected_offset=offset, last_epoch=last_epoch)
            found, offset, last_epoch = checksum(batch.data, found), batch.end_offset, batch.leader_epoch
            yield batch
        if (found, offset) != (segment.checksum, segment.end_offset):
            raise DamagedBatchError(size_bytes, f"ends at offset {offset} without the checksum of the manifest")
    finally:
        files.close(handle)


def check_whole(folder: Path, backup: TopicBackup, files: Files = OS_FILES) -> int:
    """Read all of it once; returns how many records there are. Raises CorruptTopicBackupError, StorageError."""
    partitions = (read_partition(folder, backup, partition, files) for partition in backup.partitions)
    return sum(batch.record_count for batches in partitions for batch in batches)
