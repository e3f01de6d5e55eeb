"""What may go by age and size, and which record is the first of a time."""

from __future__ import annotations

from time import process_time

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.ids import Epoch, Offset
from replica.records import Compression, RecordBatch, encode_batch, parse_batches
from replica.records.checksum import checksum
from replica.storage import LogStore, StorageError
from tests.records.odd_batches import bomb
from tests.storage.disks import ONE_SEGMENT, SMALL, append, batch, flip, formatted, open_log
from tests.storage.partitions import (
    PARTITION_PATH,
    crashed,
    create_partition,
    filled_partition,
    reopened,
    timed,
)
from tests.storage.times import FAR


def aged_log() -> LogStore:
    """Segments from 0, 5, 10 and 15 with newest records at 140, 190, 240 and 260; batches of one record."""
    _, log = create_partition(formatted(), SMALL)
    log.append([timed(offset, 100 + 10 * offset) for offset in range(17)])
    return log


@pytest.mark.parametrize(
    ("now_ms", "retention_ms", "expected"),
    [(240, 100, 0), (241, 100, 5), (290, 100, 5), (291, 100, 10), (10_000, 100, 15), (10_000, None, 0), (141, 0, 5)],
)
def test_segments_go_when_their_newest_record_is_too_old(now_ms: int, retention_ms: int | None, expected: int) -> None:
    """A segment is too old when more than the limit has passed since its newest record; the last one stays."""
    assert aged_log().retention_start(FAR, retention_ms, None, now_ms) == expected


@pytest.mark.parametrize(
    ("batches", "expected"), [(0, 15), (2, 15), (3, 10), (7, 10), (8, 5), (12, 5), (13, 0), (99, 0)]
)
def test_segments_go_while_enough_is_left(batches: int, expected: int) -> None:
    """The oldest segments go as long as the rest still holds as many bytes as are to be kept."""
    retention_bytes = batches * timed(0, 100).size_bytes
    assert aged_log().retention_start(FAR, None, retention_bytes, 0) == expected


@pytest.mark.parametrize(("high_watermark", "expected"), [(0, 0), (4, 0), (5, 5), (9, 5), (10, 10), (17, 15)])
def test_cannot_delete_segments_at_or_above_high_watermark(high_watermark: int, expected: int) -> None:
    """A segment may go only when all of it is committed (KAFKA-5634)."""
    assert aged_log().retention_start(Offset(high_watermark), 0, 0, 10_000) == expected


def test_age_and_size_add_up() -> None:
    """What is too old goes first, and the size counts on what is left."""
    log = aged_log()
    size = timed(0, 100).size_bytes
    assert log.retention_start(FAR, 100, 12 * size, 241) == 5
    assert log.retention_start(FAR, 100, 7 * size, 241) == 10


def test_a_young_segment_protects_those_behind_it() -> None:
    """Segments go from the oldest on: one that stays keeps the later ones, however old."""
    _, log = create_partition(formatted(), SMALL)
    log.append([timed(offset, 900 if offset < 5 else 100) for offset in range(12)])
    assert log.retention_start(FAR, 500, None, 1000) == 0
    assert log.retention_start(FAR, 500, 7 * timed(0, 100).size_bytes, 1000) == 5


def test_records_without_a_time_have_no_age() -> None:
    """No timestamp is not the same as a very old one."""
    _, _, log = filled_partition()
    assert log.retention_start(FAR, 0, None, 1 << 50) == 0


def test_retention_counts_from_the_log_start() -> None:
    """What the log does not hold any more is not offered again."""
    log = aged_log()
    log.raise_log_start(Offset(7))
    assert log.retention_start(FAR, 100, None, 241) == 7
    assert log.retention_start(FAR, None, None, 241) == 7


def test_age_is_that_of_the_content_also_after_a_restart(files: SimulatedFiles) -> None:
    """Reopening a log makes nothing younger, and a segment that lost its newest record is as old as what is left."""
    directory, log = create_partition(files)
    log.append([timed(offset, 100 + 10 * offset) for offset in range(17)])
    log.flush()
    assert log.retention_start(FAR, 100, None, 281) == 5
    log.truncate(Offset(9))
    log.append([timed(9, 100), timed(10, 100)])
    assert log.retention_start(FAR, 100, None, 281) == 10
    log, _ = reopened(files, directory, log)
    assert log.retention_start(FAR, 100, None, 280) == 5
    assert crashed(files)[0].retention_start(FAR, 100, None, 281) == 10


# --- the first record of a time ---------------------------------------------------------------------------------------


def timed_log() -> LogStore:
    _, log = create_partition(formatted(), SMALL)
    log.append(
        [
            timed(0, 100, 120, 110),
            timed(3, 90, epoch=2),
            timed(4, 130, 105, epoch=2),
            *(_later(at) for at in range(6, 14)),
        ]
    )
    return log


