"""Files of which only so many are open: which is closed, when it is flushed for that, and what nobody notices."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.records import decode_records
from replica.storage import OS_FILES, Files, LogStore, format_directory, open_directory
from replica.storage.bounded_files import OPEN_MAX_LEAST, PATIENCE_S, BoundedFiles
from replica.storage.files import Handle, OpenMode
from replica.voters import VoterSet
from tests.storage.disks import DATA, SMALL, append, failing, formatted, held

FOLDER = Path("/folder")
NAMES = tuple(f"f{number}" for number in range(OPEN_MAX_LEAST))
MORE = "more"


class JournalFiles(SimulatedFiles):
    """Files in memory that write down what is opened, flushed and closed, and may have no descriptor left."""

    def __init__(self, descriptors: int = 1000) -> None:
        super().__init__()
        self.mkdir(FOLDER)
        self.descriptors = descriptors
        self.journal: list[str] = []
        self.during_pread: Callable[[], None] = lambda: None
        self._open_names: dict[Handle, str] = {}

    def crash(self, chance: Random | None = None) -> None:
        super().crash(chance)
        self._open_names.clear()

    @property
    def open_names(self) -> set[str]:
        return set(self._open_names.values())

    def open(self, path: Path, mode: OpenMode) -> Handle:
        self._need_descriptor()
        handle = super().open(path, mode)
        self._open_names[handle] = path.name
        self.journal.append(f"open {path.name} {mode}")
        return handle

    def close(self, handle: Handle) -> None:
        super().close(handle)
        self.journal.append(f"close {self._open_names.pop(handle)}")

    def names(self, directory: Path) -> tuple[str, ...]:
        self._need_descriptor()
        return super().names(directory)

    def fsync_directory(self, path: Path) -> None:
        self._need_descriptor()
        super().fsync_directory(path)

    def _need_descriptor(self) -> None:
        if len(self._open_names) >= self.descriptors:
            raise OSError(errno.EMFILE, "Too many open files")

    def fsync(self, handle: Handle) -> None:
        self.journal.append(f"fsync {self._open_names[handle]}")
        super().fsync(handle)

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        self.during_pread()
        return super().pread(handle, size, position)


class Rig:
    """As many open files as there may be, each with its own name in it, and what is done to them."""

    def __init__(self, *, flush: bool = True) -> None:
        self.disk = JournalFiles()
        self.slept_s = 0.0
        self.files = BoundedFiles(self.disk, open_max=OPEN_MAX_LEAST, sleep=self.sleep)
        self.handles = {name: self.create(name) for name in NAMES}
        for handle in self.handles.values() if flush else ():
            self.files.fsync(handle)
        self.disk.journal.clear()

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def create(self, name: str) -> Handle:
        handle = self.files.open(FOLDER / name, OpenMode.CREATE)
        self.files.pwrite(handle, name.encode(), 0)
        return handle

    def read(self, name: str) -> str:
        return self.files.pread(self.handles[name], 100, 0).decode()


def test_no_more_than_the_bound_are_open() -> None:
    """However many are read, in whatever order, each is as it was written; a second close of a handle does nothing."""
    rig = Rig()
    names = [f"g{number}" for number in range(50)]
    rig.handles |= {name: rig.create(name) for name in names}
    for name in [*names, *NAMES, *reversed(names)]:
        assert rig.read(name) == name
        assert len(rig.disk.open_names) == rig.files.open_count == OPEN_MAX_LEAST
    for handle in (*rig.handles.values(), *rig.handles.values()):
        rig.files.close(handle)
    assert (rig.disk.open_names, rig.files.open_count) == (set(), 0)


def test_the_least_recently_used_is_closed() -> None:
    """What was just read stays; the next one is opened again without being emptied, and may be written to."""
    rig = Rig()
    rig.read(NAMES[0])
    rig.create(MORE)
    assert rig.disk.journal == [f"close {NAMES[1]}", f"open {MORE} create"]
    rig.disk.journal.clear()
    rig.files.pwrite(rig.handles[NAMES[1]], b"!", len(NAMES[1]))
    assert rig.disk.journal == [f"close {NAMES[2]}", f"open {NAMES[1]} read_write"]
    assert rig.read(NAMES[1]) == f"{NAMES[1]}!"


def test_what_is_unflushed_stays_open() -> None:
    """As long as another one can be closed, however recently that was used."""
    rig = Rig()
    for name in NAMES[1:]:
        rig.files.pwrite(rig.handles[name], b"!", 0)
    rig.read(NAMES[0])
    rig.create(MORE)
    assert rig.disk.journal == [f"close {NAMES[0]}", f"open {MORE} create"]


def test_it_is_flushed_before_it_is_closed_where_all_are_unflushed() -> None:
    """The least recently used; its own flush has nothing left to do then, and does not even open it."""
    rig = Rig(flush=False)
    rig.create(MORE)
    assert rig.disk.journal == [f"fsync {NAMES[0]}", f"close {NAMES[0]}", f"open {MORE} create"]
    for path in (FOLDER.parent, FOLDER):
        rig.files.fsync_directory(path)
    rig.disk.crash()
    assert [rig.disk.content(FOLDER / name).decode() for name in NAMES[:2]] == [NAMES[0], ""]


def test_what_was_flushed_to_make_room_need_not_be_flushed_again() -> None:
    """Not even opened; what was found, and was perhaps written by a process before, is flushed when that is asked."""
    rig = Rig(flush=False)
    rig.create(MORE)
    rig.disk.journal.clear()
    rig.files.fsync(rig.handles[NAMES[0]])
    assert rig.disk.journal == []
    found = rig.files.open(FOLDER / NAMES[0], OpenMode.READ_WRITE)
    rig.disk.journal.clear()
    rig.files.fsync(found)
    assert rig.disk.journal == [f"fsync {NAMES[0]}"]


def test_what_is_written_during_a_flush_is_unflushed() -> None:
    """The flush speaks for what was there when it began, and the next one is done."""
    rig = Rig(flush=False)
    handle = rig.handles[NAMES[0]]

    def write() -> None:
        rig.files.pwrite(handle, b"!", 0)

    rig.disk.before_fsync = write
    rig.files.fsync(handle)
    rig.disk.before_fsync = None
    rig.disk.journal.clear()
    rig.files.fsync(handle)
    assert rig.disk.journal == [f"fsync {NAMES[0]}"]


def test_a_flush_that_fails_while_room_is_made_is_told_to_the_writer() -> None:
    """Who needs the room gets another's; the file stays open, refuses writes and flushes, and no fsync is repeated."""
    rig = Rig(flush=False)
    rig.disk.fault = failing("fsync", NAMES[0])
    rig.create(MORE)
    rig.disk.fault = None
    assert NAMES[0] in rig.disk.open_names
    assert NAMES[1] not in rig.disk.open_names
    rig.disk.journal.clear()
    handle = rig.handles[NAMES[0]]
    for call in (
        lambda: rig.files.fsync(handle),
        lambda: rig.files.pwrite(handle, b"!", 0),
        lambda: rig.files.ftruncate(handle, 0),
    ):
        with pytest.raises(OSError, match="input/output error"):
            call()
    assert rig.disk.journal == []
    assert rig.read(NAMES[0]) == NAMES[0]
    rig.files.close(handle)
    assert NAMES[0] not in rig.disk.open_names


