"""Files of a new log, which come to the disk when the first of its records does.

Owns them until then, in memory. As long as nothing was appended nobody relies on the log, and a broker that does not
find it makes it anew from the metadata: a topic of a thousand partitions costs nothing until records come.

::

    in memory --write_out, before the first append--> written --catch_up, before the first flush ends--> durable

Once ``written`` an fsync that is asked for is put off, so that the thread that flushes does them all at once. The next
file that is made waits until all before it is durable. 1. A log has a second segment before its first flush. 2. The
power goes, and leaves the name of that one only. 3. The log would begin there, and be taken to have what lies below.
"""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

from replica.storage.files import Files, Handle, OpenMode, fsync_file, write_fully


class LateFiles:
    """A ``Files`` for one new directory of ``files`` and what is in it. For several threads."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.RLock()
        self._catching_up = threading.Lock()
        self._handles = count(1)
        self._open: dict[Handle, tuple[Path, OpenMode]] = {}
        self._written: dict[Handle, Handle] = {}
        """The real handles of those that are open, once there are files."""
        self._contents: dict[Path, bytearray] = {}
        self._directories: dict[Path, None] = {}
        self._unflushed: dict[Path, None] = {}
        self.is_written = False
        """Whether the files are on the disk."""
        self._is_late = True
        self._is_durable = False

    def write_out(self) -> None:
        """Let there be files, as far as the page cache. May raise OSError."""
        with self._lock:
            if self.is_written:
                return
            for path in self._directories:
                self._files.mkdir(path)
            for path, content in self._contents.items():
                handle = self._files.open(path, OpenMode.CREATE)
                try:
                    write_fully(self._files, handle, bytes(content), 0)
                finally:
                    self._files.close(handle)
            for handle, (path, mode) in self._open.items():
                kept = OpenMode.READ if mode is OpenMode.READ else OpenMode.READ_WRITE
                self._written[handle] = self._files.open(path, kept)
            self.is_written = True
            self._unflushed = dict.fromkeys(self._contents)
            self._directories |= dict.fromkeys(path.parent for path in tuple(self._directories))
            self._contents.clear()

    def catch_up(self) -> None:
        """Let all of it be durable: the files before the directories that name them. May raise OSError."""
        with self._catching_up:
            with self._lock:
                self.write_out()
                self._is_late = False
                unflushed, self._unflushed = self._unflushed, {}
                directories, self._directories = self._directories, {}
            for path in unflushed:
                fsync_file(self._files, path)
            # The innermost first: a name becomes durable when what it stands for is.
            for path in sorted(directories, key=lambda path: -len(path.parts)):
                self._files.fsync_directory(path)
            self._is_durable = True

    # --- Files ------------------------------------------------------------------------------------------------------

    def open(self, path: Path, mode: OpenMode) -> Handle:
        """See ``Files``."""
        if mode is OpenMode.CREATE and self.is_written and not self._is_durable:
            self.catch_up()
        with self._lock:
            handle = Handle(next(self._handles))
            if self.is_written:
                self._written[handle] = self._files.open(path, mode)
            elif mode is OpenMode.CREATE or (mode is OpenMode.ENSURE and path not in self._contents):
                self._contents[path] = bytearray()
            elif path not in self._contents:
                raise FileNotFoundError(f"there is no {path}")
            self._open[handle] = path, mode
            return handle

    def close(self, handle: Handle) -> None:
        """See ``Files``."""
        with self._lock:
            del self._open[handle]
            real = self._written.pop(handle, None)
        if real is not None:
            self._files.close(real)

    def size(self, handle: Handle) -> int:
        """See ``Files``."""
        with self._lock:
            return self._files.size(self._written[handle]) if self.is_written else len(self._content(handle))

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        """See ``Files``."""
        with self._lock:
            if not self.is_written:
                return bytes(self._content(handle)[position : position + size])
        return self._files.pread(self._written[handle], size, position)

    def pwrite(self, handle: Handle, data: bytes, position: int) -> int:
        """See ``Files``."""
        with self._lock:
            if not self.is_written:
                content = self._content(handle)
                content.extend(bytes(max(0, position - len(content))))
                content[position : position + len(data)] = data
                return len(data)
        return self._files.pwrite(self._written[handle], data, position)

    def ftruncate(self, handle: Handle, size: int) -> None:
        """See ``Files``."""
        with self._lock:
            if not self.is_written:
                content = self._content(handle)
                del content[size:]
                content.extend(bytes(size - len(content)))
                return
        self._files.ftruncate(self._written[handle], size)

    def fsync(self, handle: Handle) -> None:
        """See ``Files``."""
        with self._lock:
            if self._is_late:
                self._unflushed[self._open[handle][0]] = None
                return
        self._files.fsync(self._written[handle])

    def fsync_directory(self, path: Path) -> None:
        """See ``Files``."""
        with self._lock:
            if self._is_late:
                if self.is_written:
                    self._directories[path] = None
                return
        self._files.fsync_directory(path)

    def try_lock(self, handle: Handle) -> bool:
        """See ``Files``."""
        raise AssertionError(f"nothing of a log is locked, not even {self._open[handle][0]}")

    def mkdir(self, path: Path) -> None:
        """See ``Files``."""
        with self._lock:
            if self.is_written:
                self._files.mkdir(path)
            self._directories[path] = None

    def rename(self, source: Path, target: Path) -> None:
        """See ``Files``."""
        with self._lock:
            if self.is_written:
                self._files.rename(source, target)
            else:
                self._contents[target] = self._contents.pop(source)
            if self._is_late and source in self._unflushed:
                del self._unflushed[source]
                self._unflushed[target] = None

    def unlink(self, path: Path) -> None:
        """See ``Files``."""
        with self._lock:
            if self.is_written:
                self._files.unlink(path)
            else:
                del self._contents[path]
            self._unflushed.pop(path, None)

    def names(self, directory: Path) -> tuple[str, ...]:
        """See ``Files``."""
        with self._lock:
            if self.is_written:
                return self._files.names(directory)
            return tuple(sorted(path.name for path in self._contents if path.parent == directory))

    def exists(self, path: Path) -> bool:
        """See ``Files``."""
        with self._lock:
            return self._files.exists(path) if self.is_written else path in self._contents or path in self._directories

    def _content(self, handle: Handle) -> bytearray:
        return self._contents[self._open[handle][0]]
