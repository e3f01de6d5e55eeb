"""What was deleted and still takes space: files and log directories whose names say so, and when they go.

Owns the renaming that frees a name at once, and the wait before the bytes go (``file.delete.delay.ms``), so that a
reader in flight is not cut off. The wait counts from the first ``empty`` that sees a thing, because storage knows no
clock. What is found at a start has waited long enough. Source: Kafka's ``LogManager.asyncDelete``,
``LocalLog.deleteSegmentFiles``.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from pathlib import Path

from replica.storage import partition_metadata
from replica.storage.files import Files

DELETED_FILE_SUFFIX = ".deleted"
DELETED_DIRECTORY_SUFFIX = "-delete"
DAMAGED_DIRECTORY_SUFFIX = "-damaged"
FILE_DELETE_DELAY_MS = 60_000
"""Kafka's ``file.delete.delay.ms``."""

_NAME_BYTES_MAX = 255
_DAMAGED_DIRECTORY = re.compile(rf"(.+)\.[0-9]+{DAMAGED_DIRECTORY_SUFFIX}")
_DELETED_DIRECTORY = re.compile(rf".+\.[0-9]+{DELETED_DIRECTORY_SUFFIX}")


class Trash:
    """Renamed files and directories of one data directory that wait for their removal. Safe to share among threads."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._seen_at_ms: dict[Path, int | None] = {}
        """When each thing was first seen by ``empty``; absent before that."""
        self._directories = 0

    def put_file(self, path: Path) -> None:
        """Rename a file to ``*.deleted``; durable after a sync of its directory."""
        deleted = path.with_name(path.name + DELETED_FILE_SUFFIX)
        self._files.rename(path, deleted)
        with self._lock:
            self._seen_at_ms[deleted] = None

    def put_directory(self, path: Path) -> None:
        """Rename a log directory to ``<topic>-<partition>.<unique>-delete``, durably: its name is free on return."""
        deleted = self._free_name(path, DELETED_DIRECTORY_SUFFIX)
        self._rename_directory(path, deleted)
        with self._lock:
            self._seen_at_ms[deleted] = None

    def put_aside(self, path: Path) -> None:
        """Rename a damaged log directory to ``<topic>-<partition>.<unique>-damaged``, durably, for somebody to look at.

        One of the same log that was put aside before goes: a disk that rots on must not be filled by what it has lost.
        """
        before = self.put_aside_before(path)
        self._rename_directory(path, self._free_name(path, DAMAGED_DIRECTORY_SUFFIX))
        for former in before:
            self.put_directory(former)

    def put_aside_before(self, path: Path) -> list[Path]:
        """The damaged directories of this log that were put aside."""
        names = [_DAMAGED_DIRECTORY.fullmatch(name) for name in self._files.names(path.parent)]
        return [path.with_name(name[0]) for name in names if name is not None and name[1] == path.name]

    def _rename_directory(self, path: Path, target: Path) -> None:
        self._files.rename(path, target)
        self._files.fsync_directory(path.parent)
        with self._lock:
            for inside in [waiting for waiting in self._seen_at_ms if waiting.parent == path]:
                del self._seen_at_ms[inside]

    def _free_name(self, path: Path, kind: str) -> Path:
        while True:
            with self._lock:
                self._directories += 1
                suffix = f".{self._directories}{kind}"
            deleted = path.with_name(path.name[: _NAME_BYTES_MAX - len(suffix)] + suffix)
            if not self._files.exists(deleted):
                return deleted

    def empty(self, now_ms: int, delay_ms: int) -> None:
        """Remove what was first seen here ``delay_ms`` ago or earlier. May raise OSError."""
        with self._lock:
            for path, seen_at_ms in self._seen_at_ms.items():
                self._seen_at_ms[path] = now_ms if seen_at_ms is None else seen_at_ms
            due = [path for path, seen_at_ms in self._seen_at_ms.items() if _is_due(seen_at_ms, now_ms, delay_ms)]
            for path in due:
                del self._seen_at_ms[path]
        # Not under the lock: it takes long to free large files, and nobody who renames should wait for that.
        for path in due:
            self._remove(path)

    def _remove(self, path: Path) -> None:
        if path.name.endswith(DELETED_DIRECTORY_SUFFIX):
            remove_tree(self._files, path)
            return
        with suppress(FileNotFoundError):  # Its whole log may be deleted meanwhile, and take the file along.
            self._files.unlink(path)


def _is_due(seen_at_ms: int | None, now_ms: int, delay_ms: int) -> bool:
    return seen_at_ms is not None and now_ms - seen_at_ms >= delay_ms


def remove_tree(files: Files, path: Path) -> None:
    """Remove a directory and the files in it; the file that makes it a log goes first and for good."""
    names = files.names(path)
    if partition_metadata.FILE_NAME in names:
        # A crash from here on leaves something that is not taken for a log, even if it undoes the renaming.
        files.unlink(path / partition_metadata.FILE_NAME)
        files.fsync_directory(path)
    for name in names:
        if name != partition_metadata.FILE_NAME:
            files.unlink(path / name)
    files.unlink(path)


def remove_deleted_directories(files: Files, path: Path) -> None:
    """Remove the log directories in ``path`` that an earlier process has renamed for that."""
    leftovers = [path / name for name in files.names(path) if _DELETED_DIRECTORY.fullmatch(name)]
    if not leftovers:
        return
    for leftover in leftovers:
        remove_tree(files, leftover)
    files.fsync_directory(path)


def is_deleted_file(name: str) -> bool:
    """Tell whether a file of a log waits for its removal."""
    return name.endswith(DELETED_FILE_SUFFIX)