def test_what_is_in_use_is_not_closed() -> None:
    """While all are read there is one more; closed by its owner meanwhile, a file goes when the reader is done."""
    rig = Rig()
    reading, may_end = threading.Barrier(OPEN_MAX_LEAST + 1), threading.Event()

    def wait() -> None:
        reading.wait(10)
        may_end.wait(10)

    rig.disk.during_pread = wait
    read: list[str] = []
    threads = [threading.Thread(target=lambda name=name: read.append(rig.read(name))) for name in NAMES]
    for thread in threads:
        thread.start()
    reading.wait(10)
    rig.disk.during_pread = lambda: None
    rig.create(MORE)
    rig.files.close(rig.handles[NAMES[0]])
    assert rig.disk.open_names == {*NAMES, MORE}
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert sorted(read) == list(NAMES)
    assert rig.disk.open_names == {*NAMES[1:], MORE}


def test_a_lock_is_kept() -> None:
    """A file that is locked stays open: closing it would give the lock away."""
    rig = Rig()
    assert rig.files.try_lock(rig.handles[NAMES[0]])
    for number in range(OPEN_MAX_LEAST):
        rig.create(f"g{number}")
    assert NAMES[0] in rig.disk.open_names
    rig.files.close(rig.handles[NAMES[0]])
    assert NAMES[0] not in rig.disk.open_names


