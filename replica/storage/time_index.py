"""The sparse time index of one segment: which of its intervals hold a record that is young enough.

An interval is what lies between two entries of the offset index, so that a search by time ends within one of them; the
last one is still open. Owns the largest timestamp of each, and the ``.timeindex`` file. It is derived data, with the
life of the offset index. But retention deletes by it, so a flipped bit must not make a segment old; nor may one in the
offset index make a sound log look damaged. So both are sealed together, and where they are not whole both are rebuilt.
The open interval is not in the file; whoever opens the segment reads that anyway. File, big-endian: version (i16),
CRC-32C of the offset index's file and of what follows (u32), then the timestamps (i64). No file without an entry.

Source: Kafka's ``TimeIndex``, which keeps running maxima. These say nothing of what comes behind a log start: behind a
record that was deleted and is the newest of its segment, Kafka reads on to the segment's end. Times need not rise
(KIP-32).
"""

from __future__ import annotations

import struct
import sys
from array import array
from pathlib import Path

from replica.records import EVER
from replica.records.checksum import checksum
from replica.storage.files import Files, atomic_write, read_file

_VERSION = 2
_HEADER = struct.Struct(">hI")
_I64 = "q"
_RUN = 1024
"""How many intervals are passed over at a time; ``max`` of so many costs some microseconds."""


class TimeIndex:
    """The largest timestamp of each interval, the open one included; EVER where there is no batch."""

    def __init__(self) -> None:
        self._closed = array(_I64)
        self.open_ms = EVER
        """The largest in the open interval."""
        self._is_stored = False
        self.max_timestamp_ms = EVER
        """The largest of all."""

    def __len__(self) -> int:
        return len(self._closed)

    def note(self, timestamp_ms: int) -> None:
        """Take a batch's largest timestamp into the open interval; nothing changes if it is noted again."""
        if timestamp_ms > self.open_ms:
            self.open_ms = timestamp_ms
            self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp_ms)

    def begin_interval(self) -> None:
        """Close the open interval and begin the next."""
        self._closed.append(self.open_ms)
        self.open_ms = EVER
        self._is_stored = False

    def extend(self, closed: bytes, open_ms: int) -> None:
        """Close the open interval and further ones with these timestamps; what is open then has ``open_ms``.

        ``closed`` is as an array of i64 has them in memory.
        """
        newest_ms = max(array(_I64, closed), default=EVER)
        self._closed.frombytes(closed)
        self.open_ms = open_ms
        self.max_timestamp_ms = max(self.max_timestamp_ms, open_ms, newest_ms)
        self._is_stored = False

    def first_from(self, interval: int, timestamp_ms: int) -> int | None:
        """The first interval from this one on, by number, that is not older than a time; absent if all are."""
        for begin in range(interval, len(self), _RUN):
            run = self._closed[begin : begin + _RUN]
            if max(run) >= timestamp_ms:
                return begin + next(at for at, found_ms in enumerate(run) if found_ms >= timestamp_ms)
        return len(self) if interval <= len(self) and self.open_ms >= timestamp_ms else None

    def truncate(self, count: int, open_ms: int) -> None:
        """Keep ``count`` closed intervals; ``open_ms`` is the largest timestamp that is left behind them."""
        if count < len(self):
            del self._closed[count:]
            self._is_stored = False
        self.open_ms = open_ms
        self.max_timestamp_ms = max(open_ms, max(self._closed, default=EVER))

    def store(self, files: Files, path: Path, offset_index: bytes) -> None:
        """Replace the file, durably, unless it holds just these entries already. May raise OSError."""
        if self._is_stored or not self._closed:
            return
        body = _big_endian(self._closed).tobytes()
        atomic_write(files, path, _HEADER.pack(_VERSION, checksum(offset_index + body)) + body)
        self._is_stored = True

    def load(self, files: Files, path: Path, *, count: int, offset_index: bytes) -> bool:
        """Take ``count`` closed intervals from the file; False and none taken if it is missing, or one is not whole.

        The open interval is to be noted by the caller.
        """
        if not count:
            return True
        if not files.exists(path):
            return False
        content = read_file(files, path)
        body = content[_HEADER.size :]
        if len(body) != count * self._closed.itemsize or content[: _HEADER.size] != _HEADER.pack(
            _VERSION, checksum(offset_index + body)
        ):
            return False
        self._closed = _big_endian(array(_I64, body))
        self.max_timestamp_ms = max(self._closed)
        self._is_stored = True
        return True


def _big_endian(values: array[int]) -> array[int]:
    """The values with their bytes turned around, there and back."""
    turned = values[:]
    if sys.byteorder == "little":
        turned.byteswap()
    return turned
