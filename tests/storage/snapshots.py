"""A quorum log with snapshots on the forgetful disk: builders for the tests of them."""

from __future__ import annotations

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.log.recovered import RecoveredLog, StoredSnapshot
from replica.ids import Epoch, Offset, SnapshotId
from replica.storage import DataDirectory, LogStore
from tests.storage.disks import LOG_PATH, SMALL, append, entries, formatted, held, open_log

OLD = SnapshotId(Offset(4), Epoch(1))
NEWER = SnapshotId(Offset(8), Epoch(3))
END = 12


def content_of(snapshot_id: SnapshotId) -> bytes:
    """What the snapshot of this id holds."""
    return f"all below {snapshot_id.end_offset}, ".encode() * 20


def stored(*snapshot_ids: SnapshotId) -> tuple[StoredSnapshot, ...]:
    """These snapshots, as storage speaks of them."""
    return tuple(StoredSnapshot(id=found, size_bytes=len(content_of(found))) for found in snapshot_ids)


def store(log: LogStore, snapshot_id: SnapshotId) -> None:
    """Store the snapshot of this id."""
    log.store_snapshot(snapshot_id, content_of(snapshot_id))


def filled_log(*, log_start: int = 0) -> tuple[SimulatedFiles, DataDirectory, LogStore]:
    """Twelve flushed records, the first six of epoch 1 and the others of epoch 3, and a snapshot of four."""
    files = formatted()
    directory, log, _ = open_log(files, SMALL)
    append(log, count=6, epoch=1)
    append(log, count=END - 6, epoch=3)
    log.flush()
    log.store_epochs(entries((1, 0), (3, 6)))
    log.note_recovery_point()
    directory.store_checkpoints()
    store(log, OLD)
    log.raise_log_start(Offset(log_start))
    if log_start:
        log.store_epochs(entries((1, log_start), (3, 6)))
    return files, directory, log


def reopened(files: SimulatedFiles) -> tuple[LogStore, RecoveredLog]:
    """Lose the power, and open the log again; what recovery says of it is so."""
    files.crash()
    return opened(files)


def opened(files: SimulatedFiles) -> tuple[LogStore, RecoveredLog]:
    """Open the log again after a crash, and see that its parts agree."""
    _, log, recovered = open_log(files, SMALL)
    check_consistent(files, log, recovered)
    return log, recovered


def check_consistent(files: SimulatedFiles, log: LogStore, recovered: RecoveredLog) -> None:
    """Clause I14, whole snapshots only, none beyond the log, and nothing else left in the folder."""
    start, end = recovered.log_start_offset, recovered.log_end_offset
    assert [found.base_offset for found in held(log)] == list(range(start, end))
    assert start == 0 or recovered.snapshots[0].id.end_offset == start
    for snapshot in recovered.snapshots:
        assert start <= snapshot.id.end_offset <= end
        assert log.read_snapshot(snapshot.id, 0, 1 << 20) == content_of(snapshot.id)
        assert snapshot.size_bytes == len(content_of(snapshot.id))
    newest = recovered.snapshots[-1].id if recovered.snapshots else None
    assert recovered.snapshot == (b"" if newest is None else content_of(newest))
    assert not [name for name in files.names(LOG_PATH) if name.endswith(".tmp")]
    kept = {f"{found.id.end_offset:020d}-{found.id.epoch:010d}.checkpoint" for found in recovered.snapshots}
    assert {name for name in files.names(LOG_PATH) if name.endswith(".checkpoint")} == kept
