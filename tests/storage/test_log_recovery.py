"""Opening a log after a stop: what is believed, what is cut, what is rebuilt."""

from __future__ import annotations

import random

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState
from replica.ids import Epoch, Offset
from replica.storage import CorruptLogError, StorageError
from replica.storage.files import OpenMode
from tests.depth import seeds
from tests.storage.disks import (
    BATCH_BYTES,
    EPOCHS,
    FIRST_SEGMENT,
    LOG_PATH,
    RECOVERY_POINTS,
    SECOND_SEGMENT,
    SMALL,
    append,
    batch,
    close,
    entries,
    flip,
    flushed_log,
    formatted,
    held,
    open_log,
    reopen_log,
)


def test_a_clean_stop_is_believed(files: SimulatedFiles) -> None:
    """After a clean stop the log opens as it was closed, without a full scan and without a write to it."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=3)
    append(log, count=9, epoch=4)
    log.store_epochs(entries((1, 0), (4, 3)))
    close(directory, log)
    files.crash()
    flip(files, FIRST_SEGMENT, 70)
    files.calls.clear()
    log, recovered = reopen_log(files, SMALL)
    assert (recovered.log_end_offset, recovered.epochs) == (12, entries((1, 0), (4, 3)))
    assert files.calls == ["unlink .kafka_cleanshutdown", "fsync_directory data"]
    with pytest.raises(StorageError, match=f"{FIRST_SEGMENT} at byte 0 "):
        log.read(Offset(0), Offset(1), 1)


def test_a_clean_stop_stores_the_end_as_recovery_point(files: SimulatedFiles) -> None:
    """The marker goes with a recovery point at the log's end: nothing of a cleanly closed log may be cut later."""
    directory, log, _ = open_log(files)
    append(log, count=3)
    close(directory, log)
    files.crash()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 3\n"


@pytest.mark.parametrize("count", [0, 1, 5, 6, 10, 11])
def test_reopen_after_a_clean_stop(files: SimulatedFiles, count: int) -> None:
    """Whatever the length, an empty log and a just filled segment included, all batches are there again."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=count)
    close(directory, log)
    directory, log, recovered = open_log(files, SMALL)
    assert recovered.log_end_offset == count
    append(log, count=3, epoch=2)
    assert [found.base_offset for found in held(log)] == list(range(count + 3))


def test_reopen_with_an_empty_last_segment() -> None:
    """A truncation to a segment's base leaves it empty; the log ends there after either kind of stop."""
    for clean in (True, False):
        files = formatted()
        directory, log, _ = open_log(files, SMALL)
        append(log, count=12)
        log.store_epochs(entries((1, 0)))
        log.truncate(Offset(int(SECOND_SEGMENT.stem)))
        if clean:
            close(directory, log)
        files.crash()
        log, recovered = reopen_log(files, SMALL)
        assert recovered.log_end_offset == int(SECOND_SEGMENT.stem)
        assert recovered.epochs == entries((1, 0))
        append(log, count=2)
        assert len(held(log)) == int(SECOND_SEGMENT.stem) + 2


