"""What retention and a search by time read of a log: next to nothing, and what they say is what a full scan says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import Append, CreateLog, StoreEpochs
from replica.ids import Offset
from replica.records import Compression, Record, RecordBatch, encode_batch
from replica.storage import DataDirectory, LogConfig, LogStore, LogTable, open_directory
from tests.depth import seeds
from tests.storage.disks import DATA, append, close, entries, flip, formatted, held, write
from tests.storage.partitions import PARTITION, PARTITION_PATH, TOPIC_ID, create_partition, open_partition, timed
from tests.storage.test_partition_power_loss import interrupted, opened
from tests.storage.times import FAR, CountingFiles, batch_times, bytes_of_a_search, check_times, first_of

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300, tail_bytes_max=0)
BATCH_BYTES = timed(0, 0).size_bytes


def long_log(segments: int, config: LogConfig = CONFIG) -> tuple[CountingFiles, DataDirectory, LogStore]:
    """A flushed log of so many segments and half a one, its batches a millisecond apart; what was read is forgotten."""
    files = CountingFiles()
    directory, log = create_partition(formatted(files), config)
    log.store_epochs(entries((1, 0)))
    count = (2 * segments + 1) * (config.segment_bytes // BATCH_BYTES) // 2
    log.append([timed(offset, offset) for offset in range(count)])
    log.flush()
    files.count_anew()
    return files, directory, log


def as_it_is(files: CountingFiles, directory: DataDirectory, log: LogStore) -> LogStore:
    """The log that was written."""
    del files, directory
    return log


def after_a_clean_stop(files: CountingFiles, directory: DataDirectory, log: LogStore) -> LogStore:
    """The log as the next process finds it."""
    close(directory, log)
    return open_partition(files, CONFIG)[1]


def after_a_power_loss(files: CountingFiles, directory: DataDirectory, log: LogStore) -> LogStore:
    """The log as recovery leaves it."""
    del directory, log
    files.crash()
    return open_partition(files, CONFIG)[1]


def without_its_time_indexes(files: CountingFiles, directory: DataDirectory, log: LogStore) -> LogStore:
    """A log that was written before there were any."""
    close(directory, log)
    for name in files.names(PARTITION_PATH):
        if name.endswith(".timeindex"):
            files.remove(PARTITION_PATH / name)
    return open_partition(files, CONFIG)[1]


Opening = Callable[[CountingFiles, DataDirectory, LogStore], LogStore]
openings = pytest.mark.parametrize(
    "opening", [as_it_is, after_a_clean_stop, after_a_power_loss, without_its_time_indexes]
)


@openings
@pytest.mark.parametrize("segments", [2, 20, 80])
def test_retention_reads_nothing(opening: Opening, segments: int) -> None:
    """Whatever was open or asked before: how old a segment is, is known."""
    files, directory, log = long_log(segments)
    log = opening(files, directory, log)
    files.count_anew()
    assert log.retention_start(FAR, 0, None, log.log_end_offset) > 0
    assert log.retention_start(FAR, 1 << 40, None, log.log_end_offset) == 0
    assert (files.preads, files.read_bytes) == (0, 0)


@openings
@pytest.mark.parametrize("segments", [2, 20, 80])
def test_a_search_by_time_reads_an_interval(opening: Opening, segments: int) -> None:
    """However long the log is, right after a start and each time again; nothing, where all is older."""
    files, directory, log = long_log(segments)
    log = opening(files, directory, log)
    end = log.log_end_offset
    for timestamp_ms in [*range(0, end, max(1, end // 50)), end - 1] * 2:
        files.count_anew()
        assert log.offset_for_timestamp(timestamp_ms, FAR) == (timestamp_ms, 1)
        assert files.preads <= 3
        assert files.read_bytes <= bytes_of_a_search(CONFIG, BATCH_BYTES)
    files.count_anew()
    assert log.offset_for_timestamp(end, FAR) is None
    assert files.preads == 0


def test_opening_a_log_that_was_closed_cleanly_reads_no_more_for_its_times() -> None:
    """Of the batches, the last interval of each segment is read, as before."""
    files, directory, log = long_log(20)
    close(directory, log)
    files.count_anew()
    open_partition(files, CONFIG)
    of_batches = 21 * (CONFIG.index_interval_bytes + BATCH_BYTES)
    of_indexes = sum(len(content) for path, content in files.tree().items() if path.endswith("index"))
    of_others = 1000
    assert files.read_bytes <= of_batches + of_indexes + of_others


def test_a_time_index_is_no_larger_than_the_offset_index() -> None:
    """Eight bytes an entry, and six before them."""
    files, directory, log = long_log(3)
    close(directory, log)
    sizes = {path: len(content) for path, content in files.tree().items() if path.endswith("index")}
    for path, size in sizes.items():
        if path.endswith(".timeindex"):
            assert size == sizes[path.replace(".timeindex", ".index")] + 6 > 6


def test_a_deleted_record_of_the_future_makes_no_search_long() -> None:
    """1. A client sends a record of the future, which is allowed. 2. A segment full of others follows.

    3. It deletes the first one. 4. It asks, again and again, for a time before that.
    """
    config = LogConfig(segment_bytes=30_000, index_interval_bytes=300, tail_bytes_max=0)
    files = CountingFiles()
    _, log = create_partition(formatted(files), config)
    log.append([timed(0, 5000), *(timed(offset, offset) for offset in range(1, 700))])
    log.raise_log_start(Offset(1))
    for timestamp_ms in (0, 100, 399, 650, 699, 700, 4000):
        expected = first_of(log, timestamp_ms)
        files.count_anew()
        assert log.offset_for_timestamp(timestamp_ms, FAR) == expected
        # The first batch that is still there may share its interval with the one that is not.
        assert files.read_bytes <= 2 * bytes_of_a_search(config, BATCH_BYTES)


def test_times_that_fall_make_no_search_long() -> None:
    """The newest record stands first: everything behind is passed over, unread."""
    files = CountingFiles()
    _, log = create_partition(formatted(files), CONFIG)
    log.append([timed(offset, 10_000 - offset if offset != 900 else 20_000) for offset in range(1000)])
    for timestamp_ms, expected in ((9_000, 0), (10_000, 0), (10_001, 900), (20_000, 900)):
        files.count_anew()
        assert log.offset_for_timestamp(timestamp_ms, FAR) == (expected, 1)
        assert files.read_bytes <= bytes_of_a_search(CONFIG, BATCH_BYTES)


# --- as a full scan says ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Machine:
    """A log to which random things happen."""

    chance: random.Random
    config: LogConfig
    files: SimulatedFiles
    directory: DataDirectory
    log: LogStore
    clock_ms: int = 1000

    def act(self) -> None:
        """Let one thing happen."""
        acts = [self.append] * 6 + [self.truncate, self.raise_log_start, self.restart, self.restart, self.lose_power]
        self.chance.choice([*acts, self.log.flush, self.start_at])()

    def append(self) -> None:
        """Add some batches, of clients whose clocks differ, or of none."""
        for _ in range(self.chance.randint(1, 12)):
            write(self.log, [self.batch(self.log.log_end_offset)])

    def batch(self, base_offset: int) -> RecordBatch:
        """Up to four records, compressed or not, with times of a client, of a leader, or without."""
        self.clock_ms += self.chance.randint(0, 20)
        times = [self.time() for _ in range(self.chance.randint(1, 4))]
        records = [
            Record(offset=Offset(base_offset + at), timestamp_ms=time_ms, key=None, value=b"v" * 20)
            for at, time_ms in enumerate(times)
        ]
        compression = self.chance.choice([Compression.NONE, Compression.NONE, Compression.ZSTD])
        found = encode_batch(records, base_offset=base_offset, leader_epoch=1, compression=compression)
        return found.at_append_time(self.clock_ms) if self.chance.random() < 0.2 else found

    def time(self) -> int:
        chance = self.chance.random()
        if chance < 0.1:
            return -1
        if chance < 0.15:
            return self.clock_ms + 1000
        return self.clock_ms - self.chance.randint(0, 60)

    def truncate(self) -> None:
        """Cut the log where one of its batches begins."""
        batches = held(self.log)
        if batches:
            self.log.truncate(Offset(max(self.chance.choice(batches).base_offset, self.log.log_start_offset)))

    def raise_log_start(self) -> None:
        """Delete records, mostly few."""
        held_count = self.log.log_end_offset - self.log.log_start_offset
        count = self.chance.randint(0, held_count if self.chance.random() < 0.2 else held_count // 4)
        self.log.raise_log_start(Offset(self.log.log_start_offset + count))

    def start_at(self) -> None:
        """Begin anew, behind what there was."""
        self.log.start_at(Offset(self.log.log_end_offset + self.chance.randint(0, 5)))

    def restart(self) -> None:
        """Stop cleanly; perhaps an index is lost or damaged before the next start, or another interval is set."""
        close(self.directory, self.log)
        names = [name for name in self.files.names(PARTITION_PATH) if name.endswith("index")]
        if names and self.chance.random() < 0.5:
            path = PARTITION_PATH / self.chance.choice(names)
            if path.suffix == ".index" or self.chance.random() < 0.5:
                self.files.remove(path)
            else:
                flip(self.files, path, self.chance.randrange(len(self.files.content(path))))
        if self.chance.random() < 0.3:
            self.config = random_config(self.chance)
        self.open()

    def lose_power(self) -> None:
        """Lose what is not flushed, or a random part of it."""
        self.log.flush()
        self.append()
        self.files.crash(self.chance if self.chance.random() < 0.5 else None)
        self.open()

    def open(self) -> None:
        """Find the log as the next process does."""
        self.directory, self.log, _ = open_partition(self.files, self.config)

    def check(self) -> None:
        """Ask for some times, above all such as there are."""
        batches = held(self.log)
        sample = self.chance.sample(batch_times(batches), min(4, len(batches)))
        check_times(self.files, self.log, [0, *sample, self.clock_ms + 2000])
        end_offset = Offset(self.chance.randint(0, self.log.log_end_offset))
        for timestamp_ms in sample:
            assert self.log.offset_for_timestamp(timestamp_ms, end_offset) == first_of(
                self.log, timestamp_ms, end_offset
            )


def random_config(chance: random.Random) -> LogConfig:
    """Small segments, which have few intervals or many."""
    return LogConfig(
        segment_bytes=chance.randint(300, 3000), index_interval_bytes=chance.randint(1, 800), tail_bytes_max=0
    )


@pytest.mark.parametrize("seed", seeds(8))
def test_times_are_those_of_a_full_scan(seed: int) -> None:
    """Whatever has happened to a log, a search and retention say what reading all of it says."""
    chance = random.Random(seed)
    config, files = random_config(chance), formatted()
    machine = Machine(chance, config, files, *create_partition(files, config))
    for _ in range(40):
        machine.act()
        machine.check()


def test_records_before_1970_have_a_time(files: SimulatedFiles) -> None:
    """Timestamps below that of a record without one are timestamps."""
    directory, log = create_partition(files, CONFIG)
    write(log, [timed(offset, -100_000 + offset) for offset in range(60)])
    for _ in range(2):
        assert log.offset_for_timestamp(-99_990, FAR) == (10, 1)
        assert log.retention_start(FAR, 1, None, 0) > 0
        close(directory, log)
        directory, log, _ = open_partition(files, CONFIG)


def test_a_clean_stop_cut_short_leaves_right_times() -> None:
    """Wherever the power goes while indexes are stored, what the next start says of times is right."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files = formatted()
        directory, log = create_partition(files, CONFIG)
        write(log, [timed(offset, 1000 + offset) for offset in range(50)])
        log.flush()
        log.truncate(Offset(47))
        write(log, [timed(offset, 500 - offset) for offset in range(47, 90)])

        def stop() -> None:
            log.close(clean=True)
            directory.close(clean=True)

        return files, stop

    for outcome in interrupted(prepare):
        log, _ = opened(outcome)
        check_times(outcome.files, log, [450, 460, 1010, 1046, 1049])


