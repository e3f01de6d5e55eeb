"""Files that stand still at a named point when they are ordered to, and are the operating system's files else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from nemesis.faults.crash_points import ORDER_NAME, CrashPoint, Order, give_order, reached, take_back
from nemesis.variants.standstill import StandingFiles
from replica.storage.files import OpenMode, atomic_write

PATIENCE_S = 20.0
WORK = """
import sys
from pathlib import Path
from nemesis.variants.standstill import StandingFiles
from replica.storage.files import OpenMode
files = StandingFiles(Path(sys.argv[1]))
handle = files.open(Path(sys.argv[2]), OpenMode.CREATE)
for position in range(10):
    files.pwrite(handle, b"x", position)
print("never comes here")
"""


class StoodStillError(Exception):
    """Stands for the end of the process."""


class Disk:
    """A folder with a log and files that end a test where they would end a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.order_path = folder / ORDER_NAME
        self.files = StandingFiles(self.order_path, self._stand_still)
        self.log = self.files.open(folder / "00000000000000000000.log", OpenMode.CREATE)
        self.end = 0

    def _stand_still(self) -> None:
        raise StoodStillError

    @property
    def content(self) -> bytes:
        return (self.folder / "00000000000000000000.log").read_bytes()

    def append(self) -> None:
        self.end += self.files.pwrite(self.log, b"x", self.end)

    def write(self, name: str) -> None:
        atomic_write(self.files, self.folder / name, b"new")


def test_before_an_append_nothing_is_written_and_after_it_all_is(tmp_path: Path) -> None:
    """Around an append the file is without and with its bytes."""
    disk = Disk(tmp_path)
    for point, content in ((CrashPoint.BEFORE_APPEND, b"x"), (CrashPoint.AFTER_APPEND, b"xx")):
        disk.end = len(disk.content)
        if not disk.end:
            disk.append()
        give_order(disk.order_path, Order(point=point))
        with pytest.raises(StoodStillError):
            disk.append()
        assert disk.content == content
        assert reached(disk.order_path).exists()
        assert not disk.order_path.exists()


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_FLUSH, CrashPoint.AFTER_FLUSH])
def test_a_flush_of_a_log_is_a_point(tmp_path: Path, point: CrashPoint) -> None:
    """A log's flush is one, an append or another file's flush is not."""
    disk = Disk(tmp_path)
    give_order(disk.order_path, Order(point=point))
    disk.append()
    disk.write("leader-epoch-checkpoint")

    with pytest.raises(StoodStillError):
        disk.files.fsync(disk.log)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "00000000000000000007-0000000001.checkpoint",
            CrashPoint.BEFORE_SNAPSHOT_RENAME,
            CrashPoint.AFTER_SNAPSHOT_RENAME,
        ),
        ("quorum-state", CrashPoint.BEFORE_QUORUM_STATE, CrashPoint.AFTER_QUORUM_STATE),
    ],
)
def test_a_name_is_there_after_the_point_and_not_before(
    tmp_path: Path, name: str, before: CrashPoint, after: CrashPoint
) -> None:
    """Snapshots and votes have a point on both sides of the moment in which they come to count."""
    disk = Disk(tmp_path)
    for point, exists in ((before, False), (after, True)):
        give_order(disk.order_path, Order(point=point))
        disk.write("leader-epoch-checkpoint")
        with pytest.raises(StoodStillError):
            disk.write(name)
        assert (tmp_path / name).exists() is exists


def test_the_nth_time_counts_from_the_order(tmp_path: Path) -> None:
    """What was done before an order does not count, and each order is counted anew."""
    disk = Disk(tmp_path)
    disk.append()
    for expected in (3, 5):
        give_order(disk.order_path, Order(point=CrashPoint.AFTER_APPEND, nth=2))
        disk.append()
        with pytest.raises(StoodStillError):
            disk.append()
        disk.end = len(disk.content)
        assert disk.end == expected


def test_an_order_that_is_taken_back_is_none(tmp_path: Path) -> None:
    """Nothing happens any more, and the order was not carried out."""
    disk = Disk(tmp_path)
    give_order(disk.order_path, Order(point=CrashPoint.AFTER_APPEND, nth=2))
    disk.append()
    take_back(disk.order_path)
    for _ in range(3):
        disk.append()

    assert not reached(disk.order_path).exists()


def test_a_process_stands_still_for_good(tmp_path: Path) -> None:
    """At its point the process is stopped, has done what comes before and nothing after, and SIGCONT does not help."""
    order_path, log = tmp_path / ORDER_NAME, tmp_path / "0.log"
    give_order(order_path, Order(point=CrashPoint.AFTER_APPEND, nth=3))
    with subprocess.Popen([sys.executable, "-c", WORK, order_path, log], stdout=subprocess.PIPE) as process:
        try:
            watched = psutil.Process(process.pid)
            for _ in range(2):
                wait_stopped(watched)
                assert log.read_bytes() == b"xxx"
                assert reached(order_path).exists()
                watched.resume()
            wait_stopped(watched)
            assert log.read_bytes() == b"xxx"
        finally:
            process.kill()


def wait_stopped(process: psutil.Process) -> None:
    """Wait until a process is stopped by a signal."""
    event = threading.Event()
    end_s = time.monotonic() + PATIENCE_S
    while process.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < end_s, process.status()
        event.wait(0.01)
