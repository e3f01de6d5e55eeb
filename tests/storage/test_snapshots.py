"""Snapshots of a quorum log: kept beside it, taken in its place, and what a start finds of them."""

from __future__ import annotations

import threading

import pytest

from replica.core.effects import DropSnapshots, InstallSnapshot, RaiseLogStart, ReplyWithSnapshot
from replica.core.messages import FetchSnapshotResponse
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, SnapshotId
from replica.storage import Answer, CorruptCheckpointError, CorruptLogError, LogTable, StorageError, open_directory
from replica.storage.files import OpenMode, atomic_write
from replica.storage.snapshots import checkpoint_name
from tests.storage.disks import DATA, EPOCHS, LOG, LOG_PATH, SMALL, append, close, entries, failing, held, open_log
from tests.storage.partitions import PARTITION_PATH, filled_partition, open_partition
from tests.storage.snapshots import END, NEWER, OLD, content_of, filled_log, opened, reopened, store, stored

BEYOND = SnapshotId(Offset(40), Epoch(7))


def test_snapshots_are_found_again_oldest_first() -> None:
    """After a crash and after a clean stop a log has its snapshots, and the content of the newest at hand."""
    files, _, log = filled_log()
    store(log, NEWER)
    log, recovered = reopened(files)
    assert (recovered.snapshots, recovered.snapshot) == (stored(OLD, NEWER), content_of(NEWER))
    assert (recovered.log_start_offset, recovered.log_end_offset) == (0, END)
    files.crash()
    directory, log, _ = open_log(files, SMALL)
    close(directory, log)
    assert opened(files)[1].snapshots == stored(OLD, NEWER)


def test_the_file_names_are_kafkas() -> None:
    """End offset in twenty digits, epoch in ten."""
    files, _, _ = filled_log()
    assert "00000000000000000004-0000000001.checkpoint" in files.names(LOG_PATH)


def test_a_piece_of_a_snapshot_is_read() -> None:
    """From a position on, at most so many bytes, and nothing at the end."""
    _, _, log = filled_log()
    whole = content_of(OLD)
    assert log.read_snapshot(OLD, 5, 7) == whole[5:12]
    assert log.read_snapshot(OLD, len(whole) - 3, 100) == whole[-3:]
    assert log.read_snapshot(OLD, len(whole), 100) == b""


@pytest.mark.parametrize("snapshot_id", [BEYOND, SnapshotId(Offset(8), Epoch(4))])
def test_an_installed_snapshot_takes_the_logs_place(snapshot_id: SnapshotId) -> None:
    """The log begins, empty, at its end, whether it ended below or held other records there, and goes on from there."""
    files, _, log = filled_log()
    log.install_snapshot(snapshot_id, content_of(snapshot_id))
    at = snapshot_id.end_offset
    assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (at, at, at)
    assert files.content(EPOCHS) == b"0\n0\n"
    log, recovered = reopened(files)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.epochs) == (at, at, ())
    assert recovered.snapshots == stored(snapshot_id)
    append(log, count=7, epoch=9)
    log.flush()
    log, recovered = reopened(files)
    assert [(found.base_offset, found.leader_epoch) for found in held(log)] == [(at + more, 9) for more in range(7)]
    assert recovered.epochs == entries((9, at))


def test_a_snapshot_beyond_what_was_flushed_outlives_the_log() -> None:
    """A leader takes a snapshot of what others have flushed; its own power loss costs the records, not the state."""
    files, _, log = filled_log()
    append(log, count=3, epoch=3)
    ahead = SnapshotId(Offset(END + 2), Epoch(3))
    store(log, ahead)
    log, recovered = reopened(files)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (END + 2, END + 2)
    assert recovered.snapshots == stored(ahead)


def test_a_clean_stop_is_not_believed_against_a_snapshot() -> None:
    """A snapshot of what the log does not hold begins it anew, also where the log was closed in good order."""
    files, directory, log = filled_log()
    close(directory, log)
    atomic_write(files, LOG_PATH / checkpoint_name(BEYOND), content_of(BEYOND))
    _, recovered = opened(files)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (40, 40)
    assert recovered.snapshots == stored(BEYOND)


def test_flushed_records_that_are_gone_are_not_forgiven_for_a_snapshot() -> None:
    """Damage below the recovery point is refused as ever, whatever a snapshot contains."""
    files, _, log = filled_log()
    append(log, count=3, epoch=3)
    store(log, SnapshotId(Offset(END + 2), Epoch(3)))
    files.crash()
    for name in files.names(LOG_PATH):
        if name.endswith(".log"):
            files.overwrite(LOG_PATH / name, b"")
    before = files.tree()
    with pytest.raises(CorruptLogError, match=f"everything below offset {END} was flushed"):
        opened(files)
    assert files.tree() == before


def test_the_log_start_may_rise_to_a_snapshot_only() -> None:
    """A log that begins above 0, by its checkpoint or its first segment, is refused without a snapshot just there."""
    for installed in (False, True):
        files, _, log = filled_log(log_start=0 if installed else 4)
        if installed:
            log.install_snapshot(BEYOND, content_of(BEYOND))
        files.crash()
        newest = max(name for name in files.names(LOG_PATH) if name.endswith(".checkpoint"))
        files.remove(LOG_PATH / newest)
        before = files.tree()
        start = 40 if installed else 4
        with pytest.raises(CorruptLogError, match=f"the log starts at offset {start}, and no snapshot ends there"):
            opened(files)
        assert files.tree() == before


