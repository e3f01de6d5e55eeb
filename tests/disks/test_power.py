"""A power loss takes back what was not flushed, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from nemesis.disks.files import AccountedFiles
from nemesis.disks.hindrance import Hindrance, tell
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.power import lose_power
from replica.storage.files import Handle, OpenMode, atomic_write

DRAWS = range(30)


class AllOrNothing(Random):
    """Dice by which nothing survives that may be lost."""

    def random(self) -> float:
        return 1.0


NOTHING = AllOrNothing()


@pytest.fixture
def place(tmp_path: Path) -> DiskPlace:
    """An empty data directory."""
    place = place_in(tmp_path)
    place.data.mkdir()
    return place


def flushed(files: AccountedFiles, path: Path, content: bytes) -> Handle:
    """An open file whose content and name are durable."""
    handle = files.open(path, OpenMode.CREATE)
    files.pwrite(handle, content, 0)
    files.fsync(handle)
    files.fsync_directory(path.parent)
    return handle


def test_what_was_flushed_is_kept_and_what_was_not_is_lost(place: DiskPlace) -> None:
    """Bytes behind the last flush are gone, bytes in the flushed part are what they were."""
    files = AccountedFiles(place)
    handle = flushed(files, place.data / "log", b"flushed")
    files.pwrite(handle, b"FL", 0)
    files.pwrite(handle, b" and more", 7)

    assert lose_power(place, NOTHING)

    assert (place.data / "log").read_bytes() == b"flushed"


def test_any_part_may_survive(place: DiskPlace) -> None:
    """By other dice other parts of what was not flushed are left, torn writes among them, and never anything else."""
    found = set()
    for draw in DRAWS:
        path = place.data / str(draw)
        files = AccountedFiles(place)
        handle = flushed(files, path, b"")
        files.pwrite(handle, b"abcd", 0)
        files.pwrite(handle, b"efgh", 4)
        lose_power(place, Random(draw))
        found.add(path.read_bytes())

    assert b"" in found
    assert any(content not in (b"", b"abcd", b"abcdefgh") for content in found)
    assert len(found) > 4
    assert all(byte in (expected, 0) for content in found for byte, expected in zip(content, b"abcdefgh", strict=False))


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        (lambda files, data: files.rename(data / "a", data / "b"), {"a"}, {"b"}),
        (lambda files, data: files.unlink(data / "a"), {"a"}, set()),
        (lambda files, data: files.mkdir(data / "c"), {"a"}, {"a", "c"}),
        (lambda files, data: files.close(files.open(data / "d", OpenMode.CREATE)), {"a"}, {"a", "d"}),
    ],
    ids=["rename", "unlink", "mkdir", "create"],
)
def test_names_last_once_their_directory_is_flushed(
    place: DiskPlace,
    change: Callable[[AccountedFiles, Path], None],
    before: set[str],
    after: set[str],
    is_flushed: bool,
) -> None:
    """Without that, they are what they were."""
    files = AccountedFiles(place)
    flushed(files, place.data / "a", b"")
    change(files, place.data)
    if is_flushed:
        files.fsync_directory(place.data)

    lose_power(place, NOTHING)

    assert {path.name for path in place.data.iterdir()} == (after if is_flushed else before)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_file_that_is_replaced_is_the_old_or_the_new_one(place: DiskPlace, draw: int) -> None:
    """The storage's own way to write a small file survives, and once it is over the new one does."""
    files = AccountedFiles(place)
    atomic_write(files, place.data / "state", b"old")
    atomic_write(files, place.data / "state", b"new")

    lose_power(place, Random(draw))

    assert (place.data / "state").read_bytes() == b"new"


def test_what_an_earlier_process_did_not_flush_is_lost_too(place: DiskPlace) -> None:
    """A kill flushes nothing: what the killed process wrote is there for the next one, and gone with the power."""
    handle = flushed(AccountedFiles(place), place.data / "log", b"flushed")
    killed = AccountedFiles(place)
    killed.pwrite(killed.open(place.data / "log", OpenMode.READ_WRITE), b" and more", 7)

    AccountedFiles(place)
    assert (place.data / "log").read_bytes() == b"flushed and more"
    lose_power(place, NOTHING)

    assert handle
    assert (place.data / "log").read_bytes() == b"flushed"


def test_what_survived_is_durable(place: DiskPlace) -> None:
    """A second power loss takes nothing of what the first one left."""
    flushed(AccountedFiles(place), place.data / "log", b"flushed")
    lose_power(place, NOTHING)
    AccountedFiles(place)

    assert not lose_power(place, NOTHING)

    assert (place.data / "log").read_bytes() == b"flushed"


def test_a_flush_covers_what_was_written_before_it_began(place: DiskPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A flush begins. 2. A write comes. 3. The flush ends: it says nothing about that write."""
    files = AccountedFiles(place)
    handle = flushed(files, place.data / "log", b"")
    files.pwrite(handle, b"before", 0)
    began, may_end = threading.Event(), threading.Event()

    def slow_fsync(descriptor: int) -> None:
        del descriptor
        began.set()
        assert may_end.wait(10)

    monkeypatch.setattr("os.fsync", slow_fsync)
    flush = threading.Thread(target=files.fsync, args=(handle,))
    flush.start()
    assert began.wait(10)
    files.pwrite(handle, b" after", 6)
    may_end.set()
    flush.join()

    lose_power(place, NOTHING)

    assert (place.data / "log").read_bytes() == b"before"


@pytest.mark.parametrize("call", ["fsync", "fsync_directory"])
def test_a_flush_that_failed_flushes_nothing(place: DiskPlace, call: str) -> None:
    """What was pending when it began is as lost as if it had never been tried."""
    files = AccountedFiles(place)
    handle = flushed(files, place.data / "log", b"flushed")
    files.pwrite(handle, b" and more", 7)
    files.rename(place.data / "log", place.data / "renamed")
    tell(place.hindrance, Hindrance(failing=(call,)))
    with pytest.raises(OSError, match="Input/output"):
        files.fsync(handle) if call == "fsync" else files.fsync_directory(place.data)

    lose_power(place, NOTHING)

    assert (place.data / "log").read_bytes() == b"flushed"


def test_a_disk_without_an_account_loses_nothing(place: DiskPlace) -> None:
    """What was formatted and never run on stays as it is."""
    (place.data / "meta").write_bytes(b"x")

    assert not lose_power(place, NOTHING)

    assert (place.data / "meta").read_bytes() == b"x"
