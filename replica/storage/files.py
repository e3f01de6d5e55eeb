"""The one seam between this package and the operating system.

``Files`` is the port: everything that storage asks of a disk, in the words of POSIX, so that a simulated disk that
loses what was not fsynced can stand in for the real one. ``OsFiles`` is the real one. ``write_fully`` and
``atomic_write`` are the two ways in which the package writes. fsync is called nowhere outside this module.

The rule of the port, as on the weakest POSIX file system: a write is durable after ``fsync`` of its file; a create,
rename or unlink is durable after ``fsync_directory`` of its directory; before that, any part of it may be lost.
"""

from __future__ import annotations

import errno
import fcntl
import os
from enum import StrEnum
from pathlib import Path
from typing import NewType, Protocol

Handle = NewType("Handle", int)
"""An open file of one ``Files``."""


class OpenMode(StrEnum):
    """How a file is opened. ``CREATE`` empties a file that exists; ``ENSURE`` keeps it; the others need it."""

    READ = "read"
    READ_WRITE = "read_write"
    CREATE = "create"
    ENSURE = "ensure"


_OPEN_FLAGS = {
    OpenMode.READ: os.O_RDONLY,
    OpenMode.READ_WRITE: os.O_RDWR,
    OpenMode.CREATE: os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    OpenMode.ENSURE: os.O_RDWR | os.O_CREAT,
}


class Files(Protocol):
    """The port. Every method may raise OSError; reads and writes may be short, as in POSIX."""

    def open(self, path: Path, mode: OpenMode) -> Handle:
        """Open ``path``; the name of a new file is not durable before ``fsync_directory``."""

    def close(self, handle: Handle) -> None:
        """Give the handle back; says nothing about durability, and drops a lock taken through it."""

    def size(self, handle: Handle) -> int:
        """The length in bytes."""

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; empty at the end of the file."""

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        """Write into the page cache; return how many bytes it took."""

    def ftruncate(self, handle: Handle, size: int) -> None:
        """Cut (or extend with zeros) to ``size`` bytes; durable after ``fsync``."""

    def fsync(self, handle: Handle) -> None:
        """Bring content and length to stable storage. After a failure the content is unknown: never ask again."""

    def try_lock(self, handle: Handle) -> bool:
        """Take the exclusive advisory lock, without waiting; False if another holder has it."""

    def mkdir(self, path: Path) -> None:
        """Make one directory, durable after ``fsync_directory`` of its parent."""

    def rename(self, source: Path, target: Path) -> None:
        """Put ``source``, a file or a directory, in the place of ``target``, atomically."""

    def unlink(self, path: Path) -> None:
        """Remove the name of a file, or of an empty directory."""

    def names(self, directory: Path) -> tuple[str, ...]:
        """What a directory holds, sorted."""

    def exists(self, path: Path) -> bool:
        """Tell whether something has this name."""

    def fsync_directory(self, path: Path) -> None:
        """Make creates, renames and unlinks in this directory durable."""


class OsFiles:
    """The operating system's files."""

    def open(self, path: Path, mode: OpenMode) -> Handle:
        return Handle(os.open(path, _OPEN_FLAGS[mode] | os.O_CLOEXEC, 0o644))

    def close(self, handle: Handle) -> None:
        os.close(handle)

    def size(self, handle: Handle) -> int:
        return os.fstat(handle).st_size

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        return os.pread(handle, size, position)

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        return os.pwrite(handle, data, position)

    def ftruncate(self, handle: Handle, size: int) -> None:
        os.ftruncate(handle, size)

    def fsync(self, handle: Handle) -> None:
        os.fsync(handle)

    def try_lock(self, handle: Handle) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def mkdir(self, path: Path) -> None:
        path.mkdir()

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()

    def names(self, directory: Path) -> tuple[str, ...]:
        return tuple(sorted(os.listdir(directory)))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def fsync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


OS_FILES = OsFiles()
"""The default everywhere a ``Files`` is asked for."""

TEMPORARY_SUFFIX = ".tmp"
"""What ``atomic_write`` appends to the name while it writes; such a file found at start is a leftover."""


def is_out_of_descriptors(error: OSError) -> bool:
    """Tell whether a call has failed for want of a descriptor, which says nothing about the file."""
    return error.errno in {errno.EMFILE, errno.ENFILE}


def write_fully(files: Files, handle: Handle, data: bytes, position: int) -> None:
    """Write all of ``data``, or raise OSError: a short write to a file means that the disk is full or failing."""
    written = files.pwrite(handle, data, position)
    if written != len(data):
        raise OSError(f"only {written} of {len(data)} bytes were written")


def read_file(files: Files, path: Path) -> bytes:
    """The whole content of a small file."""
    handle = files.open(path, OpenMode.READ)
    try:
        return files.pread(handle, files.size(handle), 0)
    finally:
        files.close(handle)


def fsync_file(files: Files, path: Path) -> None:
    """Bring the content of a file to stable storage, by whomever it was written; its name is not durable by that."""
    handle = files.open(path, OpenMode.READ_WRITE)
    try:
        files.fsync(handle)
    finally:
        files.close(handle)


def atomic_write(files: Files, path: Path, content: bytes) -> None:
    """Replace ``path`` with ``content``, durably: after a crash at any point the file is the old or the new one.

    The order forces it: the new content is on the platter before the name points to it, and the name is on the
    platter before this returns (Kafka's ``CheckpointFile``, ``Utils.atomicMoveWithFallback``).
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    handle = files.open(temporary, OpenMode.CREATE)
    try:
        write_fully(files, handle, content, 0)
        files.fsync(handle)
    finally:
        files.close(handle)
    files.rename(temporary, path)
    files.fsync_directory(path.parent)


def make_directory(files: Files, path: Path) -> None:
    """Make a directory, durably, with those above it; what is there already stays."""
    if files.exists(path):
        return
    make_directory(files, path.parent)
    files.mkdir(path)
    files.fsync_directory(path.parent)


def remove_durably(files: Files, path: Path) -> None:
    """Remove a file's name so that it stays removed after a crash."""
    files.unlink(path)
    files.fsync_directory(path.parent)
