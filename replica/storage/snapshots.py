"""The snapshots of one quorum log: what its records have led to, each in a file beside the segments.

Owns their names (``<end offset>-<epoch>.checkpoint``), which there are, and that each is whole or not there at all.
Knows nothing of what they hold; whoever reads one all the same must check its seal. Safe to share among threads, but
for two writers of the same snapshot.
Source: KIP-630; Kafka's ``Snapshots``, ``FileRawSnapshotWriter``.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

from replica.core.log.recovered import StoredSnapshot
from replica.ids import Epoch, Offset, SnapshotId
from replica.storage.files import Files, OpenMode, atomic_write, read_file

CHECKPOINT_SUFFIX = ".checkpoint"

_NAME = re.compile(rf"([0-9]{{20}})-([0-9]{{10}}){re.escape(CHECKPOINT_SUFFIX)}")


def checkpoint_name(snapshot_id: SnapshotId) -> str:
    """The name of a snapshot's file."""
    return f"{snapshot_id.end_offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT_SUFFIX}"


def snapshot_id_of(name: str) -> SnapshotId | None:
    """The snapshot that a file of this name holds; None if it is no such name."""
    parts = _NAME.fullmatch(name)
    return None if parts is None else SnapshotId(Offset(int(parts[1])), Epoch(int(parts[2])))


class LogSnapshots:
    """The snapshots in the directory of one log. Every method may raise OSError."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        found = (snapshot_id_of(name) for name in files.names(path))
        self._sizes = {snapshot_id: self._size_of(snapshot_id) for snapshot_id in found if snapshot_id is not None}

    @property
    def stored(self) -> tuple[StoredSnapshot, ...]:
        """Those that there are, oldest first."""
        with self._lock:
            return tuple(StoredSnapshot(id=found, size_bytes=size) for found, size in sorted(self._sizes.items()))

    @property
    def newest(self) -> SnapshotId | None:
        """The one that contains the most; absent if there is none."""
        with self._lock:
            return max(self._sizes, default=None)

    def has_end(self, offset: Offset) -> bool:
        """Tell whether one ends exactly there."""
        return any(snapshot.id.end_offset == offset for snapshot in self.stored)

    def store(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Keep a snapshot, durable on return: a crash on the way leaves all of it, or nothing of that name."""
        atomic_write(self._files, self._file(snapshot_id), data)
        with self._lock:
            self._sizes[snapshot_id] = len(data)

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Up to ``max_bytes`` from ``position`` on; empty at the end."""
        handle = self._files.open(self._file(snapshot_id), OpenMode.READ)
        try:
            return self._files.pread(handle, max_bytes, position)
        finally:
            self._files.close(handle)

    def read_newest(self) -> bytes:
        """All of the newest; empty if there is none."""
        newest = self.newest
        return b"" if newest is None else read_file(self._files, self._file(newest))

    def drop_below(self, end_offset: Offset) -> None:
        """Remove those that end below; what a crash brings back of them is removed when the log is opened."""
        with self._lock:
            dropped = [snapshot_id for snapshot_id in self._sizes if snapshot_id.end_offset < end_offset]
            for snapshot_id in dropped:
                del self._sizes[snapshot_id]
        for snapshot_id in sorted(dropped):
            self._files.unlink(self._file(snapshot_id))

    def _size_of(self, snapshot_id: SnapshotId) -> int:
        handle = self._files.open(self._file(snapshot_id), OpenMode.READ)
        try:
            return self._files.size(handle)
        finally:
            self._files.close(handle)

    def _file(self, snapshot_id: SnapshotId) -> Path:
        return self._path / checkpoint_name(snapshot_id)
