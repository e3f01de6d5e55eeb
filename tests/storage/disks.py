"""Small builders for the storage tests: a formatted disk that can lose its power, batches, and what a log holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.log.recovered import RecoveredLog
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch, encode_batch, parse_batches
from replica.storage import DataDirectory, LogConfig, LogStore, format_directory, open_directory
from replica.storage.tail import BATCH_OVERHEAD_BYTES
from replica.voters import VoterSet

DATA = Path("/data")
DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
LOG = TopicPartition("log", 0)
LOG_PATH = DATA / "log-0"
FIRST_SEGMENT = LOG_PATH / "00000000000000000000.log"
RECOVERY_POINTS = DATA / "recovery-point-offset-checkpoint"
EPOCHS = LOG_PATH / "leader-epoch-checkpoint"

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes_max=0)
"""Segments of a few batches, and every read from the disk."""

ONE_SEGMENT = LogConfig(tail_bytes_max=0)
NOBODY = VoterSet(())


def formatted(
    files: SimulatedFiles | None = None, *, directory_id: str = DIRECTORY_ID, initial_voters: VoterSet = NOBODY
) -> SimulatedFiles:
    """A disk with a formatted data directory, without a vote unless something else is said."""
    files = SimulatedFiles() if files is None else files
    format_directory(
        DATA,
        cluster_id="cluster",
        replica_id=ReplicaId(1),
        directory_id=directory_id,
        initial_voters=initial_voters,
        files=files,
    )
    return files


def open_log(files: SimulatedFiles, config: LogConfig = ONE_SEGMENT) -> tuple[DataDirectory, LogStore, RecoveredLog]:
    """Open the directory and the log in it; a new log gets the quorum state that must precede its first record."""
    directory = open_directory(DATA, files=files)
    try:
        log, recovered = LogStore.open(directory, LOG, config=config)
    except BaseException:
        directory.close(clean=False)
        raise
    if recovered.quorum_state is None:
        log.store_quorum_state(QuorumState(leader_epoch=Epoch(1)))
    return directory, log, recovered


def reopen_log(files: SimulatedFiles, config: LogConfig = ONE_SEGMENT) -> tuple[LogStore, RecoveredLog]:
    """Open the log again after a crash."""
    _, log, recovered = open_log(files, config)
    return log, recovered


def close(directory: DataDirectory, log: LogStore) -> None:
    """A clean stop."""
    log.close(clean=True)
    directory.close(clean=True)


def batch(base_offset: int, *, epoch: int = 1, count: int = 1, value: bytes = b"value") -> RecordBatch:
    """A batch of ``count`` records."""
    return encode_batch([value] * count, base_offset=base_offset, leader_epoch=epoch)


def write(log: LogStore, batches: Sequence[RecordBatch]) -> None:
    """Append as the core does: an epoch is stored before its first batch."""
    epochs = LeaderEpochCache(log.epochs)
    changes = [epochs.assign(found.leader_epoch, found.base_offset) for found in batches]
    if any(changes):
        log.store_epochs(epochs.entries)
    log.append(batches)


def append(log: LogStore, *, count: int = 1, epoch: int = 1, value: bytes = b"value") -> None:
    """Append ``count`` batches of one record, each by its own call."""
    for _ in range(count):
        write(log, [batch(log.log_end_offset, epoch=epoch, value=value)])


def held(log: LogStore) -> list[RecordBatch]:
    """All batches of the log."""
    return list(parse_batches(log.read(log.log_start_offset, log.log_end_offset, 1 << 30)))


def offsets(data: bytes) -> list[Offset]:
    """The base offsets of encoded batches."""
    return [found.base_offset for found in parse_batches(data)]


def failing(call: str, name: str = "") -> Callable[[str, Path], OSError | None]:
    """A fault for ``SimulatedFiles``: this call fails, on files whose name contains ``name``."""

    def fault(this_call: str, path: Path) -> OSError | None:
        return OSError("input/output error") if this_call == call and name in path.name else None

    return fault


def entries(*pairs: tuple[int, int]) -> tuple[EpochEntry, ...]:
    """Epoch entries from ``(epoch, start offset)``."""
    return tuple(EpochEntry(Epoch(epoch), Offset(start_offset)) for epoch, start_offset in pairs)


def flushed_log(count: int, *, recovery_point: int | None = None) -> SimulatedFiles:
    """A disk after a crash, its log of ``count`` flushed batches in small segments; the recovery point as given."""
    files = formatted()
    _, log, _ = open_log(files, SMALL)
    append(log, count=count)
    log.flush()
    log.store_epochs(entries((1, 0)))
    files.crash()
    files.overwrite(RECOVERY_POINTS, f"0\n1\nlog 0 {count if recovery_point is None else recovery_point}\n".encode())
    return files


def flip(files: SimulatedFiles, path: Path, position: int) -> None:
    """Damage one bit of the byte at ``position``, durably."""
    content = bytearray(files.content(path))
    content[position] ^= 0x10
    files.overwrite(path, bytes(content))


BATCH_BYTES = batch(0).size_bytes
"""The size of a batch of one record with the default value."""

SECOND_SEGMENT = LOG_PATH / f"{400 // BATCH_BYTES:020d}.log"

IN_MEMORY = LogConfig(
    segment_bytes=400, index_interval_bytes=100, tail_bytes_max=3 * (BATCH_BYTES + BATCH_OVERHEAD_BYTES)
)
"""Segments of a few batches, and the newest three batches in memory."""
