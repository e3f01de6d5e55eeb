"""The idempotent producers of a log, as they are found when it is opened and when it is scanned."""

from __future__ import annotations

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.log.recovered import ProducerBatch, ProducerEntry
from replica.ids import Offset
from replica.storage import StorageError
from tests.storage.disks import append, batch, close, flip, formatted, open_log
from tests.storage.partitions import (
    PARTITION_PATH,
    crashed,
    create_partition,
    filled_partition,
    open_partition,
    produced,
    reopened,
)


def kept(base_offset: int, sequence: int, *, count: int = 1) -> ProducerBatch:
    return ProducerBatch(
        base_sequence=sequence,
        last_sequence=sequence + count - 1,
        base_offset=Offset(base_offset),
        end_offset=Offset(base_offset + count),
        max_timestamp_ms=1000 + base_offset,
    )


def entry(producer_id: int, *batches: ProducerBatch, producer_epoch: int = 0) -> ProducerEntry:
    return ProducerEntry(producer_id=producer_id, producer_epoch=producer_epoch, batches=batches)


MIXED = [
    produced(0, producer_id=7, sequence=0, count=2),
    batch(2),
    produced(3, producer_id=8, sequence=0),
    *(produced(4 + at, producer_id=7, sequence=2 + at) for at in range(6)),
    produced(10, producer_id=8, sequence=0, producer_epoch=1),
]
SEVEN = entry(7, *(kept(5 + at, 3 + at) for at in range(5)))
EIGHT = entry(8, kept(10, 0), producer_epoch=1)


def test_producers_come_back_with_the_log(files: SimulatedFiles) -> None:
    """After either kind of stop each producer's last five batches are there, and those of its newest epoch only."""
    directory, log = create_partition(files)
    log.append(MIXED)
    log.flush()
    assert log.scan_producers() == (SEVEN, EIGHT)
    log, recovered = reopened(files, directory, log)
    assert recovered.producers == (SEVEN, EIGHT)
    log, recovered = crashed(files)
    assert recovered.producers == log.scan_producers() == (SEVEN, EIGHT)


def test_a_truncation_brings_older_batches_back() -> None:
    """What was pushed out by batches that are gone counts again."""
    _, log = create_partition(formatted())
    log.append(MIXED)
    log.truncate(Offset(6))
    eight = entry(8, kept(3, 0))
    assert log.scan_producers() == (eight, entry(7, kept(0, 0, count=2), kept(4, 2), kept(5, 3)))


def test_a_torn_tail_has_no_producers(files: SimulatedFiles) -> None:
    """What recovery cuts is not remembered."""
    _, log = create_partition(files)
    log.append([produced(0, producer_id=1, sequence=0), produced(1, producer_id=1, sequence=1)])
    log.flush()
    files.crash()
    path = PARTITION_PATH / f"{0:020d}.log"
    files.overwrite(path, files.content(path)[:-1])
    assert crashed(files)[1].producers == (entry(1, kept(0, 0)),)


def test_a_log_begun_anew_has_no_producers() -> None:
    """Nothing is left of the old log."""
    _, log = create_partition(formatted())
    log.append(MIXED)
    log.start_at(Offset(40))
    assert log.scan_producers() == ()


def test_a_damaged_batch_is_not_counted_on() -> None:
    """A scan verifies what it reads: a wrong memory would append a batch twice."""
    files, _, log = filled_partition(5)
    log.truncate(Offset(3))
    flip(files, PARTITION_PATH / f"{0:020d}.log", 50)
    with pytest.raises(StorageError, match="at byte 0"):
        log.scan_producers()


def test_damage_behind_the_last_snapshot_is_refused() -> None:
    """A clean stop is believed of the log's length, not of batches that its producers are read from."""
    files, directory, log = filled_partition(3)
    path = PARTITION_PATH / f"{0:020d}.log"
    close(directory, log)
    flip(files, path, 50)
    files.remove(PARTITION_PATH / f"{3:020d}.snapshot")
    with pytest.raises(StorageError, match=rf"{path} at byte 0 \(offset 0\)"):
        open_partition(files)


def test_a_segment_that_is_missing_in_a_cleanly_closed_log_is_refused() -> None:
    """Where one segment does not reach the next, flushed data is gone, whoever closed the log and how."""
    files, directory, log = filled_partition(12)
    close(directory, log)
    files.remove(PARTITION_PATH / f"{5:020d}.log")
    with pytest.raises(StorageError, match=rf"{10:020d}.log at byte 0 \(offset 5\)"):
        open_partition(files)


def test_quorum_logs_are_not_sought_through(files: SimulatedFiles) -> None:
    """A quorum log has no idempotent producers to find at its start."""
    _, log, _ = open_log(files)
    append(log)
    log.append([produced(1, producer_id=1, sequence=0)])
    log.flush()
    files.crash()
    assert open_log(files)[2].producers == ()
