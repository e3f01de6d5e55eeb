"""Small builders for the tests of partitions' logs: create, open, and batches with times and producers."""

from __future__ import annotations

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.log.recovered import RecoveredLog
from replica.ids import Offset, TopicId, TopicPartition
from replica.records import Record, RecordBatch, encode_batch, parse_batches
from replica.storage import DataDirectory, LogConfig, LogStore, open_directory
from tests.storage.disks import DATA, SMALL, append, close, entries, formatted

PARTITION = TopicPartition("my-topic", 3)
PARTITION_PATH = DATA / "my-topic-3"
METADATA = PARTITION_PATH / "partition.metadata"
TOPIC_ID = TopicId(17)
LOG_STARTS = DATA / "log-start-offset-checkpoint"
HIGH_WATERMARKS = DATA / "replication-offset-checkpoint"


def create_partition(
    files: SimulatedFiles, config: LogConfig = SMALL, *, topic_id: TopicId = TOPIC_ID
) -> tuple[DataDirectory, LogStore]:
    """Open the directory and create the partition's log in it."""
    directory = open_directory(DATA, files=files)
    directory.create_log(PARTITION, topic_id)
    log, _ = LogStore.open(directory, PARTITION, config=config)
    return directory, log


def open_partition(files: SimulatedFiles, config: LogConfig = SMALL) -> tuple[DataDirectory, LogStore, RecoveredLog]:
    """Open the directory and the partition's log."""
    directory = open_directory(DATA, files=files)
    return directory, *LogStore.open(directory, PARTITION, config=config)


def filled_partition(count: int = 12, *, config: LogConfig = SMALL) -> tuple[SimulatedFiles, DataDirectory, LogStore]:
    """A disk with a partition of ``count`` flushed batches of one record, in segments that begin at 0, 5, 10 ..."""
    files = formatted()
    directory, log = create_partition(files, config)
    append(log, count=count)
    log.store_epochs(entries((1, 0)))
    log.flush()
    log.note_recovery_point()
    directory.store_checkpoints()
    return files, directory, log


def reopened(files: SimulatedFiles, directory: DataDirectory, log: LogStore) -> tuple[LogStore, RecoveredLog]:
    """Stop cleanly and open again."""
    close(directory, log)
    _, log, recovered = open_partition(files)
    return log, recovered


def crashed(files: SimulatedFiles) -> tuple[LogStore, RecoveredLog]:
    """Lose the power and open again."""
    files.crash()
    _, log, recovered = open_partition(files)
    return log, recovered


def segment_bases(files: SimulatedFiles) -> list[int]:
    """Where the partition's segments begin."""
    return [int(name[:-4]) for name in files.names(PARTITION_PATH) if name.endswith(".log")]


def stored(files: SimulatedFiles) -> list[RecordBatch]:
    """All batches in the partition's segments, also those of the first one that lie below the log start."""
    names = [name for name in files.names(PARTITION_PATH) if name.endswith(".log")]
    return [found for name in names for found in parse_batches(files.content(PARTITION_PATH / name))]


def timed(base_offset: int, *timestamps_ms: int, epoch: int = 1) -> RecordBatch:
    """A batch with a record at each of these times."""
    records = [
        Record(offset=Offset(base_offset + at), timestamp_ms=timestamp_ms, key=None, value=b"value")
        for at, timestamp_ms in enumerate(timestamps_ms)
    ]
    return encode_batch(records, base_offset=base_offset, leader_epoch=epoch)


def produced(
    base_offset: int, *, producer_id: int, sequence: int, producer_epoch: int = 0, count: int = 1
) -> RecordBatch:
    """A batch of an idempotent producer."""
    return encode_batch(
        [b"value"] * count,
        base_offset=base_offset,
        leader_epoch=1,
        timestamp_ms=1000 + base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )
