"""Logs that must not be opened: flushed data damaged or missing, state files malformed. Nothing is modified."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.storage import CorruptCheckpointError, CorruptLogError, StorageError, open_directory
from tests.storage.disks import (
    BATCH_BYTES,
    DATA,
    EPOCHS,
    FIRST_SEGMENT,
    LOG_PATH,
    ONE_SEGMENT,
    RECOVERY_POINTS,
    SECOND_SEGMENT,
    SMALL,
    append,
    close,
    entries,
    failing,
    flip,
    flushed_log,
    formatted,
    open_log,
    reopen_log,
)


def assert_refused(files: SimulatedFiles, path: Path, *, position: int, offset: int) -> None:
    """The log is refused with file, byte and offset in the message, and nothing but the lock file changes."""
    before = files.tree()
    with pytest.raises(CorruptLogError, match="can rejoin only as a wiped one") as caught:
        open_log(files, SMALL)
    assert (caught.value.path, caught.value.position, caught.value.offset) == (path, position, offset)
    assert f"{path} at byte {position} (offset {offset})" in str(caught.value)
    assert files.tree() == before


@pytest.mark.parametrize("part", [0, 8, 16, 17, 30, BATCH_BYTES - 1])
def test_damage_below_the_recovery_point_is_refused(part: int) -> None:
    """A flip in flushed data stops the replica with file, byte and offset named, and no file is touched."""
    files = flushed_log(20)
    flip(files, SECOND_SEGMENT, 2 * BATCH_BYTES + part)
    assert_refused(files, SECOND_SEGMENT, position=2 * BATCH_BYTES, offset=int(SECOND_SEGMENT.stem) + 2)


def log_of_epochs(recovery_point: int) -> SimulatedFiles:
    """A disk after a crash, its log of ten flushed batches written in four epochs."""
    files = formatted()
    _, log, _ = open_log(files)
    starts = ((1, 0), (2, 3), (5, 5), (7, 8))
    for number, (epoch, start_offset) in enumerate(starts, start=1):
        log.store_epochs(entries(*starts[:number]))
        end_offset = starts[number][1] if number < len(starts) else 10
        append(log, count=end_offset - start_offset, epoch=epoch)
    log.flush()
    files.crash()
    files.overwrite(RECOVERY_POINTS, f"0\n1\nlog 0 {recovery_point}\n".encode())
    return files


@pytest.mark.parametrize("recovery_point", [7, 8, 10])
def test_no_bit_of_an_epoch_below_the_recovery_point_goes_unnoticed(recovery_point: int) -> None:
    """The checksum leaves the epoch out, and the order of epochs bears many others: what was stored of them does not.

    A log that ends in an epoch that never was would be taken for a newer one than all the others.
    """
    files = log_of_epochs(recovery_point)
    whole = files.content(FIRST_SEGMENT)
    for offset in range(recovery_point):
        for bit in range(32):
            damaged = bytearray(whole)
            damaged[offset * BATCH_BYTES + 12 + bit // 8] ^= 0x80 >> bit % 8
            files.overwrite(FIRST_SEGMENT, bytes(damaged))
            with pytest.raises(CorruptLogError, match=f"below offset {recovery_point} was flushed") as caught:
                open_log(files)
            assert caught.value.offset == offset, bit
            assert files.content(FIRST_SEGMENT) == damaged


def test_an_epoch_at_the_recovery_point_is_what_its_batch_says() -> None:
    """Above it what is stored can be ahead of the log: there the batches are believed, as after any crash."""
    files = log_of_epochs(8)
    files.overwrite(EPOCHS, b"0\n4\n1 0\n2 3\n5 5\n9 8\n")
    assert reopen_log(files)[1].epochs == entries((1, 0), (2, 3), (5, 5), (7, 8))


def test_the_last_batch_below_the_recovery_point_counts() -> None:
    """The recovery point is exclusive: damage in the batch just below it is refused, at it is cut."""
    for recovery_point in (3, 4):
        files = flushed_log(5, recovery_point=recovery_point)
        flip(files, FIRST_SEGMENT, 3 * BATCH_BYTES + 40)
        if recovery_point == 3:
            assert reopen_log(files, SMALL)[1].log_end_offset == 3
        else:
            assert_refused(files, FIRST_SEGMENT, position=3 * BATCH_BYTES, offset=3)


def test_a_log_shorter_than_its_recovery_point_is_refused() -> None:
    """A log that ends too early, however soundly, has lost flushed data."""
    files = flushed_log(4)
    files.overwrite(FIRST_SEGMENT, files.content(FIRST_SEGMENT)[: 3 * BATCH_BYTES])
    assert_refused(files, FIRST_SEGMENT, position=3 * BATCH_BYTES, offset=3)


def test_a_missing_segment_below_the_recovery_point_is_refused() -> None:
    """A hole in flushed data is refused, named by the segment that does not continue the one before."""
    files = flushed_log(20)
    files.remove(SECOND_SEGMENT)
    third = LOG_PATH / f"{2 * int(SECOND_SEGMENT.stem):020d}.log"
    assert_refused(files, third, position=0, offset=int(SECOND_SEGMENT.stem))


@pytest.mark.parametrize("recovery_point", [0, 20])
def test_a_missing_first_segment_is_refused(recovery_point: int) -> None:
    """The first segment is durable before anything is written to it, so no crash explains its absence."""
    files = flushed_log(20, recovery_point=recovery_point)
    files.remove(FIRST_SEGMENT)
    assert_refused(files, SECOND_SEGMENT, position=0, offset=0)


def test_a_missing_log_directory_is_refused() -> None:
    """A log that the recovery points name must be there, or its votes are forgotten."""
    files = flushed_log(3, recovery_point=0)
    files.remove(LOG_PATH)
    assert_refused(files, LOG_PATH, position=0, offset=0)


@pytest.mark.parametrize("content", [b"0\n2\n1 0\n", b"0\n1\nx 0\n", b"", b"0\n1\n1 0"])
def test_a_corrupt_epoch_checkpoint_is_refused(content: bytes) -> None:
    """A malformed epoch file is refused by name, and the log stays as it is."""
    files = flushed_log(3)
    files.overwrite(EPOCHS, content)
    before = files.tree()
    with pytest.raises(CorruptCheckpointError, match=str(EPOCHS)):
        open_log(files, SMALL)
    assert files.tree() == before


def test_a_missing_quorum_state_beside_records_is_refused() -> None:
    """A voter with records has voted or followed; without its quorum state it could vote twice."""
    files = flushed_log(3)
    files.remove(LOG_PATH / "quorum-state")
    before = files.tree()
    with pytest.raises(CorruptCheckpointError, match="quorum-state: the file is missing although"):
        open_log(files, SMALL)
    assert files.tree() == before


def test_a_marker_that_the_files_belie_is_not_believed(files: SimulatedFiles) -> None:
    """A marker beside a log that is not what was closed leads to the full search, and its verdict."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=12)
    close(directory, log)
    last = max(name for name in files.tree() if name.endswith(".log"))
    files.overwrite(Path(last), files.content(Path(last))[:-1])
    with pytest.raises(CorruptLogError, match=f"{last} at byte {BATCH_BYTES} "):
        open_log(files, SMALL)


def test_a_cleanly_closed_log_that_is_shorter_is_refused(files: SimulatedFiles) -> None:
    """A whole batch gone from the end of a cleanly closed log is lost data, however sound the rest is."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=4)
    log.store_epochs(entries((1, 0)))
    close(directory, log)
    files.overwrite(FIRST_SEGMENT, files.content(FIRST_SEGMENT)[: 3 * BATCH_BYTES])
    with pytest.raises(CorruptLogError, match=r"\(offset 3\) ends, but everything below offset 4 was flushed"):
        open_log(files, SMALL)


def test_a_failing_disk_at_start_is_a_storage_error() -> None:
    """A disk that cannot be read or synced during recovery stops the start with the log named."""
    for call in ("pread", "fsync"):
        files = flushed_log(5, recovery_point=0)
        directory = open_directory(DATA, files=files)
        directory.close(clean=False)
        files.fault = failing(call, ".log")
        with pytest.raises(StorageError, match="cannot open log /data/log-0: input/output error"):
            open_log(files, ONE_SEGMENT)
