"""What a process was doing to its disk when it was killed stands in its account, and is finished by the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.disks.account import AccountWriter, Call, Record, read_account
from nemesis.disks.files import AccountedFiles, begin_account, finish_last_call
from nemesis.disks.place import DiskPlace, place_in
from nemesis.disks.power import disk_of
from replica.storage.files import OpenMode


@pytest.fixture
def place(tmp_path: Path) -> DiskPlace:
    """A data directory with a file in a folder, and nothing beside it."""
    place = place_in(tmp_path)
    (place.data / "log").mkdir(parents=True)
    (place.data / "log" / "old").write_bytes(b"old")
    return place


def tell(place: DiskPlace, *records: Record) -> None:
    """Add to the account what a process was about to do when it was killed."""
    writer = AccountWriter(place.account)
    for record in records:
        writer.add(record)
    writer.close()


def on_account(place: DiskPlace) -> dict[str, bytes]:
    """All files by path, as the account says that a process sees them."""
    return disk_of(read_account(place.account)).tree()


def on_disk(place: DiskPlace) -> dict[str, bytes]:
    """The same, as they are."""
    return {f"/{path.relative_to(place.data)}": path.read_bytes() for path in place.data.rglob("*") if path.is_file()}


def test_a_record_is_read_back(place: DiskPlace) -> None:
    """Whatever a record says, bytes included, is what is read."""
    records = [
        Record(call=Call.OPEN, path="log/new", mode="create", number=7),
        Record(call=Call.PWRITE, number=7, position=3, data=bytes(range(256))),
        Record(call=Call.RENAME, path="log/new", target="log/newer"),
        Record(call=Call.FLUSHED, flush=9),
    ]

    tell(place, *records)

    assert list(read_account(place.account)) == records


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_record_that_was_cut_short_is_dropped(place: DiskPlace, cut: int) -> None:
    """Its call was never performed; the account goes on behind the last whole record."""
    tell(place, Record(call=Call.MKDIR, path="a"), Record(call=Call.PWRITE, number=1, data=b"x" * 100))
    with place.account.open("rb+") as file:
        file.truncate(place.account.stat().st_size - cut)

    tell(place, Record(call=Call.MKDIR, path="b"))

    assert [record.path for record in read_account(place.account)] == ["a", "b"]


def test_it_begins_with_what_is_there(place: DiskPlace) -> None:
    """Files and folders that were there before stand in it, all of them durable."""
    begin_account(place)

    disk = disk_of(read_account(place.account))
    disk.crash()

    assert disk.tree() == on_disk(place) == {"/log/old": b"old"}
    assert disk.folders() == (Path("/log"),)


def test_the_account_says_what_the_directory_holds(place: DiskPlace) -> None:
    """After every kind of call, also by handles of files that were renamed, both are the same."""
    files = AccountedFiles(place)
    handle = files.open(place.data / "log" / "new", OpenMode.CREATE)
    files.pwrite(handle, b"0123456789", 0)
    files.rename(place.data / "log", place.data / "log-renamed")
    files.pwrite(handle, b"abc", 8)
    files.ftruncate(handle, 10)
    files.close(handle)
    with pytest.raises(FileNotFoundError):
        files.open(place.data / "nothing", OpenMode.READ)
    files.mkdir(place.data / "other")
    files.unlink(place.data / "log-renamed" / "old")
    files.close(files.open(place.data / "log-renamed" / "new", OpenMode.READ_WRITE))

    assert on_account(place) == on_disk(place) == {"/log-renamed/new": b"01234567ab"}

    again = AccountedFiles(place)
    again.close(again.open(place.data / "log-renamed" / "new", OpenMode.CREATE))

    assert on_account(place) == on_disk(place) == {"/log-renamed/new": b""}


@pytest.mark.parametrize(
    "last",
    [
        Record(call=Call.PWRITE, number=100, position=2, data=b"more"),
        Record(call=Call.FTRUNCATE, number=100, position=1),
        Record(call=Call.MKDIR, path="made"),
        Record(call=Call.RENAME, path="log/old", target="log/renamed"),
        Record(call=Call.UNLINK, path="log/old"),
        Record(call=Call.OPEN, path="log/made", mode="create", number=101),
        Record(call=Call.OPEN, path="log/nothing", mode="read", number=101),
        Record(call=Call.RENAME, path="log/nothing", target="log/renamed"),
    ],
    ids=lambda record: f"{record.call}-{record.path}",
)
@pytest.mark.parametrize("was_done", [False, True])
def test_the_last_call_is_finished(place: DiskPlace, last: Record, was_done: bool) -> None:
    """Whether or not a kill came before it was performed, the next process finds what the account says."""
    begin_account(place)
    tell(place, Record(call=Call.OPEN, path="log/old", mode="read_write", number=100), last)
    if was_done:
        finish_last_call(place)

    AccountedFiles(place)

    assert on_account(place) == on_disk(place)


def test_a_last_write_is_finished_where_its_file_is_now(place: DiskPlace) -> None:
    """A file that was opened under one name may be written to under another, in another folder."""
    begin_account(place)
    tell(
        place,
        Record(call=Call.OPEN, path="log/old", mode="read_write", number=100),
        Record(call=Call.RENAME, path="log", target="renamed"),
        Record(call=Call.PWRITE, number=100, position=3, data=b" and more"),
    )
    (place.data / "log").rename(place.data / "renamed")

    AccountedFiles(place)

    assert on_account(place) == on_disk(place) == {"/renamed/old": b"old and more"}
