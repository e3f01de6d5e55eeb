"""A bound on how many files are open: one that is idle is closed, and opened again when it is used.

Owns the descriptors behind the handles that it gives out; a handle stays good while its file is closed. So a log of a
thousand segments, or a thousand logs, need no thousand descriptors. Knows nothing of logs.

Of those that are idle the least recently used is closed, and one with unflushed data only where there is no other. It
is fsynced first, in the thread that needs the room: a write-back that fails while nobody has the file open is told to
nobody. If that fsync fails, the file stays open and fails for good, so that its own writer hears of it.

Threads: ``_lock`` protects the fields, and is held for nothing slower than the closing of a clean file. A file is not
closed while it is in use. ``changing`` lets one thread at a time open a file or flush it: of two flushes at once the
kernel tells only one that it has failed.
Source: PostgreSQL's ``fd.c``, which has such a pool of virtual files.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TypeVar

from replica.storage.files import Files, Handle, OpenMode, is_out_of_descriptors

OPEN_MAX_LEAST = 8
"""As many threads may use a file each, with room for one to be opened."""
PATIENCE_S = 2.0
"""How long to wait for a descriptor where the system has none and nothing here can be closed."""
PAUSE_S = 0.005

_ResultT = TypeVar("_ResultT")
_Queue = OrderedDict[Handle, "_File"]


@dataclass(slots=True, kw_only=True)
class _File:
    """What stands behind a handle. ``descriptor`` is absent while it is closed, ``queue`` where it may not be closed.

    The first ``flushed`` of its ``writes`` are flushed. Before any write it is -1: what a process before has written
    need not be, although nobody here has to see to that unasked. ``is_forgotten``: nobody has the handle any more.
    """

    handle: Handle
    path: Path
    mode: OpenMode
    descriptor: Handle | None = None
    queue: _Queue | None = None
    uses: int = 0
    writes: int = 0
    flushed: int = -1
    failure: OSError | None = None
    is_locked: bool = False
    is_forgotten: bool = False
    changing: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Raise OSError if a flush has failed: what was written may be gone, and nothing is added to it."""
        if self.failure is not None:
            raise self.failure

    def move_to(self, queue: _Queue | None) -> None:
        """Let it be the last of those in ``queue`` to be closed; absent, let it never be. Under the lock."""
        if self.queue is not None:
            del self.queue[self.handle]
        self.queue = queue
        if queue is not None:
            queue[self.handle] = self


