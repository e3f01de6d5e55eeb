"""A replica's files, of which an account is kept, and which can be hindered while it runs.

Owns which call is told in the account, and when. The steps of a call that changes something: 1. hindered, it is
refused; 2. its record is written; 3. it is performed, before any other record is written. So a process that is killed
has left at most one call open, the last in the account, and the next process performs that one again first: then the
directory is what the account says. A flush is not held up by others: its record says when it began, another one that it
is over.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from nemesis.disks.account import AccountWriter, Call, Record, read_account
from nemesis.disks.hindrance import Hindered
from nemesis.disks.place import DiskPlace
from replica.storage.files import Handle, OpenMode, OsFiles

FLUSH_S_MIN = 0.005
"""How long a flush is taken to last at least where it is to last a multiple of that: some are done at once."""
PIECE_BYTES = 1 << 20
_OPEN = OsFiles()
_ResultT = TypeVar("_ResultT")


class AccountedFiles(OsFiles):
    """The operating system's files, with an account of what is done to the data directory of ``place``."""

    def __init__(self, place: DiskPlace, sleep: Callable[[float], None] = time.sleep) -> None:
        self._data = place.data
        self._sleep = sleep
        self._hindered = Hindered(place.hindrance)
        self._writing = threading.Lock()
        self._paths: dict[Handle, Path] = {}
        self._numbers: dict[Handle, int] = {}
        if not place.account.exists():
            begin_account(place)
        self._next_number = finish_last_call(place)
        self._account = AccountWriter(place.account)
        self._account.add(Record(call=Call.BEGIN))

    # --- files --------------------------------------------------------------------------------------------------------

    def open(self, path: Path, mode: OpenMode) -> Handle:
        """Open; a name that is new takes space."""
        makes = mode in {OpenMode.CREATE, OpenMode.ENSURE}
        if makes and not path.exists():
            self._hindered.check("create", path, takes_space=True)
        number = self._new_number()
        with self._writing:
            record = Record(call=Call.OPEN, path=self._told(path), mode=mode.value, number=number)
            handle = self._perform(path, record, lambda: OsFiles.open(self, path, mode))
            self._paths[handle], self._numbers[handle] = path, number
        return handle

    def close(self, handle: Handle) -> None:
        """Close: another file may get the same handle."""
        with self._writing:
            path, number = self._paths.pop(handle), self._numbers.pop(handle)
            self._perform(path, Record(call=Call.CLOSE, number=number), lambda: OsFiles.close(self, handle))

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        """Read."""
        self._hindered.check("pread", self._paths.get(handle, self._data))
        return super().pread(handle, size, position)

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        """Write; whatever makes the file longer takes space."""
        path = self._paths[handle]
        self._hindered.check("pwrite", path, takes_space=position + len(data) > self.size(handle))
        with self._writing:
            number = self._numbers[handle]
            record = Record(call=Call.PWRITE, number=number, position=position, data=bytes(data))
            written = self._perform(path, record, lambda: OsFiles.pwrite(self, handle, data, position))
            if written != len(data) and self._is_ours(path):
                self._account.add(Record(call=Call.FAILED))
                part = bytes(data[:written])
                self._account.add(Record(call=Call.PWRITE, number=number, position=position, data=part))
        return written

    def ftruncate(self, handle: Handle, size: int) -> None:
        """Cut, or extend."""
        path = self._paths[handle]
        self._hindered.check("ftruncate", path)
        with self._writing:
            record = Record(call=Call.FTRUNCATE, number=self._numbers[handle], position=size)
            self._perform(path, record, lambda: OsFiles.ftruncate(self, handle, size))

    def fsync(self, handle: Handle) -> None:
        """Flush."""
        path = self._paths[handle]
        with self._writing:
            begun = Record(call=Call.FSYNC, number=self._numbers[handle], flush=self._take_number())
            self._note(path, begun)
        self._flush("fsync", path, begun, lambda: OsFiles.fsync(self, handle))

    # --- names --------------------------------------------------------------------------------------------------------

    def mkdir(self, path: Path) -> None:
        """Make a directory, which takes space."""
        self._hindered.check("mkdir", path, takes_space=True)
        with self._writing:
            self._perform(path, Record(call=Call.MKDIR, path=self._told(path)), lambda: OsFiles.mkdir(self, path))

    def rename(self, source: Path, target: Path) -> None:
        """Rename."""
        self._hindered.check("rename", target)
        with self._writing:
            record = Record(call=Call.RENAME, path=self._told(source), target=self._told(target))
            self._perform(target, record, lambda: OsFiles.rename(self, source, target))

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        self._hindered.check("unlink", path)
        with self._writing:
            self._perform(path, Record(call=Call.UNLINK, path=self._told(path)), lambda: OsFiles.unlink(self, path))

    def fsync_directory(self, path: Path) -> None:
        """Flush names."""
        with self._writing:
            begun = Record(call=Call.FSYNC_DIRECTORY, path=self._told(path), flush=self._take_number())
            self._note(path, begun)
        self._flush("fsync_directory", path, begun, lambda: OsFiles.fsync_directory(self, path))

    # --- the account --------------------------------------------------------------------------------------------------

    def _flush(self, call: str, path: Path, begun: Record, perform: Callable[[], None]) -> None:
        """Flush, as slowly as it is to be, and say that it is over."""
        self._hindered.check(call, path)
        began_s = time.monotonic()
        perform()
        factor = self._hindered.now.slow_factor
        if factor > 1:
            self._sleep((factor - 1) * max(FLUSH_S_MIN, time.monotonic() - began_s))
        with self._writing:
            self._note(path, Record(call=Call.FLUSHED, flush=begun.flush))

    def _perform(self, path: Path, record: Record, perform: Callable[[], _ResultT]) -> _ResultT:
        """Note a call, and perform it; nobody else notes anything meanwhile."""
        self._note(path, record)
        try:
            return perform()
        except OSError:
            self._note(path, Record(call=Call.FAILED))
            raise

    def _note(self, path: Path, record: Record) -> None:
        if self._is_ours(path):
            self._account.add(record)

    def _is_ours(self, path: Path) -> bool:
        return path.is_relative_to(self._data)

    def _told(self, path: Path) -> str:
        return str(path.relative_to(self._data)) if self._is_ours(path) else str(path)

    def _new_number(self) -> int:
        with self._writing:
            return self._take_number()

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number