def test_a_new_log_has_its_times(files: SimulatedFiles) -> None:
    """Of a log that is in memory until its first record comes, the indexes are stored as of any other."""
    table = LogTable.open(open_directory(DATA, files=files), (), config=CONFIG)
    table.perform(CreateLog(topic_partition=PARTITION, topic_id=TOPIC_ID))
    assert table.stores[PARTITION].offset_for_timestamp(0, FAR) is None
    table.perform(StoreEpochs(topic_partition=PARTITION, entries=entries((1, 0))))
    batches = tuple(timed(offset, 1000 + offset) for offset in range(50))
    table.perform(Append(topic_partition=PARTITION, batches=batches))
    check_times(files, table.stores[PARTITION], [1000, 1020, 1049])
    table.close_clean()
    check_times(files, open_partition(files, CONFIG)[1], [1000, 1020, 1049])


def test_time_indexes_go_with_their_segments() -> None:
    """With those that are deleted, into the trash; with those that are cut off, or that begin anew, at once."""
    files, directory, log = long_log(6)
    close(directory, log)
    _, log, _ = open_partition(files, CONFIG)

    def bases(suffix: str) -> list[str]:
        return [name[:20] for name in files.names(PARTITION_PATH) if name.endswith(suffix)]

    assert bases(".timeindex") == bases(".log")
    first, second, *_, last = bases(".log")
    log.raise_log_start(Offset(int(second)))
    assert bases(".timeindex.deleted") == [first]
    log.truncate(Offset(int(last) - 1))
    assert last not in bases(".timeindex") == bases(".log")
    log.start_at(Offset(5000))
    assert bases(".timeindex") == []
    append(log, count=1)
