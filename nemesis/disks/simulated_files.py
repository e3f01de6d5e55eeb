"""A disk in memory that forgets what was not fsynced: what a simulated replica's storage stands on.

Owns a tree of directories and files with two contents each, the one that the process sees and the one on the platter.
It is as weak as POSIX allows: a file's content is durable after its own fsync, a name after the fsync of its directory,
and the two are independent. ``crash`` keeps nothing of what is pending, or a random part of it. The disk also loses its
power before a chosen operation, fills up, and fails chosen calls, so that every step of a procedure can be visited.

Source: ALICE (Pillai et al., OSDI 2014) for what file systems may lose; TigerBeetle's simulated storage.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from replica.storage.files import Handle, OpenMode


class PowerLossError(BaseException):
    """The power went before an operation. Not an Exception: no handler of the code under test may survive it."""


@dataclass(slots=True, eq=False)
class MemoryFile:
    """``pending`` lists what was done to ``content`` since ``durable`` was: ``(position, data)``, or a length."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)
    lock_holder: int | None = None


@dataclass(slots=True, eq=False)
class MemoryDirectory:
    entries: dict[str, MemoryFile | MemoryDirectory] = field(default_factory=dict)
    durable: dict[str, MemoryFile | MemoryDirectory] = field(default_factory=dict)


