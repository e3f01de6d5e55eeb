"""Producer snapshots: what a partition's log knew of its idempotent producers, at offsets from which it can be read on.

Owns the files ``<offset>.snapshot`` beside the segments, one for each segment and one for where the log was closed:
each holds what all batches below its offset have left behind, also those that were deleted since. So a batch that is
sent again is recognised after a restart although its records are gone, and a start need not read the whole log.

A snapshot counts only from the first segment on and up to the log's end: below, the batches that come after it are
gone; above, it tells of batches that were cut. Those above are gone for good before anything is appended, so that one
that is found within the log tells of this log. One whose checksum is wrong is worth nothing: the one before it and the
batches from there on say the same.
File, big-endian: version (i16), CRC-32C of what follows (u32); then for each producer, the one that has been idle
longest first, its id (i64), epoch (i16) and number of batches (i16), and for each batch base and last sequence (i32),
base and end offset (i64), largest timestamp (i64).
Source: Kafka's ``ProducerStateManager``, whose file keeps of each producer's five batches the last one only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from replica.core.log.recovered import ProducerBatch, ProducerEntry
from replica.core.partition.producer_state import ProducerScan
from replica.ids import Offset
from replica.records import RecordBatch
from replica.records.checksum import checksum
from replica.storage.errors import StorageError
from replica.storage.files import OS_FILES, Files, atomic_write, read_file
from replica.storage.segment import base_offset_of
from replica.storage.trash import Trash

SNAPSHOT_SUFFIX = ".snapshot"

_VERSION = 1
_HEADER = struct.Struct(">hI")
_PRODUCER = struct.Struct(">qhh")
_BATCH = struct.Struct(">iiqqq")


class ProducerSnapshots:
    """The snapshots in the directory of one log. Every method may raise OSError."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        found = (base_offset_of(name, SNAPSHOT_SUFFIX) for name in files.names(path))
        self._offsets = sorted(offset for offset in found if offset is not None)
        self._damaged: set[Offset] = set()

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """Where there are snapshots that count, in order."""
        return tuple(offset for offset in self._offsets if offset not in self._damaged)

    def store(self, offset: Offset, entries: Sequence[ProducerEntry]) -> None:
        """Keep what all batches below ``offset`` have left, durable on return."""
        atomic_write(self._files, self._file(offset), encode_snapshot(entries))
        self._offsets = sorted({*self._offsets, offset})
        self._damaged.discard(offset)

    def store_missing(self, offset: Offset, entries: Callable[[], Sequence[ProducerEntry]]) -> None:
        """Keep what all batches below ``offset`` have left, unless there is a sound snapshot that says so."""
        if self.newest(offset, offset) is None:
            self.store(offset, entries())

    def newest(self, first: Offset, last: Offset) -> tuple[Offset, tuple[ProducerEntry, ...]] | None:
        """The last sound snapshot from ``first`` to ``last``, both included; damaged ones after it count no more."""
        for offset in [found for found in reversed(self.offsets) if first <= found <= last]:
            entries = decode_snapshot(read_file(self._files, self._file(offset)))
            if entries is not None:
                return offset, entries
            self._damaged.add(offset)
        return None

    def remove_above(self, offset: Offset) -> None:
        """Remove those above ``offset``; sync the directory before anything is appended."""
        while self._offsets and self._offsets[-1] > offset:
            self._files.unlink(self._file(self._offsets.pop()))

    def remove_all(self) -> None:
        """Remove every one, durably."""
        self.remove_above(Offset(-1))
        self._files.fsync_directory(self._path)

    def throw_away_below(self, offset: Offset, trash: Trash) -> None:
        """Mark those below ``offset`` for removal, as the segments that they go with."""
        while self._offsets and self._offsets[0] < offset:
            trash.put_file(self._file(self._offsets.pop(0)))

    def keep_needed(self, base_offsets: Collection[Offset], end_offset: Offset) -> None:
        """Count only those within the log, and of these the ones where a segment begins, and the newest.

        The files of the others are leftovers: those above ``end_offset`` must be gone before anything is appended.
        """
        within = [offset for offset in self.offsets if min(base_offsets) <= offset <= end_offset]
        self._offsets = [offset for offset in within if offset in base_offsets or offset == within[-1]]

    def _file(self, offset: Offset) -> Path:
        return self._path / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def read_on(
    snapshots: ProducerSnapshots,
    batches_from: Callable[[Offset], Iterable[RecordBatch]],
    *,
    first_offset: Offset,
    end_offset: Offset,
) -> ProducerScan:
    """What the batches below ``end_offset`` have left, in a log whose first segment begins at ``first_offset``."""
    offset, producers = begin_scan(snapshots, first_offset, end_offset)
    if offset < end_offset:
        for batch in takewhile(lambda batch: batch.end_offset <= end_offset, batches_from(offset)):
            producers.note(batch)
    return producers


