"""A replica's files that stand still at a named point, for good, when they are ordered to.

Owns which call on which file is which point. The order lies in a file that is looked for at each of these calls, so
that a running replica can be told. Everything else is done as the operating system does it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from nemesis.faults.crash_points import CrashPoint, Order, reached, read_order
from replica.storage.files import Handle, OpenMode, OsFiles

LOG_SUFFIX, SNAPSHOT_SUFFIX, QUORUM_STATE = ".log", ".checkpoint", "quorum-state"


def stand_still() -> None:
    """Stop the whole process; only SIGKILL is to follow."""
    while True:
        os.kill(os.getpid(), signal.SIGSTOP)


class StandingFiles(OsFiles):
    """The operating system's files, and an order at ``order_path`` that may come at any time."""

    def __init__(self, order_path: Path, stand_still: Callable[[], None] = stand_still) -> None:
        self._order_path = order_path
        self._stand_still = stand_still
        self._order: Order | None = None
        self._order_stamp: tuple[int, int] | None = None
        self._come_to: Counter[CrashPoint] = Counter()
        self._logs: set[Handle] = set()
        self._lock = threading.Lock()

    def open(self, path: Path, mode: OpenMode) -> Handle:
        """Open, and remember which of the handles are logs."""
        handle = super().open(path, mode)
        if path.suffix == LOG_SUFFIX:
            self._logs.add(handle)
        return handle

    def close(self, handle: Handle) -> None:
        """Close: another file may get the same handle."""
        self._logs.discard(handle)
        super().close(handle)

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        """Write; into a log it is an append."""
        if handle not in self._logs:
            return super().pwrite(handle, data, position)
        self._at(CrashPoint.BEFORE_APPEND)
        written = super().pwrite(handle, data, position)
        self._at(CrashPoint.AFTER_APPEND)
        return written

    def fsync(self, handle: Handle) -> None:
        """Flush."""
        is_log = handle in self._logs
        if is_log:
            self._at(CrashPoint.BEFORE_FLUSH)
        super().fsync(handle)
        if is_log:
            self._at(CrashPoint.AFTER_FLUSH)

    def rename(self, source: Path, target: Path) -> None:
        """Rename; some files get their names when they are complete."""
        before, after = _renaming(target)
        self._at(before)
        super().rename(source, target)
        self._at(after)

    def _at(self, point: CrashPoint | None) -> None:
        """Stand still if this is the point, and it was come to often enough."""
        if point is None:
            return
        with self._lock:
            order = self._order_now()
            if order is None or order.point is not point:
                return
            self._come_to[point] += 1
            if self._come_to[point] != order.nth:
                return
            try:
                self._order_path.rename(reached(self._order_path))
            except FileNotFoundError:
                return  # It was taken back at the last moment.
            self._stand_still()

    def _order_now(self) -> Order | None:
        """The order that lies there, read once; each new one is counted from its own beginning."""
        try:
            status = self._order_path.stat()
        except FileNotFoundError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns)
        if stamp != self._order_stamp:
            self._order, self._order_stamp = read_order(self._order_path), stamp
            self._come_to.clear()
        return self._order


def _renaming(target: Path) -> tuple[CrashPoint | None, CrashPoint | None]:
    """What it means that a file gets this name."""
    if target.suffix == SNAPSHOT_SUFFIX:
        return CrashPoint.BEFORE_SNAPSHOT_RENAME, CrashPoint.AFTER_SNAPSHOT_RENAME
    if target.name == QUORUM_STATE:
        return CrashPoint.BEFORE_QUORUM_STATE, CrashPoint.AFTER_QUORUM_STATE
    return None, None
