"""Any history of a partition's log under power losses: what comes back was written, and nothing promised is missing."""

from __future__ import annotations

import pytest

from replica.core.log.recovered import ProducerEntry, RecoveredLog
from replica.core.partition.producer_state import scan
from replica.ids import Epoch, Offset, TopicId
from replica.records import RecordBatch
from replica.storage import DataDirectory, LogConfig, LogStore, open_directory
from tests.depth import seeds
from tests.storage.disks import DATA, batch, close, held, write
from tests.storage.partitions import PARTITION, produced
from tests.storage.power import PoweredLife

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes_max=2000)
ACTS = ("append",) * 6 + (
    *("flush", "flush", "truncate", "raise", "raise", "checkpoint", "start_at", "scan", "expire", "restart"),
)


class PartitionHistory(PoweredLife):
    """Drives one partition at random and remembers what it was told: the model that the disk is compared with.

    ``written`` maps each offset to its batch of one record. ``durable_end`` is what was promised to stay. ``starts``
    holds every place at which the log may begin after a crash. ``sent`` are the batches since the log was begun, also
    those that were deleted: what a replica must know of producers.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, opening=0.4, operations=80)
        self.topic_id = TopicId(0)
        self.epoch = 1
        directory = open_directory(DATA, files=self.files)
        directory.create_log(PARTITION, self.topic_id)
        directory.close(clean=False)
        self.written: dict[int, bytes] = {}
        self.sent: list[RecordBatch] = []
        self.log_start = self.log_end = self.durable_end = 0
        self.lowest_start = 0
        self.anew_at: int | None = None
        self.start()

    def opened(self) -> tuple[DataDirectory, LogStore, RecoveredLog]:
        directory = open_directory(DATA, files=self.files)
        return directory, *LogStore.open(directory, PARTITION, config=CONFIG)

    def act(self) -> None:
        match self.chance.choice(ACTS):
            case "append":
                self.append()
            case "flush":
                self.durable_end = self.log.flush()
            case "truncate":
                self.truncate()
            case "raise":
                self.log_start = self.chance.randint(self.log_start, self.log_end)
                self.log.raise_log_start(Offset(self.log_start))
            case "checkpoint":
                self.log.note_log_start()
                self.lowest_start = self.log_start
                self.log.note_recovery_point()
                self.directory.store_checkpoints()
                self.directory.store_high_watermarks({PARTITION: Offset(self.log_end)})
            case "start_at":
                self.start_at()
            case "scan":
                assert self.log.scan_producers() == self.known(self.log_end)
            case "expire":
                self.directory.delete_expired(0, file_delete_delay_ms=0)
            case _:
                self.restart()

    def append(self) -> None:
        batches = [self.batch(self.log_end + at) for at in range(self.chance.randint(1, 8))]
        for found in batches:
            self.written[found.base_offset] = found.data
        self.sent += batches
        self.log_end += len(batches)
        write(self.log, batches)

    def batch(self, base_offset: int) -> RecordBatch:
        """A batch of one of three producers, or of none; the offset is as good as any for a sequence number."""
        producer_id = self.chance.randint(0, 3)
        if producer_id == 3:
            return batch(base_offset, epoch=self.epoch)
        found = produced(base_offset, producer_id=producer_id, sequence=base_offset)
        return found.stamped(base_offset=found.base_offset, leader_epoch=Epoch(self.epoch))

    def known(self, end: int) -> tuple[ProducerEntry, ...]:
        """What is to be known of producers in a log that ends here."""
        return scan(found for found in self.sent if found.end_offset <= end)

    def truncate(self) -> None:
        end = self.chance.randint(self.log_start, self.log_end)
        self.durable_end = min(self.durable_end, end)
        self.log.truncate(Offset(end))
        self.sent = [found for found in self.sent if found.end_offset <= end]
        if end < self.log_end:
            self.log_end = self.durable_end = end
            self.epoch += 1

    def start_at(self) -> None:
        offset = self.chance.randint(max(0, self.log_start - 6), self.log_end + 12)
        self.durable_end = 0
        self.lowest_start = min(self.lowest_start, offset)
        self.anew_at = offset
        keeps_producers = self.log_start <= offset <= self.log_end and self.chance.random() < 0.5
        self.log.start_at(Offset(offset), keeps_producers=keeps_producers)
        self.sent = [found for found in self.sent if keeps_producers and found.end_offset <= offset]
        self.anew_at = None
        self.log_start = self.log_end = self.durable_end = self.lowest_start = offset
        self.epoch += 1

    def restart(self) -> None:
        close(self.directory, self.log)
        recovered = self.start()
        self.durable_end = self.log_end
        found = (recovered.log_start_offset, recovered.log_end_offset)
        assert found == (self.log_start, self.log_end)
        assert recovered.producers == self.known(self.log_end)
        self.lowest_start = self.log_start

    def check(self, recovered: RecoveredLog) -> None:
        """What came back is a piece of what was written, with all that was promised; from now on it is promised."""
        start, end = recovered.log_start_offset, recovered.log_end_offset
        assert recovered.topic_id == self.topic_id
        assert [found.data for found in held(self.log)] == [self.written[offset] for offset in range(start, end)]
        assert self.lowest_start <= start <= max(self.log_start, self.anew_at or 0)
        assert end >= self.durable_end
        assert recovered.high_watermark is None or start <= recovered.high_watermark <= end
        if start == end and recovered.producers == ():
            self.sent = []  # Begun anew, by the one who was told to, or by recovery.
        assert recovered.producers == self.known(end)
        self.sent = [found for found in self.sent if found.end_offset <= end]
        self.log_start = self.lowest_start = start
        self.log_end = self.durable_end = end
        self.anew_at = None
        self.epoch += 1


@pytest.mark.parametrize("seed", seeds(30))
def test_power_loss_keeps_every_promise_of_a_partition(seed: int) -> None:
    """After any crash the log opens, is a piece of what was written, and holds all that was promised durable."""
    history = PartitionHistory(seed)
    for _ in range(12):
        history.run(steps=40)
