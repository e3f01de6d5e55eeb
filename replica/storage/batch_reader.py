"""Reads the batches of one segment file one after the other, verifying each.

Owns the walk from batch to batch over a file in windows of bounded size, for recovery, for readers and for the dump.
Knows nothing of what may be done about damage: it says where it is and what it looks like.
"""

from __future__ import annotations

from collections.abc import Iterator

from replica.ids import Epoch, Offset
from replica.records import (
    LENGTH_PREFIX_BYTES,
    CorruptRecordError,
    RecordBatch,
    batch_size_at,
    check_continues,
    parse_batches,
)
from replica.storage.errors import OutOfDescriptorsError
from replica.storage.files import Files, Handle, is_out_of_descriptors

WINDOW_BYTES = 256 * 1024
"""How much is read from the file at a time, unless one batch is longer."""


class DamagedBatchError(Exception):
    """No sound batch at ``position``; ``reason`` completes the sentence "the segment at this byte ..."."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position} {reason}")
        self.position = position
        self.reason = reason
        self.offset: Offset | None = None
        """Which record was to stand there; absent where nobody knows."""


class UnreadableFileError(OSError):
    """The disk refuses to say what stands in a segment: that is no torn write, and nothing may be cut for it."""


class FileWindow:
    """The bytes of one file, read in windows: reading on costs one system call per window, not per batch."""

    def __init__(self, files: Files, handle: Handle, end: int, window_bytes: int = WINDOW_BYTES) -> None:
        self._files = files
        self._handle = handle
        self._start = 0
        self._data = b""
        self._window_bytes = window_bytes
        self.end = end

    def read(self, position: int, size: int) -> bytes:
        """``size`` bytes from ``position``, fewer only at ``end`` or where the file turns out to be shorter."""
        stop = min(position + size, self.end)
        if not self._start <= position <= stop <= self._start + len(self._data):
            self._fill(position, min(max(size, self._window_bytes), self.end - position))
        return self._data[position - self._start : stop - self._start]

    def around(self, position: int) -> tuple[bytes, int]:
        """What is in memory, or else is read, of the bytes from ``position`` on, and where it begins in the file."""
        if not self._start <= position < self._start + len(self._data):
            self._fill(position, min(self._window_bytes, self.end - position))
        return self._data, self._start

    def _fill(self, position: int, size: int) -> None:
        data = self._pread(size, position)
        while len(data) < size and (part := self._pread(size - len(data), position + len(data))):
            data += part
        self._start, self._data = position, data

    def _pread(self, size: int, position: int) -> bytes:
        try:
            return self._files.pread(self._handle, size, position)
        except OSError as error:
            if is_out_of_descriptors(error):
                raise OutOfDescriptorsError(str(error)) from error
            raise UnreadableFileError(*error.args) from error


def believable_batch_bytes(window: FileWindow, position: int, batch_bytes_max: int) -> int:
    """The size of the batch at ``position`` according to its length field.

    DamagedBatchError if the field is cut, below the smallest batch, above ``batch_bytes_max`` or beyond the file.
    """
    prefix = window.read(position, LENGTH_PREFIX_BYTES)
    try:
        size = batch_size_at(prefix, 0)
    except CorruptRecordError as error:
        raise DamagedBatchError(position, f"holds no batch ({error.reason})") from error
    if size is None:
        raise DamagedBatchError(position, f"holds {len(prefix)} bytes, too few for a batch")
    if size > batch_bytes_max:
        raise DamagedBatchError(position, f"holds no batch (a length of {size} bytes is above {batch_bytes_max})")
    if position + size > window.end:
        raise DamagedBatchError(position, f"holds {window.end - position} bytes of a batch of {size}")
    return size


def read_batches(window: FileWindow, position: int, *, batch_bytes_max: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yield ``(position, batch)`` from ``position``, a batch boundary, to the window's end, each with a checked CRC.

    DamagedBatchError at the first batch that is not sound.
    """
    while position < window.end:
        size = believable_batch_bytes(window, position, batch_bytes_max)
        try:
            (batch,) = parse_batches(window.read(position, size))
        except CorruptRecordError as error:
            raise DamagedBatchError(position, f"holds a corrupt batch ({error.reason})") from error
        yield position, batch
        position += size


def check_next(position: int, batch: RecordBatch, *, expected_offset: Offset, last_epoch: Epoch | None) -> None:
    """DamagedBatchError unless the batch begins at ``expected_offset`` and its epoch is not below ``last_epoch``.

    Base offset and epoch lie outside the CRC: only their order can show that they were damaged.
    """
    try:
        check_continues(batch, log_end_offset=expected_offset, last_epoch=last_epoch)
    except CorruptRecordError as error:
        raise DamagedBatchError(position, f"holds a batch that does not belong there ({error.reason})") from error
