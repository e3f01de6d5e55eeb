"""What a log must say of its records' times, found by reading all of it, and a disk that counts what is read."""

from __future__ import annotations

from nemesis.disks.simulated_files import SimulatedFiles
from replica.ids import Epoch, Offset
from replica.records import NO_TIMESTAMP, RecordBatch, decode_records, parse_batches
from replica.storage import LogConfig, LogStore
from replica.storage.files import Handle
from tests.storage.disks import held
from tests.storage.partitions import PARTITION_PATH

FAR = Offset(1 << 40)


class CountingFiles(SimulatedFiles):
    """Counts calls and bytes that are read, of whatever file."""

    def __init__(self) -> None:
        super().__init__(remember_calls=False)
        self.preads = 0
        self.read_bytes = 0

    def pread(self, handle: Handle, size: int, position: int) -> bytes:
        data = super().pread(handle, size, position)
        self.preads += 1
        self.read_bytes += len(data)
        return data

    def count_anew(self) -> None:
        """Forget what was read."""
        self.preads = self.read_bytes = 0


def bytes_of_a_search(config: LogConfig, batch_bytes: int) -> int:
    """How much a search may read: an interval and the batch that goes beyond it, in windows of two intervals."""
    return 2 * (2 * config.index_interval_bytes + batch_bytes)


def first_of(log: LogStore, timestamp_ms: int, end_offset: Offset = FAR) -> tuple[Offset, Epoch] | None:
    """What ``offset_for_timestamp`` is to find."""
    for batch in held(log):
        for record in decode_records(batch):
            if log.log_start_offset <= record.offset < end_offset and record.timestamp_ms >= timestamp_ms:
                return record.offset, batch.leader_epoch
    return None


def start_by_age(files: SimulatedFiles, log: LogStore, retention_ms: int, now_ms: int) -> Offset:
    """What ``retention_start`` is to say, with everything committed and no limit by size."""
    start_offset = log.log_start_offset
    names = [name for name in files.names(PARTITION_PATH) if name.endswith(".log")]
    for name in names[:-1]:
        batches = parse_batches(files.content(PARTITION_PATH / name))
        newest_ms = max(batch.max_timestamp_ms for batch in batches)
        if newest_ms == NO_TIMESTAMP or now_ms - newest_ms <= retention_ms:
            break
        start_offset = max(start_offset, batches[-1].end_offset)
    return start_offset


def check_times(files: SimulatedFiles, log: LogStore, timestamps_ms: list[int]) -> None:
    """The log finds what is there, and lets go what is too old, for each of these times and those beside them."""
    for timestamp_ms in timestamps_ms:
        for at_ms in (timestamp_ms - 1, timestamp_ms, timestamp_ms + 1):
            assert log.offset_for_timestamp(at_ms, FAR) == first_of(log, at_ms), f"at {at_ms}"
            assert log.retention_start(FAR, 0, None, at_ms) == start_by_age(files, log, 0, at_ms), f"at {at_ms}"


def batch_times(batches: list[RecordBatch]) -> list[int]:
    """The largest timestamp of each batch, as its header says."""
    return [batch.max_timestamp_ms for batch in batches]