def _later(offset: int) -> RecordBatch:
    return timed(offset, 200 + offset, epoch=3)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (0, (0, 1)),
        (100, (0, 1)),
        (101, (1, 1)),
        (120, (1, 1)),
        (121, (4, 2)),
        (131, (6, 3)),
        (206, (6, 3)),
        (212, (12, 3)),
        (213, (13, 3)),
        (214, None),
    ],
)
def test_offset_for_timestamp(timestamp_ms: int, expected: tuple[int, int] | None) -> None:
    """The first record in the order of offsets that is not older, across batches and segments, with its epoch."""
    assert timed_log().offset_for_timestamp(timestamp_ms, FAR) == expected


@pytest.mark.parametrize(
    ("timestamp_ms", "end_offset", "expected"),
    [(121, 5, (4, 2)), (121, 4, None), (121, 0, None), (101, 2, (1, 1)), (101, 1, None)],
)
def test_offset_for_timestamp_below_an_end(
    timestamp_ms: int, end_offset: int, expected: tuple[int, int] | None
) -> None:
    """A record at or above the end is not told, and no later one in its place."""
    assert timed_log().offset_for_timestamp(timestamp_ms, Offset(end_offset)) == expected


def test_offset_for_timestamp_above_the_log_start() -> None:
    """Records below the log start do not count, not even those of the batch that holds it."""
    log = timed_log()
    log.raise_log_start(Offset(2))
    assert log.offset_for_timestamp(100, FAR) == (2, 1)
    assert log.offset_for_timestamp(115, FAR) == (4, 2)


def test_offset_for_timestamp_of_records_without_a_time() -> None:
    """Records without a time are older than any."""
    _, _, log = filled_partition()
    assert log.offset_for_timestamp(0, FAR) is None


def test_a_batch_that_cannot_be_decoded_stands_for_its_records() -> None:
    """What a producer has encoded wrongly is no damage of the disk: its first offset answers, and the log goes on."""
    _, log = create_partition(formatted(), ONE_SEGMENT)
    log.append([timed(0, 100), _spoiled(timed(1, 200, 300, 400)), timed(4, 500)])
    assert log.offset_for_timestamp(300, FAR) == (1, 1)
    log.raise_log_start(Offset(2))
    assert log.offset_for_timestamp(300, FAR) == (2, 1)
    assert log.offset_for_timestamp(450, FAR) == (4, 1)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_a_bomb_in_the_log_stalls_nobody(compression: Compression) -> None:
    """A small batch that decompresses to much, from before leaders looked, answers by its header, soon."""
    _, log = create_partition(formatted(), ONE_SEGMENT)
    large = bomb(compression, 60 << 20, max_timestamp_ms=200).stamped(base_offset=Offset(1), leader_epoch=Epoch(1))
    log.append([timed(0, 100), large])
    begun = process_time()
    assert log.offset_for_timestamp(150, FAR) == (1, 1)
    assert process_time() - begun < 1


def test_a_batch_of_many_small_records_is_searched_soon() -> None:
    """As many records as a server decompresses are walked over, and none is made an object of."""
    _, log = create_partition(formatted(), ONE_SEGMENT)
    log.append([timed(0, 100), _many(1, count=100_000, timestamp_ms=300)])
    begun = process_time()
    assert log.offset_for_timestamp(250, FAR) == (1, 1)
    assert log.offset_for_timestamp(301, FAR) is None
    assert process_time() - begun < 1


def _many(base_offset: int, *, count: int, timestamp_ms: int) -> RecordBatch:
    whole = encode_batch([b""] * count, timestamp_ms=timestamp_ms, compression=Compression.ZSTD)
    return whole.stamped(base_offset=Offset(base_offset), leader_epoch=Epoch(1))


def _spoiled(whole: RecordBatch) -> RecordBatch:
    """The batch with a record length that is none, and the CRC of just that."""
    data = bytearray(whole.data)
    data[61] = 0x7F
    data[17:21] = checksum(bytes(data[21:])).to_bytes(4, "big")
    return parse_batches(bytes(data))[0]


def test_damage_is_no_answer(files: SimulatedFiles) -> None:
    """A damaged batch on the way stops the log with file and position named; retention reads none, and finds none."""
    _, log = create_partition(files)
    log.append([timed(offset, 100 + offset) for offset in range(7)])
    flip(files, PARTITION_PATH / f"{0:020d}.log", 150)
    assert log.retention_start(FAR, 0, None, 1000) == 5
    assert log.offset_for_timestamp(105, FAR) == (5, 1)
    with pytest.raises(StorageError, match=f"{0:020d}.log at byte"):
        log.offset_for_timestamp(102, FAR)


def test_a_quorum_log_can_be_searched() -> None:
    """The questions are about any log."""
    _, log, _ = open_log(formatted(), SMALL)
    append(log, count=3)
    log.append([batch(3), timed(4, 70)])
    assert log.offset_for_timestamp(60, FAR) == (4, 1)
    assert log.retention_start(FAR, None, 0, 0) == 0