def test_a_cleanly_closed_log_of_an_epoch_that_was_never_stored_is_refused(files: SimulatedFiles) -> None:
    """An epoch is stored before its first batch is appended: a batch of another one has rotted."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=3)
    append(log, count=9, epoch=4)
    log.store_epochs(entries((1, 0)))
    close(directory, log)
    with pytest.raises(CorruptLogError, match=r"\(offset 3\) holds a batch of epoch 4 that was written in epoch 1"):
        open_log(files, SMALL)


def test_recovery_cuts_the_torn_tail_at_every_byte() -> None:
    """Whatever part of the last, unflushed batch reached the disk, the log ends before it, durably."""
    whole = flushed_log(4, recovery_point=3).content(FIRST_SEGMENT)
    for size in range(3 * BATCH_BYTES, 4 * BATCH_BYTES):
        files = flushed_log(4, recovery_point=3)
        files.overwrite(FIRST_SEGMENT, whole[:size])
        assert reopen_log(files, SMALL)[1].log_end_offset == 3
        files.crash()
        assert files.content(FIRST_SEGMENT) == whole[: 3 * BATCH_BYTES]


def test_recovery_cuts_a_flipped_tail_at_every_byte() -> None:
    """A flip anywhere in the last, unflushed batch ends the log before it, or leaves what was written."""
    whole = flushed_log(4, recovery_point=3).content(FIRST_SEGMENT)
    for position in range(3 * BATCH_BYTES, 4 * BATCH_BYTES):
        files = flushed_log(4, recovery_point=3)
        flip(files, FIRST_SEGMENT, position)
        log, recovered = reopen_log(files, SMALL)
        # Bytes 12 to 15 are the leader epoch: a higher one is in order, and nothing else on disk can contradict it.
        in_epoch = 12 <= position - 3 * BATCH_BYTES < 16
        assert recovered.log_end_offset == (4 if in_epoch else 3)
        assert log.read(Offset(0), Offset(3), 1 << 20) == whole[: 3 * BATCH_BYTES]


def test_recovery_cuts_a_tail_of_zeros() -> None:
    """A file that grew without its data, as file systems leave it, is cut where the data ends."""
    files = flushed_log(4, recovery_point=4)
    files.overwrite(FIRST_SEGMENT, files.content(FIRST_SEGMENT) + bytes(5000))
    assert reopen_log(files, SMALL)[1].log_end_offset == 4


def test_recovery_drops_the_segments_behind_the_cut() -> None:
    """Segments behind a bad batch are deleted with their indexes, durably, and their data does not come back."""
    files = flushed_log(20, recovery_point=3)
    for leftover in ("00000000000000000099.index", "00000000000000000099.timeindex", "quorum-state.tmp"):
        files.close(files.open(LOG_PATH / leftover, OpenMode.CREATE))
    flip(files, FIRST_SEGMENT, 4 * BATCH_BYTES + 30)
    log, recovered = reopen_log(files, SMALL)
    assert recovered.log_end_offset == 4
    append(log, count=1, epoch=2)
    log.flush()
    files.crash()
    log, recovered = reopen_log(files, SMALL)
    assert [(found.base_offset, found.leader_epoch) for found in held(log)][-1] == (4, 2)
    assert list(files.names(LOG_PATH)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "quorum-state",
        "quorum-voters",
    ]


def test_recovery_cuts_at_a_missing_segment_above_the_recovery_point() -> None:
    """A hole between segments above the recovery point, as lost names leave it, ends the log before it."""
    files = flushed_log(20, recovery_point=3)
    files.remove(SECOND_SEGMENT)
    assert reopen_log(files, SMALL)[1].log_end_offset == int(SECOND_SEGMENT.stem)


def test_log_recovers_to_correct_offset() -> None:
    """After a crash with everything flushed, the log has every offset, and a clean reopen agrees."""
    files = flushed_log(20)
    directory, log, recovered = open_log(files, SMALL)
    assert recovered.log_end_offset == 20
    close(directory, log)
    assert reopen_log(files, SMALL)[1].log_end_offset == 20


@pytest.mark.parametrize("seed", seeds(25))
def test_corrupt_log(seed: int) -> None:
    """Random damage to the unflushed tail leaves a valid prefix that holds everything below the recovery point."""
    chance = random.Random(seed)
    recovery_point = chance.randint(0, 20)
    files = flushed_log(20, recovery_point=recovery_point)
    before = held(reopen_log(files, SMALL)[0])
    files = flushed_log(20, recovery_point=recovery_point)
    base_offsets = sorted(int(name[-24:-4]) for name in files.tree() if name.endswith(".log"))
    base_offset = max(base for base in base_offsets if base <= recovery_point)
    path = LOG_PATH / f"{base_offset:020d}.log"
    content = files.content(path)
    intact = (recovery_point - base_offset) * BATCH_BYTES
    size = chance.randint(intact, len(content))
    files.overwrite(path, content[:size] + chance.randbytes(chance.randint(0, 200)))
    log, recovered = reopen_log(files, SMALL)
    assert recovered.log_end_offset >= recovery_point
    assert held(log) == before[: recovered.log_end_offset]


def test_an_epoch_out_of_order_is_damage(files: SimulatedFiles) -> None:
    """A batch whose epoch is below its predecessor's is taken for damage: epochs never fall in a log."""
    _, log, _ = open_log(files)
    append(log, count=2, epoch=5)
    log.append([batch(2, epoch=4)])
    log.flush()
    files.crash()
    assert reopen_log(files)[1].log_end_offset == 2