class BoundedFiles:
    """``files`` with at most ``open_max`` open, and those in use on top where all are; a ``Files`` itself."""

    def __init__(self, files: Files, *, open_max: int, sleep: Callable[[float], None] = time.sleep) -> None:
        assert open_max >= OPEN_MAX_LEAST, f"{open_max} open files are too few, {OPEN_MAX_LEAST} are the least"
        self.open_count = 0
        """How many are open now."""
        self._files = files
        self._open_max = open_max
        self._sleep = sleep
        self._lock = threading.Lock()
        self._handles = count(1)
        self._known: dict[Handle, _File] = {}
        self._clean: _Queue = OrderedDict()
        self._unflushed: _Queue = OrderedDict()

    # --- the port ---------------------------------------------------------------------------------------------------

    def open(self, path: Path, mode: OpenMode) -> Handle:
        handle = Handle(next(self._handles))
        file = _File(handle=handle, path=path, mode=mode, writes=int(mode is OpenMode.CREATE))
        self._open(file)
        # It is not emptied when it is opened again.
        file.mode = OpenMode.READ if mode is OpenMode.READ else OpenMode.READ_WRITE
        self._known[handle] = file
        return handle

    def close(self, handle: Handle) -> None:
        """Give the handle back. Who was interrupted while closing may do so again: no other file has that handle."""
        with self._lock:
            file = self._known.pop(handle, None)
            if file is None:
                return
            file.is_forgotten = True
            file.move_to(None)
            if not file.uses:
                self._shut(file)

    def size(self, handle: Handle) -> int:
        file, descriptor = self._take(handle)
        try:
            return self._files.size(descriptor)
        finally:
            self._give_back(file)

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        file, descriptor = self._take(handle)
        try:
            return self._files.pread(descriptor, size, position)
        finally:
            self._give_back(file)

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        file, descriptor = self._take(handle)
        try:
            file.check()
            return self._files.pwrite(descriptor, data, position)
        finally:
            self._give_back(file, was_written=True)

    def ftruncate(self, handle: Handle, size: int) -> None:
        file, descriptor = self._take(handle)
        try:
            file.check()
            self._files.ftruncate(descriptor, size)
        finally:
            self._give_back(file, was_written=True)

    def fsync(self, handle: Handle) -> None:
        """Flush, unless all that was written was flushed meanwhile to make room."""
        file = self._known[handle]
        file.check()
        if file.flushed == file.writes:
            return
        file, descriptor = self._take(handle)
        try:
            self._flush(file, descriptor)
        finally:
            self._give_back(file)

    def try_lock(self, handle: Handle) -> bool:
        """Take the lock, which the file would lose if it were closed: it stays open then."""
        file, descriptor = self._take(handle)
        try:
            file.is_locked = self._files.try_lock(descriptor)
            with self._lock:
                self._place(file)
            return file.is_locked
        finally:
            self._give_back(file)

    def mkdir(self, path: Path) -> None:
        self._files.mkdir(path)

    def rename(self, source: Path, target: Path) -> None:
        self._files.rename(source, target)

    def unlink(self, path: Path) -> None:
        self._files.unlink(path)

    def names(self, directory: Path) -> tuple[str, ...]:
        return self._with_descriptor(lambda: self._files.names(directory))

    def exists(self, path: Path) -> bool:
        return self._files.exists(path)

    def fsync_directory(self, path: Path) -> None:
        self._with_descriptor(lambda: self._files.fsync_directory(path))

    # --- in use, or idle --------------------------------------------------------------------------------------------

    def _take(self, handle: Handle) -> tuple[_File, Handle]:
        """Let nobody close this file until it is given back, and open it if it is closed."""
        with self._lock:
            file = self._known[handle]
            file.uses += 1
            if file.queue is not None:
                file.queue.move_to_end(handle)
        if file.descriptor is not None:
            return file, file.descriptor
        try:
            return file, self._open(file)
        except BaseException:
            self._give_back(file)
            raise

    def _give_back(self, file: _File, *, was_written: bool = False) -> None:
        with self._lock:
            file.uses -= 1
            if was_written:
                file.writes += 1
                if file.queue is self._clean:
                    self._place(file)
            if file.is_forgotten and not file.uses:
                self._shut(file)

    def _place(self, file: _File) -> None:
        """Put a file where it is found when one is to be closed. Under the lock."""
        if file.descriptor is None or file.is_locked or file.is_forgotten or file.failure is not None:
            file.move_to(None)
        else:
            file.move_to(self._clean if file.writes in {0, file.flushed} else self._unflushed)

    # --- opening and closing ----------------------------------------------------------------------------------------

    def _open(self, file: _File) -> Handle:
        with file.changing:
            if file.descriptor is None:
                while self.open_count >= self._open_max and self._close_one():
                    pass
                file.descriptor = self._with_descriptor(lambda: self._files.open(file.path, file.mode))
                with self._lock:
                    self.open_count += 1
                    self._place(file)
            return file.descriptor

    def _with_descriptor(self, call: Callable[[], _ResultT]) -> _ResultT:
        """Do what takes a descriptor. Where the system has none left, close an idle file, or wait for one."""
        waited_s = 0.0
        while True:
            try:
                return call()
            except OSError as error:
                if not is_out_of_descriptors(error) or waited_s >= PATIENCE_S:
                    raise
            if not self._close_one():
                self._sleep(PAUSE_S)
                waited_s += PAUSE_S

    def _close_one(self) -> bool:
        """Close the idle file that was used least recently, or flush it, so that it may be; False if there is none."""
        with self._lock:
            files = chain(self._clean.values(), self._unflushed.values())
            file = next((file for file in files if not file.uses), None)
            if file is None:
                return False
            if file.queue is self._clean:
                with suppress(OSError):  # What was written to it is flushed, so that this is nobody's loss.
                    self._shut(file)
                return True
            file.uses += 1
        assert file.descriptor is not None, f"{file.path} is closed, and yet it is in a queue"
        try:
            with suppress(OSError):  # The file remembers it, for whoever has written to it.
                self._flush(file, file.descriptor)
        finally:
            self._give_back(file)
        return True

    def _flush(self, file: _File, descriptor: Handle) -> None:
        with file.changing:
            file.check()
            writes = file.writes
            if file.flushed == writes:
                return  # By who was here before.
            try:
                self._files.fsync(descriptor)
                file.flushed = writes
            except OSError as error:
                file.failure = error
                raise
            finally:
                with self._lock:
                    self._place(file)

    def _shut(self, file: _File) -> None:
        """Close what is open, which nobody uses. Under the lock."""
        file.move_to(None)
        if file.descriptor is not None:
            descriptor, file.descriptor = file.descriptor, None
            self.open_count -= 1
            self._files.close(descriptor)
