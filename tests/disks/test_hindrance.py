"""A disk that is hindered refuses or tarries as it is told, while it is told so."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from nemesis.disks.account import read_account
from nemesis.disks.files import FLUSH_S_MIN, AccountedFiles
from nemesis.disks.hindrance import NOTHING, Hindrance, tell, together
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.power import disk_of
from nemesis.faults.disks import CALLS as CALLS_OF_FAULTS
from replica.storage.files import Handle, OpenMode


class Rig:
    """Files of which one is open, whose sleep takes no time."""

    def __init__(self, folder: Path) -> None:
        self.place: DiskPlace = place_in(folder)
        self.place.data.mkdir()
        self.slept_s: list[float] = []
        self.files = AccountedFiles(self.place, self.slept_s.append)
        self.path = self.place.data / "log"
        self.handle: Handle = self.files.open(self.path, OpenMode.CREATE)
        self.files.pwrite(self.handle, b"content", 0)

    def tell(self, hindrance: Hindrance) -> None:
        """Hinder the disk."""
        tell(self.place.hindrance, hindrance)


CALLS: dict[str, Callable[[Rig], object]] = {
    "pwrite": lambda rig: rig.files.pwrite(rig.handle, b"more", 7),
    "pread": lambda rig: rig.files.pread(rig.handle, 7, 0),
    "fsync": lambda rig: rig.files.fsync(rig.handle),
    "fsync_directory": lambda rig: rig.files.fsync_directory(rig.place.data),
    "ftruncate": lambda rig: rig.files.ftruncate(rig.handle, 2),
    "rename": lambda rig: rig.files.rename(rig.path, rig.place.data / "other"),
    "unlink": lambda rig: rig.files.unlink(rig.path),
    "mkdir": lambda rig: rig.files.mkdir(rig.place.data / "folder"),
    "create": lambda rig: rig.files.open(rig.place.data / "new", OpenMode.CREATE),
}


def test_every_call_that_can_fail_is_known() -> None:
    """No schedule can ask for the failure of a call that this disk would never let fail."""
    assert set(CALLS_OF_FAULTS) == set(CALLS)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A disk that nothing hinders."""
    return Rig(tmp_path)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_fails_while_it_is_to_fail(rig: Rig, call: str) -> None:
    """That kind of call alone, with an input/output error, changing nothing; and works again when it is healed."""
    rig.tell(Hindrance(failing=(call,)))

    with pytest.raises(OSError, match="Input/output") as failed:
        CALLS[call](rig)

    assert failed.value.errno == errno.EIO
    assert rig.path.read_bytes() == b"content"
    assert disk_of(read_account(rig.place.account)).tree() == {"/log": b"content"}
    for other in {"pread", "fsync"} - {call}:
        CALLS[other](rig)
    rig.tell(NOTHING)
    CALLS[call](rig)


def test_a_full_disk_refuses_what_takes_space(rig: Rig) -> None:
    """Longer files and new names; what lies within a file, what is read, flushed, cut and removed is let through."""
    rig.tell(Hindrance(is_full=True))

    for call in (
        CALLS["pwrite"],
        CALLS["mkdir"],
        lambda rig: rig.files.open(rig.place.data / "new", OpenMode.ENSURE),
    ):
        with pytest.raises(OSError, match="No space left") as refused:
            call(rig)
        assert refused.value.errno == errno.ENOSPC
    rig.files.pwrite(rig.handle, b"CON", 0)
    rig.files.open(rig.path, OpenMode.READ)
    for name in ("pread", "fsync", "ftruncate", "rename"):
        CALLS[name](rig)

    rig.tell(NOTHING)
    CALLS["pwrite"](rig)


def test_a_slow_disk_takes_its_time_to_flush(rig: Rig) -> None:
    """A flush takes so many times as long, and at least of the shortest that a flush is taken to last."""
    rig.tell(Hindrance(slow_factor=30))
    CALLS["fsync"](rig)
    CALLS["fsync_directory"](rig)
    CALLS["pwrite"](rig)
    rig.tell(NOTHING)
    CALLS["fsync"](rig)

    assert len(rig.slept_s) == 2
    assert all(slept_s >= 29 * FLUSH_S_MIN for slept_s in rig.slept_s)


def test_hindrances_add_up() -> None:
    """Who is told of several obeys all of them."""
    several = (Hindrance(is_full=True), Hindrance(failing=("fsync",), slow_factor=5), Hindrance(failing=("pread",)))

    assert together(several) == Hindrance(is_full=True, slow_factor=5, failing=("fsync", "pread"))
    assert together(()) == NOTHING
