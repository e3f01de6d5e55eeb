"""The account of a disk: what was done to it, call by call, in a file that survives the process.

Owns the form of the file and of its records. A record is written before its call is performed; one that was cut short
by a kill stands for a call that was not performed, and is dropped. What was handed to the kernel survives SIGKILL, and
that is all that is asked of it: nothing here is flushed.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

_LENGTHS = struct.Struct(">II")


class Call(StrEnum):
    """What an account tells of: the calls that change something, and how some of them ended."""

    BEGIN = "begin"
    """A process begins: whatever was open before is closed."""
    OPEN = "open"
    CLOSE = "close"
    PWRITE = "pwrite"
    FTRUNCATE = "ftruncate"
    MKDIR = "mkdir"
    RENAME = "rename"
    UNLINK = "unlink"
    FSYNC = "fsync"
    FSYNC_DIRECTORY = "fsync_directory"
    FLUSHED = "flushed"
    """The flush of this number is over: what was pending when it began is durable."""
    FAILED = "failed"
    """The call in the record before this one was refused, and changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One call. ``path`` and ``target`` are relative to the data directory; ``number`` is that of an opening, by which
    later calls mean the open file; of a flush it is its own."""

    call: Call
    path: str = ""
    target: str = ""
    mode: str = ""
    number: int = 0
    flush: int = 0
    position: int = 0
    data: bytes = b""


class AccountWriter:
    """Appends to an account. What a kill has cut short at its end is cut off."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, _whole_bytes(path))
        os.lseek(self._file, 0, os.SEEK_END)

    def add(self, record: Record) -> None:
        """Write one record; OSError if it cannot be written whole."""
        fields = asdict(record)
        del fields["data"]
        header = json.dumps({name: value for name, value in fields.items() if value}).encode()
        whole = _LENGTHS.pack(len(header), len(record.data)) + header + record.data
        if os.write(self._file, whole) != len(whole):
            raise OSError("the account of the disk cannot be written")

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)


def read_account(path: Path) -> Iterator[Record]:
    """All whole records, in order."""
    with path.open("rb") as file:
        while len(lengths := file.read(_LENGTHS.size)) == _LENGTHS.size:
            header_bytes, data_bytes = _LENGTHS.unpack(lengths)
            header, data = file.read(header_bytes), file.read(data_bytes)
            if len(header) < header_bytes or len(data) < data_bytes:
                return
            fields = json.loads(header)
            yield Record(**{**fields, "call": Call(fields["call"]), "data": data})


def _whole_bytes(path: Path) -> int:
    """How long the file is up to the end of its last whole record."""
    size, position = path.stat().st_size, 0
    with path.open("rb") as file:
        while len(lengths := file.read(_LENGTHS.size)) == _LENGTHS.size:
            end = position + _LENGTHS.size + sum(_LENGTHS.unpack(lengths))
            if end > size:
                break
            position = end
            file.seek(position)
    return position