def test_where_the_system_has_no_descriptor_one_is_closed() -> None:
    """Others may have taken them: then there is room for fewer, also for what is opened for a moment only."""
    rig = Rig()
    rig.disk.descriptors = OPEN_MAX_LEAST
    rig.files.names(FOLDER)
    assert rig.disk.journal == [f"close {NAMES[0]}"]
    rig.files.fsync_directory(FOLDER)
    rig.create(MORE)
    rig.disk.descriptors = 3
    rig.files.names(FOLDER)
    assert rig.disk.open_names == {NAMES[-1], MORE}
    assert rig.slept_s == 0


def test_it_is_waited_for_a_descriptor_and_not_for_ever() -> None:
    """Where nothing can be closed, somebody else may do it; else the call fails, and says what is missing."""
    disk = JournalFiles(descriptors=0)
    slept_s: list[float] = []
    files = BoundedFiles(disk, open_max=OPEN_MAX_LEAST, sleep=slept_s.append)
    with pytest.raises(OSError, match="Too many open files"):
        files.open(FOLDER / MORE, OpenMode.CREATE)
    assert sum(slept_s) >= PATIENCE_S

    def sleep(_: float) -> None:
        disk.descriptors = 1

    files = BoundedFiles(disk, open_max=OPEN_MAX_LEAST, sleep=sleep)
    files.open(FOLDER / MORE, OpenMode.CREATE)
    assert disk.open_names == {MORE}


def open_logs(files: Files, path: Path) -> list[LogStore]:
    """One log more than there may be open files, opened in a process of its own."""
    directory = open_directory(path, files=BoundedFiles(files, open_max=OPEN_MAX_LEAST))
    names = [TopicPartition("log", number) for number in range(OPEN_MAX_LEAST + 1)]
    logs = [LogStore.open(directory, name, config=SMALL)[0] for name in names]
    for log in logs:
        log.store_quorum_state(QuorumState(leader_epoch=Epoch(1)))
    return logs


def test_logs_of_many_segments_outlive_a_power_loss() -> None:
    """With far more segments than open files everything that is flushed is there, and is read as it was written."""
    disk = JournalFiles()
    formatted(disk)
    logs = open_logs(disk, DATA)
    for _ in range(30):
        for log in logs:
            append(log)
        assert len(disk.open_names) <= OPEN_MAX_LEAST
    assert [log.flush() for log in logs] == [30] * len(logs)
    disk.crash()
    logs = open_logs(disk, DATA)
    assert len(disk.open_names) <= OPEN_MAX_LEAST
    for log in logs:
        assert [found.base_offset for found in held(log)] == list(range(30))


@pytest.mark.slow
def test_threads_append_flush_and_read(tmp_path: Path) -> None:
    """On a real disk, each log by its own thread beside one that flushes all: nobody finds a file closed or another."""
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    logs = open_logs(OS_FILES, tmp_path)
    done = threading.Event()
    flushed = 0

    def flush() -> None:
        nonlocal flushed
        while not done.is_set():
            flushed += sum(log.flush() for log in logs)

    def write(number: int) -> None:
        for offset in range(100):
            append(logs[number], value=b"%d" % number)
            logs[number].read(Offset(offset // 2), Offset(offset + 1), 100)

    with ThreadPoolExecutor(len(logs) + 1) as threads:
        flushing = threads.submit(flush)
        for written in [threads.submit(write, number) for number in range(len(logs))]:
            written.result(60)
        done.set()
        flushing.result(60)
    for number, log in enumerate(logs):
        values = [record.value for found in held(log) for record in decode_records(found)]
        assert values == [b"%d" % number] * 100
        assert log.flush() == 100
        log.close(clean=True)
    assert flushed