def begin_scan(snapshots: ProducerSnapshots, first_offset: Offset, end_offset: Offset) -> tuple[Offset, ProducerScan]:
    """What the newest snapshot up to ``end_offset`` says, and from where the batches are to be read behind it."""
    offset, entries = snapshots.newest(first_offset, end_offset) or (first_offset, ())
    return offset, ProducerScan(entries)


def encode_snapshot(entries: Sequence[ProducerEntry]) -> bytes:
    """The content of a snapshot's file."""
    body = b"".join(_encoded(entries))
    return _HEADER.pack(_VERSION, checksum(body)) + body


def _encoded(entries: Sequence[ProducerEntry]) -> Iterator[bytes]:
    for entry in entries:
        yield _PRODUCER.pack(entry.producer_id, entry.producer_epoch, len(entry.batches))
        for batch in entry.batches:
            yield _BATCH.pack(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.end_offset, batch.max_timestamp_ms
            )


def read_snapshot(path: Path, files: Files = OS_FILES) -> tuple[ProducerEntry, ...]:
    """The producers in a snapshot's file. StorageError if it cannot be read or is damaged."""
    try:
        entries = decode_snapshot(read_file(files, path))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    if entries is None:
        raise StorageError(f"{path} is no whole producer snapshot: its checksum or its version is wrong")
    return entries


def decode_snapshot(content: bytes) -> tuple[ProducerEntry, ...] | None:
    """The producers in a snapshot's file; absent if it is not whole, or of another version.

    A checksum that fits says that the bytes are those that were sealed, not that a snapshot was.
    """
    if len(content) < _HEADER.size:
        return None
    version, crc = _HEADER.unpack_from(content)
    body = memoryview(content)[_HEADER.size :]
    if version != _VERSION or crc != checksum(body):
        return None
    try:
        return tuple(_decoded(body))
    except struct.error:
        return None


def _decoded(body: memoryview) -> Iterator[ProducerEntry]:
    """Raises struct.error where the bytes end early, or a count is below 0, with which it would go back."""
    position = 0
    while position < len(body):
        producer_id, producer_epoch, count = _PRODUCER.unpack_from(body, position)
        position += _PRODUCER.size
        if count < 0:
            raise struct.error(f"{count} batches")
        batches = tuple(_batch_at(body, position + at * _BATCH.size) for at in range(count))
        position += count * _BATCH.size
        yield ProducerEntry(producer_id=producer_id, producer_epoch=producer_epoch, batches=batches)


def _batch_at(body: memoryview, position: int) -> ProducerBatch:
    base_sequence, last_sequence, base_offset, end_offset, max_timestamp_ms = _BATCH.unpack_from(body, position)
    return ProducerBatch(
        base_sequence=base_sequence,
        last_sequence=last_sequence,
        base_offset=Offset(base_offset),
        end_offset=Offset(end_offset),
        max_timestamp_ms=max_timestamp_ms,
    )