def test_log_recovers_for_leader_epoch(files: SimulatedFiles) -> None:
    """Entries that the epoch file lost are re-assigned from the batches after an unclean stop."""
    _, log, _ = open_log(files)
    for offset, epoch in enumerate((1, 2, 2, 3)):
        log.append([batch(offset, epoch=epoch)])
    log.flush()
    log.store_epochs(entries((1, 0)))
    files.crash()
    expected = entries((1, 0), (2, 1), (3, 3))
    assert reopen_log(files)[1].epochs == expected
    files.crash()
    assert files.content(EPOCHS) == b"0\n3\n1 0\n2 1\n3 3\n"


def test_epochs_beyond_the_recovered_end_are_dropped(files: SimulatedFiles) -> None:
    """An epoch whose batches were lost in the crash is not in the cache that is reported."""
    _, log, _ = open_log(files)
    append(log, count=2)
    log.flush()
    log.store_epochs(entries((1, 0), (2, 2)))
    append(log, count=1, epoch=2)
    files.crash()
    assert reopen_log(files)[1].epochs == entries((1, 0))


def test_a_stale_epoch_above_the_recovery_point_is_dropped() -> None:
    """An entry that the surviving batches belie goes: there the file may be ahead of what a crash has left."""
    files = flushed_log(10, recovery_point=5)
    files.overwrite(EPOCHS, b"0\n2\n1 0\n2 5\n")
    assert reopen_log(files, SMALL)[1].epochs == entries((1, 0))


def test_an_empty_epoch_at_the_end_is_dropped_after_a_clean_stop(files: SimulatedFiles) -> None:
    """On load the cache is cut to the log, a clean stop included."""
    directory, log, _ = open_log(files)
    append(log, count=2)
    log.store_epochs(entries((1, 0), (2, 2)))
    close(directory, log)
    assert reopen_log(files)[1].epochs == entries((1, 0))
    assert files.content(EPOCHS) == b"0\n1\n1 0\n"


def test_recovered_quorum_state_is_the_stored_one(files: SimulatedFiles) -> None:
    """The state comes back with the log."""
    _, log, _ = open_log(files)
    log.store_quorum_state(QuorumState(leader_epoch=Epoch(4)))
    files.crash()
    assert reopen_log(files)[1].quorum_state == QuorumState(leader_epoch=Epoch(4))


def test_reopen_then_truncate(files: SimulatedFiles) -> None:
    """A reopened log of 100 records truncates to 3, and stays so."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=100)
    close(directory, log)
    log, _ = reopen_log(files, SMALL)
    log.truncate(Offset(3))
    files.crash()
    log, recovered = reopen_log(files, SMALL)
    assert recovered.log_end_offset == 3
    assert len(held(log)) == 3


def test_what_recovery_reports_is_on_the_platter(files: SimulatedFiles) -> None:
    """Batches found only in the page cache are synced before they are reported: a second crash keeps them."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=12)
    # A killed process loses nothing of the page cache, so the successor sees batches that were never flushed.
    log.close(clean=False)
    directory.close(clean=False)
    assert reopen_log(files, SMALL)[1].log_end_offset == 12
    files.crash()
    assert reopen_log(files, SMALL)[1].log_end_offset == 12


def test_what_recovery_reports_may_not_be_cut_later() -> None:
    """Recovery moves the recovery point to the end that it reports."""
    files = flushed_log(5, recovery_point=0)
    reopen_log(files, SMALL)
    files.crash()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 5\n"


def test_offset_index_with_a_flipped_bit_is_rebuilt() -> None:
    """Behind a clean stop as well: it is derived, and the log that it leads into is as sound as before."""
    files = formatted()
    directory, log, _ = open_log(files, SMALL)
    append(log, count=12)
    log.store_epochs(entries((1, 0)))
    close(directory, log)
    index = FIRST_SEGMENT.with_suffix(".index")
    right, segment = files.content(index), files.content(FIRST_SEGMENT)
    assert len(right) >= 16
    for position in range(len(right)):
        flip(files, index, position)
        directory, log, recovered = open_log(files, SMALL)
        assert recovered.log_end_offset == 12
        count = len(segment) // BATCH_BYTES
        assert b"".join(log.read(Offset(at), Offset(at + 1), 1) for at in range(count)) == segment
        close(directory, log)
        assert files.content(index) == right
