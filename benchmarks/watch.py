"""Looking at what a piece of work takes: memory and CPU time of this process and all below it, and disk.

Owns the looks, twice a second; what comes and goes between two of them is not seen. Memory that processes share counts
for each of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

EVERY_S = 0.5


class Watch:
    """The peaks, in bytes, of memory (of all processes, of one Python process, of one JVM), and of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.peak = self.peak_python = self.peak_java = self.peak_disk = 0
        self._folder = folder
        self._cpu: dict[int, float] = {}
        self._over = threading.Event()

    def look(self) -> None:
        """Take one look."""
        total = 0
        here = psutil.Process()
        for process in [here, *here.children(recursive=True)]:
            try:
                size, times = process.memory_info().rss, process.cpu_times()
                name = process.name()
            except psutil.NoSuchProcess:
                continue
            self._cpu[process.pid] = times.user + times.system
            total += size
            if "python" in name:
                self.peak_python = max(self.peak_python, size)
            elif name == "java":
                self.peak_java = max(self.peak_java, size)
        self.peak = max(self.peak, total)
        self.peak_disk = max(self.peak_disk, disk_bytes(self._folder))

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes that were seen."""
        return sum(self._cpu.values())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look on meanwhile."""

        def watch() -> None:
            while not self._over.wait(EVERY_S):
                self.look()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self.look()


def disk_bytes(folder: Path) -> int:
    """How much is in the files below a folder, as far as they stay while they are counted."""
    found = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                found += (Path(path) / name).stat().st_size
            except FileNotFoundError:
                continue
    return found