def test_snapshots_below_the_log_start_are_leftovers() -> None:
    """What was to be dropped when the power went is removed by the next start, and nothing else."""
    files, _, log = filled_log()
    store(log, NEWER)
    log.raise_log_start(Offset(8))
    log, recovered = reopened(files)
    assert (recovered.log_start_offset, recovered.snapshots) == (8, stored(NEWER))


def test_a_temporary_file_is_a_leftover() -> None:
    """A snapshot that was not written to its end was never there."""
    files, _, log = filled_log()
    files.fault = failing("rename", ".checkpoint")
    with pytest.raises(StorageError, match="cannot store a snapshot of log /data/log-0"):
        store(log, NEWER)
    assert any(name.endswith(".checkpoint.tmp") for name in files.names(LOG_PATH))
    log.close(clean=False)
    files.crash()
    assert opened(files)[1].snapshots == stored(OLD)


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename", "fsync_directory"])
def test_a_log_that_could_not_store_a_snapshot_has_failed(call: str) -> None:
    """After that nothing on the disk is trusted."""
    files, _, log = filled_log()
    files.fault = failing(call)
    with pytest.raises(StorageError):
        store(log, NEWER)
    files.fault = None
    with pytest.raises(StorageError, match="cannot store a snapshot"):
        log.flush()


def test_a_snapshot_comes_too_late_for_a_log_that_is_closed_or_beyond_it() -> None:
    """Nothing is written where nobody would read it."""
    files, directory, log = filled_log()
    log.install_snapshot(BEYOND, content_of(BEYOND))
    before = files.tree()
    store(log, NEWER)
    assert files.tree() == before
    close(directory, log)
    before = files.tree()
    store(log, SnapshotId(Offset(41), Epoch(7)))
    assert files.tree() == before
    assert opened(files)[1].snapshots == stored(BEYOND)


def test_a_snapshot_needs_the_vote_beside_it() -> None:
    """A log with a snapshot and no record has voted as well: without its quorum-state it is refused."""
    files, _, log = filled_log()
    log.install_snapshot(BEYOND, content_of(BEYOND))
    files.crash()
    files.remove(LOG_PATH / "quorum-state")
    with pytest.raises(CorruptCheckpointError, match="quorum-state"):
        opened(files)


def test_a_partition_has_no_snapshots() -> None:
    """A file of such a name in its folder is nothing to it."""
    files, _, _ = filled_partition()
    files.crash()
    files.open(PARTITION_PATH / "00000000000000000004-0000000001.checkpoint", OpenMode.CREATE)
    _, _, recovered = open_partition(files)
    assert (recovered.snapshots, recovered.snapshot) == ((), b"")


def test_an_installation_waits_for_the_snapshot_that_is_being_stored() -> None:
    """One snapshot of a log is written at a time, so that what is left behind is the newest alone."""
    files, _, log = filled_log()
    installing = threading.Thread(target=log.install_snapshot, args=(BEYOND, content_of(BEYOND)))
    ends: list[Offset] = []

    def while_storing() -> None:
        files.before_fsync = None
        installing.start()
        installing.join(0.05)
        ends.append(log.log_end_offset)

    files.before_fsync = while_storing
    store(log, NEWER)
    installing.join(10)
    assert (ends, log.log_end_offset) == ([END], 40)
    assert reopened(files)[1].snapshots == stored(BEYOND)


def test_the_table_performs_the_effects() -> None:
    """RaiseLogStart, DropSnapshots, InstallSnapshot and the answer with a piece of a snapshot reach their log."""
    files, _, log = filled_log()
    store(log, NEWER)
    files.crash()
    table = LogTable.open(open_directory(DATA, files=files), (LOG,), config=SMALL)
    assert table.recovered[LOG].snapshot == content_of(NEWER)
    table.forget_snapshots()
    assert (table.recovered[LOG].snapshot, table.recovered[LOG].snapshots) == (b"", stored(OLD, NEWER))
    table.perform(RaiseLogStart(topic_partition=LOG, log_start_offset=Offset(8)))
    table.perform(DropSnapshots(topic_partition=LOG, end_offset=Offset(8)))
    assert [name for name in files.names(LOG_PATH) if name.startswith(f"{4:020d}-")] == []
    reply = ReplyWithSnapshot(
        call_id=CallId(1),
        response=FetchSnapshotResponse(error=ErrorCode.NONE, snapshot_id=NEWER, size_bytes=9, position=3),
        topic_partition=LOG,
        snapshot_id=NEWER,
        position=3,
        max_bytes=4,
    )
    assert table.perform(reply) == Answer(response=reply.response.with_data(content_of(NEWER)[3:7]))
    table.perform(InstallSnapshot(topic_partition=LOG, snapshot_id=BEYOND, data=content_of(BEYOND)))
    table.close_clean()
    assert opened(files)[1].snapshots == stored(BEYOND)