# --- the beginning ----------------------------------------------------------------------------------------------------


def begin_account(place: DiskPlace) -> None:
    """Begin an account with what the directory holds, all of it durable: whole, or not at all."""
    unfinished = place.account.with_name(f"{place.account.name}.new")
    unfinished.unlink(missing_ok=True)
    writer = AccountWriter(unfinished)
    number = 0
    for folder in (place.data, *sorted(path for path in place.data.rglob("*") if path.is_dir())):
        if folder != place.data:
            writer.add(Record(call=Call.MKDIR, path=str(folder.relative_to(place.data))))
        for file in sorted(path for path in folder.iterdir() if path.is_file()):
            number += 1
            _tell_file(writer, file, str(file.relative_to(place.data)), number)
    for folder in (place.data, *(path for path in place.data.rglob("*") if path.is_dir())):
        number += 1
        writer.add(Record(call=Call.FSYNC_DIRECTORY, path=str(folder.relative_to(place.data)), flush=number))
        writer.add(Record(call=Call.FLUSHED, flush=number))
    writer.close()
    unfinished.replace(place.account)


def _tell_file(writer: AccountWriter, file: Path, name: str, number: int) -> None:
    writer.add(Record(call=Call.OPEN, path=name, mode=OpenMode.CREATE.value, number=number))
    with file.open("rb") as content:
        position = 0
        while piece := content.read(PIECE_BYTES):
            writer.add(Record(call=Call.PWRITE, number=number, position=position, data=piece))
            position += len(piece)
    writer.add(Record(call=Call.FSYNC, number=number, flush=number))
    writer.add(Record(call=Call.FLUSHED, flush=number))
    writer.add(Record(call=Call.CLOSE, number=number))


def finish_last_call(place: DiskPlace) -> int:
    """Perform the last call of an account once more, which a kill may have left undone; returns the highest number."""
    names: dict[int, Path] = {}
    highest = 0
    ends: deque[Record] = deque(maxlen=1)
    for record in read_account(place.account):
        ends.append(record)
        highest = max(highest, record.number, record.flush)
        _follow_names(names, record, place.data)
    for last in ends:
        with suppress(OSError):  # It was refused, and was about to be noted as such.
            _perform_again(last, names, place.data)
    return highest


def settle(place: DiskPlace) -> None:
    """Let no process perform the last call of an account once more: what is done to its file meanwhile stays.

    Nothing where there is no account. The process must not run.
    """
    if place.account.exists():
        finish_last_call(place)
        writer = AccountWriter(place.account)
        writer.add(Record(call=Call.BEGIN))
        writer.close()


def _follow_names(names: dict[int, Path], record: Record, data: Path) -> None:
    """Keep which file each opening means, also when it or a folder above it is renamed."""
    match record.call:
        case Call.BEGIN:
            names.clear()
        case Call.OPEN:
            names[record.number] = data / record.path
        case Call.CLOSE:
            names.pop(record.number, None)
        case Call.RENAME:
            source, target = data / record.path, data / record.target
            for number, path in _below(names.items(), source):
                names[number] = target / path.relative_to(source)
        case _:
            pass


def _below(names: Iterable[tuple[int, Path]], folder: Path) -> list[tuple[int, Path]]:
    return [(number, path) for number, path in names if path.is_relative_to(folder)]


def _perform_again(record: Record, names: dict[int, Path], data: Path) -> None:
    """Perform a call that may have been performed already; then it changes nothing. Raises OSError if it is refused."""
    path = data / record.path
    match record.call:
        case Call.OPEN:
            _OPEN.close(_OPEN.open(path, OpenMode(record.mode)))
        case Call.PWRITE | Call.FTRUNCATE:
            handle = _OPEN.open(names[record.number], OpenMode.READ_WRITE)
            if record.call is Call.PWRITE:
                _OPEN.pwrite(handle, record.data, record.position)
            else:
                _OPEN.ftruncate(handle, record.position)
            _OPEN.close(handle)
        case Call.MKDIR:
            path.mkdir(exist_ok=True)
        case Call.RENAME:
            if path.exists():
                os.replace(path, data / record.target)
        case Call.UNLINK:
            if path.exists():
                _OPEN.unlink(path)
        case _:
            pass
