"""Looks into one segment file, sound or damaged, batch by batch, for people and tools.

Owns the walk that goes on past damage for as long as the lengths can be believed. Changes nothing, needs no lock, and
knows nothing of the log around the file. Source: Kafka's ``DumpLogSegments``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from replica.ids import Epoch, Offset
from replica.records import CorruptRecordError, RecordBatch, check_continues, check_crc, scan_batches
from replica.storage.batch_reader import DamagedBatchError, FileWindow, believable_batch_bytes
from replica.storage.config import LogConfig
from replica.storage.errors import StorageError
from replica.storage.files import OS_FILES, Files, OpenMode


class DumpedBatch(Struct, frozen=True, kw_only=True):
    """What stands at ``position``. ``error`` says what is wrong, absent if nothing is.

    The header's fields are absent where the bytes are no header; ``size`` is 0 where not even a length can be
    believed, and then this is the last row. ``batch`` is the whole batch, for who wants to look inside.
    """

    position: int
    size: int
    base_offset: Offset | None = None
    last_offset: Offset | None = None
    leader_epoch: Epoch | None = None
    record_count: int | None = None
    is_control: bool = False
    crc_ok: bool = False
    error: str | None = None
    batch: RecordBatch | None = None


def dump_segment(
    path: Path, *, files: Files = OS_FILES, batch_bytes_max: int = LogConfig().batch_bytes_max
) -> Iterator[DumpedBatch]:
    """Yield one row per batch of a ``.log`` file. StorageError if the file cannot be read at all."""
    try:
        handle = files.open(path, OpenMode.READ)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    try:
        yield from _dump(FileWindow(files, handle, files.size(handle)), batch_bytes_max)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    finally:
        files.close(handle)


def _dump(window: FileWindow, batch_bytes_max: int) -> Iterator[DumpedBatch]:
    position = 0
    previous: RecordBatch | None = None
    while position < window.end:
        try:
            size = believable_batch_bytes(window, position, batch_bytes_max)
        except DamagedBatchError as error:
            yield DumpedBatch(position=position, size=0, error=error.reason)
            return
        try:
            (batch,) = scan_batches(window.read(position, size), verify=False)
        except CorruptRecordError as error:
            yield DumpedBatch(position=position, size=size, error=error.reason)
        else:
            yield _row(position, batch, previous)
            previous = batch
        position += size


def _row(position: int, batch: RecordBatch, previous: RecordBatch | None) -> DumpedBatch:
    crc_error = _reason_of_crc(batch)
    return DumpedBatch(
        position=position,
        size=batch.size_bytes,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        record_count=batch.record_count,
        is_control=batch.is_control,
        crc_ok=crc_error is None,
        error=crc_error or _reason_of_order(batch, previous),
        batch=batch,
    )


def _reason_of_crc(batch: RecordBatch) -> str | None:
    try:
        check_crc(batch)
    except CorruptRecordError as error:
        return error.reason
    return None


def _reason_of_order(batch: RecordBatch, previous: RecordBatch | None) -> str | None:
    if previous is None:
        return None
    try:
        check_continues(batch, log_end_offset=previous.end_offset, last_epoch=previous.leader_epoch)
    except CorruptRecordError as error:
        return error.reason
    return None
