"""What an open log does when the disk fails: one failure, and nothing after it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState
from replica.ids import Epoch, Offset
from replica.storage import OutOfDescriptorsError, StorageError
from tests.storage.disks import (
    SMALL,
    append,
    close,
    failing,
    formatted,
    held,
    open_log,
    reopen_log,
)
from tests.storage.partitions import create_partition


def test_a_failed_fsync_is_never_retried(files: SimulatedFiles) -> None:
    """After one failed fsync every call raises the same failure, and no fsync is asked for again."""
    directory, log, _ = open_log(files)
    append(log)
    files.fault = failing("fsync")
    with pytest.raises(StorageError, match="cannot flush log /data/log-0: input/output error"):
        log.flush()
    files.fault = None
    files.calls.clear()
    state = QuorumState(leader_epoch=Epoch(2))
    for call in (
        log.flush,
        lambda: append(log),
        lambda: log.truncate(Offset(0)),
        lambda: log.read(Offset(0), Offset(1), 1),
        lambda: log.store_epochs([]),
        lambda: log.store_quorum_state(state),
        log.note_recovery_point,
        lambda: log.close(clean=True),
    ):
        with pytest.raises(StorageError, match="cannot flush log /data/log-0: input/output error"):
            call()
    directory.close(clean=True)
    assert files.calls == []
    assert log.flushed_end_offset == 0


def test_a_short_write_stops_the_store(files: SimulatedFiles) -> None:
    """A partial write is a failure; what it left behind is cut at the next start."""
    _, log, _ = open_log(files)
    append(log, count=3)
    log.flush()
    files.short_writes = True
    with pytest.raises(StorageError, match=r"cannot append to log .* bytes were written"):
        append(log)
    files.short_writes = False
    with pytest.raises(StorageError, match="cannot append to log"):
        log.flush()
    log.close(clean=False)
    files.crash()
    assert reopen_log(files)[1].log_end_offset == 3


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename", "fsync_directory"])
def test_a_failed_state_file_stops_the_store(files: SimulatedFiles, call: str) -> None:
    """A vote or an epoch that could not be stored is an error, and the store refuses to go on."""
    _, log, _ = open_log(files)
    files.fault = failing(call)
    with pytest.raises(StorageError, match="cannot store the quorum state"):
        log.store_quorum_state(QuorumState(leader_epoch=Epoch(2)))
    files.fault = None
    with pytest.raises(StorageError, match="cannot store the quorum state"):
        append(log)


def no_descriptor(call: str, _: Path) -> OSError | None:
    """A fault of ``SimulatedFiles``: nothing can be read."""
    return OSError(errno.EMFILE, "Too many open files") if call == "pread" else None


def test_a_read_for_which_there_is_no_descriptor_is_no_failure() -> None:
    """It fails, also in the log of a partition; the log is as good as before, and the next read is served."""
    quorum_log, partition = formatted(), formatted()
    for files, log in ((quorum_log, open_log(quorum_log, SMALL)[1]), (partition, create_partition(partition)[1])):
        append(log, count=3)
        files.fault = no_descriptor
        with pytest.raises(OutOfDescriptorsError, match="Too many open files"):
            log.read(Offset(0), Offset(3), 1 << 20)
        files.fault = None
        append(log)
        assert log.flush() == 4
        assert len(held(log)) == 4


def test_a_closed_store_refuses_everything(files: SimulatedFiles) -> None:
    """After a close every call says so; a second close does nothing."""
    directory, log, _ = open_log(files)
    close(directory, log)
    close(directory, log)
    with pytest.raises(StorageError, match="it is closed"):
        append(log)