class SimulatedFiles:
    """A ``Files`` that can lose its power. ``operations`` counts everything that changes something.

    ``is_full`` refuses whatever takes space, ``fault`` fails the calls that it returns an error for; ``calls`` are
    remembered only where a test asks for them.
    """

    def __init__(self, *, remember_calls: bool = True) -> None:
        self._root = MemoryDirectory()
        self._handles: dict[int, MemoryFile] = {}
        self._next_handle = 1
        self.operations = 0
        self.power_fails_before: int | None = None
        self.fault: Callable[[str, Path], OSError | None] | None = None
        self.short_writes = False
        self.is_full = False
        self.lies: Callable[[Path], bool] = _never
        """Asked at each fsync whether it only pretends."""
        self.refused_for_space = 0
        self.errors_returned = 0
        """How many calls have failed for want of space or by ``fault``: what excuses a process that stops."""
        self.cut_bytes = 0
        """How much ``ftruncate`` has cut off, all in all: at a start, that is the torn tail."""
        self.calls: list[str] = []
        self._remember_calls = remember_calls
        self.before_fsync: Callable[[], None] | None = None
        self._paths: dict[int, Path] = {}

    # --- what a test does -------------------------------------------------------------------------------------------

    def crash(self, chance: random.Random | None = None) -> None:
        """Lose the power and boot again: all handles and locks are gone, and so is what was pending.

        With ``chance``, each pending write, length and name survives or not by its own coin, a write perhaps in part.
        """
        self._handles.clear()
        self._paths.clear()
        self.power_fails_before = None
        self.fault = None
        self._settle(self._root, chance)

    def content(self, path: Path) -> bytes:
        """What a file holds, as the process sees it."""
        return bytes(self._file(path).content)

    def overwrite(self, path: Path, content: bytes) -> None:
        """Change a file behind everybody's back, durably: damage."""
        file = self._file(path)
        file.content, file.durable, file.pending = bytearray(content), bytearray(content), []

    def remove(self, path: Path) -> None:
        """Take a file or directory away behind everybody's back, durably."""
        parent = self._directory(path.parent)
        parent.entries.pop(path.name)
        parent.durable.pop(path.name, None)

    def tree(self) -> dict[str, bytes]:
        """All files by path, as the process sees them."""
        found: dict[str, bytes] = {}
        self._walk(self._root, "", found)
        return found

    def folders(self) -> tuple[Path, ...]:
        """All directories below the root as the process sees them, each before those that are in it."""
        return tuple(_folders(self._root, Path("/")))

    # --- the port ---------------------------------------------------------------------------------------------------

    def open(self, path: Path, mode: OpenMode) -> Handle:
        entries, name = self._place(path)
        file = entries.get(name)
        if file is None:
            if mode in {OpenMode.READ, OpenMode.READ_WRITE}:
                raise FileNotFoundError(str(path))
            self._change("create", path, takes_space=True)
            file = entries[name] = MemoryFile()
        if isinstance(file, MemoryDirectory):
            raise IsADirectoryError(str(path))
        if mode is OpenMode.CREATE and file.content:
            self._change("ftruncate", path)
            file.content.clear()
            file.pending.append(0)
        handle = self._next_handle
        self._next_handle += 1
        self._handles[handle] = file
        self._paths[handle] = path
        return Handle(handle)

    def close(self, handle: Handle) -> None:
        file = self._handles.pop(handle, None)
        self._paths.pop(handle, None)
        if file is not None and file.lock_holder == handle:
            file.lock_holder = None

    def size(self, handle: Handle) -> int:
        return len(self._handles[handle].content)

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        self._check_fault("pread", self._paths[handle])
        return bytes(self._handles[handle].content[position : position + size])

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        file = self._handles[handle]
        self._change("pwrite", self._paths[handle], takes_space=position + len(data) > len(file.content))
        taken = data[: len(data) // 2] if self.short_writes else data
        _write(file.content, position, taken)
        file.pending.append((position, taken))
        return len(taken)

    def ftruncate(self, handle: Handle, size: int) -> None:
        self._change("ftruncate", self._paths[handle])
        file = self._handles[handle]
        self.cut_bytes += max(0, len(file.content) - size)
        _resize(file.content, size)
        file.pending.append(size)

    def fsync(self, handle: Handle) -> None:
        file = self._handles[handle]
        count = len(file.pending)
        if self.before_fsync is not None:
            self.before_fsync()
        self._change("fsync", self._paths[handle])
        if self.lies(self._paths[handle]):
            return
        for change in file.pending[:count]:
            _apply(file.durable, change)
        del file.pending[:count]

    def try_lock(self, handle: Handle) -> bool:
        file = self._handles[handle]
        if file.lock_holder in self._handles:
            return False
        file.lock_holder = handle
        return True

    def mkdir(self, path: Path) -> None:
        self._change("mkdir", path)
        entries, name = self._place(path)
        entries[name] = MemoryDirectory()

    def rename(self, source: Path, target: Path) -> None:
        self._change("rename", target)
        (entries, name), (entries_before, name_before) = self._place(target), self._place(source)
        entries[name] = entries_before.pop(name_before)

    def unlink(self, path: Path) -> None:
        self._change("unlink", path)
        entries, name = self._place(path)
        del entries[name]

    def names(self, directory: Path) -> tuple[str, ...]:
        return tuple(sorted(self._directory(directory).entries))

    def exists(self, path: Path) -> bool:
        try:
            entries, name = self._place(path)
        except FileNotFoundError:
            return False
        return not name or name in entries

    def fsync_directory(self, path: Path) -> None:
        self._change("fsync_directory", path)
        directory = self._directory(path)
        directory.durable = dict(directory.entries)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _change(self, call: str, path: Path, *, takes_space: bool = False) -> None:
        if self.operations == self.power_fails_before:
            raise PowerLossError(f"before operation {self.operations}: {call} {path}")
        self.operations += 1
        if self._remember_calls:
            self.calls.append(f"{call} {path.name}")
        if takes_space and self.is_full:
            self.refused_for_space += 1
            self.errors_returned += 1
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        self._check_fault(call, path)

    def _check_fault(self, call: str, path: Path) -> None:
        error = self.fault(call, path) if self.fault is not None else None
        if error is not None:
            self.errors_returned += 1
            raise error

    def _place(self, path: Path) -> tuple[dict[str, MemoryFile | MemoryDirectory], str]:
        """The entries of the directory in which a path is, and its name there; the root has none, in itself."""
        parts = path.parts
        return self._found(parts[1:-1], path).entries, parts[-1] if len(parts) > 1 else ""

    def _directory(self, path: Path) -> MemoryDirectory:
        return self._found(path.parts[1:], path)

    def _found(self, folders: Iterable[str], path: Path) -> MemoryDirectory:
        directory = self._root
        for name in folders:
            entry = directory.entries.get(name)
            if not isinstance(entry, MemoryDirectory):
                raise FileNotFoundError(str(path))
            directory = entry
        return directory

    def _file(self, path: Path) -> MemoryFile:
        entries, name = self._place(path)
        file = entries.get(name)
        if not isinstance(file, MemoryFile):
            raise FileNotFoundError(str(path))
        return file

    def _walk(self, directory: MemoryDirectory, prefix: str, found: dict[str, bytes]) -> None:
        for name, entry in sorted(directory.entries.items()):
            match entry:
                case MemoryFile():
                    found[f"{prefix}/{name}"] = bytes(entry.content)
                case MemoryDirectory():
                    self._walk(entry, f"{prefix}/{name}", found)

    def _settle(self, directory: MemoryDirectory, chance: random.Random | None) -> None:
        names = dict(directory.durable)
        if chance is not None:
            for name in sorted({*directory.entries, *directory.durable}):
                if chance.random() < 0.5:
                    names.pop(name, None)
                    if name in directory.entries:
                        names[name] = directory.entries[name]
        directory.entries, directory.durable = names, dict(names)
        for _, entry in sorted(names.items()):
            match entry:
                case MemoryFile():
                    _settle_file(entry, chance)
                case MemoryDirectory():
                    self._settle(entry, chance)


def _folders(directory: MemoryDirectory, path: Path) -> Iterator[Path]:
    for name, entry in sorted(directory.entries.items()):
        if isinstance(entry, MemoryDirectory):
            yield path / name
            yield from _folders(entry, path / name)


def _never(path: Path) -> bool:
    del path
    return False


def _settle_file(file: MemoryFile, chance: random.Random | None) -> None:
    for change in file.pending if chance is not None else ():
        if chance is None or chance.random() < 0.5:
            continue
        match change:
            case int():
                _apply(file.durable, change)
            case (position, data):
                _apply(file.durable, (position, data[: chance.randint(0, len(data))]))
    file.content, file.pending, file.lock_holder = bytearray(file.durable), [], None


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    match change:
        case int(size):
            _resize(content, size)
        case (position, data):
            _write(content, position, data)


def _write(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        _resize(content, position)
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))
