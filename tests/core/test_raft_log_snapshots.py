"""A log and its snapshots, without a quorum: where epochs end, who is sent to a snapshot, where the log begins.

Kafka's MockLogTest and KafkaMetadataLogTest.
"""

from __future__ import annotations

import pytest

from replica.core.log.log_state import LogState
from replica.core.log.recovered import RecoveredLog, StoredSnapshot
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.core.harness import batches_of
from tests.core.snapshot_scenarios import snapshot_id


def stored(end_offset: int, epoch: int) -> StoredSnapshot:
    return StoredSnapshot(id=snapshot_id(end_offset, epoch), size_bytes=100)


def log_of(*epochs_and_counts: tuple[int, int], start: int = 0, snapshots: list[tuple[int, int]]) -> LogState:
    log = LogState(
        RecoveredLog(
            log_start_offset=Offset(start),
            log_end_offset=Offset(start),
            epochs=(),
            snapshots=tuple(stored(*snapshot) for snapshot in snapshots if snapshot[0] <= start),
        )
    )
    log.append(batches_of(*epochs_and_counts, start=start))
    log.flushed(log.log_end_offset)
    log.set_high_watermark(log.log_end_offset)
    for snapshot in snapshots:
        if snapshot[0] > start:
            log.add_snapshot(stored(*snapshot))
    return log


def trimmed_log() -> LogState:
    """Records 10 to 29: epoch 3 from 10, 5 from 15, 7 from 25; all below 10 are in a snapshot of epoch 2."""
    return log_of((3, 5), (5, 10), (7, 5), start=10, snapshots=[(10, 2), (20, 5)])


def validate(log: LogState, offset: int, epoch: int) -> tuple[str, int, int] | None:
    """Tell what a follower gets that has so many records, the last of this epoch; None if it may go on."""
    needed = log.snapshot_instead(Offset(offset), Epoch(epoch))
    if needed is not None:
        return ("snapshot", needed.end_offset, needed.epoch)
    end = log.diverging_epoch(Offset(offset), Epoch(epoch))
    return None if end is None else ("diverging", end.end_offset, end.epoch)


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        pytest.param(30, 8, ("diverging", 30, 7), id="validate_epoch_greater_than_last_known_epoch"),
        pytest.param(12, 1, ("snapshot", 20, 5), id="validate_epoch_less_than_oldest_snapshot_epoch"),
        pytest.param(9, 2, ("snapshot", 20, 5), id="validate_offset_less_than_oldest_snapshot_offset"),
        pytest.param(9, 7, ("snapshot", 20, 5), id="offset_less_than_oldest_snapshot_offset_whatever_the_epoch"),
        pytest.param(10, 2, None, id="validate_offset_equal_to_oldest_snapshot_offset"),
        pytest.param(10, 3, ("snapshot", 20, 5), id="offset_equal_to_oldest_snapshot_offset_of_a_later_epoch"),
        pytest.param(10, 1, ("snapshot", 20, 5), id="offset_equal_to_oldest_snapshot_offset_of_an_earlier_epoch"),
        pytest.param(0, 0, ("snapshot", 20, 5), id="nothing_at_all"),
        pytest.param(
            16, 4, ("diverging", 15, 3), id="validate_unknown_epoch_less_than_last_known_greater_than_oldest_snapshot"
        ),
        pytest.param(12, 2, ("diverging", 10, 2), id="validate_epoch_less_than_first_epoch_in_log"),
        pytest.param(31, 7, ("diverging", 30, 7), id="validate_offset_great_than_end_offset"),
        pytest.param(16, 3, ("diverging", 15, 3), id="offset_beyond_the_end_of_its_epoch"),
        pytest.param(28, 7, None, id="validate_offset_less_than_leo"),
        pytest.param(30, 7, None, id="validate_valid_epoch_and_offset"),
        pytest.param(15, 3, None, id="valid_at_the_end_of_a_middle_epoch"),
    ],
)
def test_validate_offset_and_epoch_with_snapshots(offset: int, epoch: int, expected: tuple[str, int, int]) -> None:
    """A follower goes on from records that follow upon its own, is told where it left, or is sent to the newest."""
    assert validate(trimmed_log(), offset, epoch) == expected


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        pytest.param(0, 0, ("snapshot", 7, 2), id="nothing_at_all"),
        pytest.param(3, 1, ("snapshot", 7, 2), id="validate_epoch_less_than_oldest_snapshot_epoch"),
        pytest.param(6, 2, None, id="a_record_of_the_snapshots_epoch"),
        pytest.param(7, 2, None, id="where_the_snapshot_ends"),
        pytest.param(7, 3, ("diverging", 9, 2), id="unknown_epoch_where_the_snapshot_ends"),
    ],
)
def test_validate_offset_and_epoch_of_a_whole_log(offset: int, epoch: int, expected: tuple[str, int, int]) -> None:
    """Beside a log that is still whole a snapshot serves those who have nothing, or are far behind."""
    assert validate(log_of((1, 5), (2, 4), snapshots=[(7, 2)]), offset, epoch) == expected


def test_without_a_snapshot_the_beginning_is_valid() -> None:
    """Without any snapshot everything is as it is without snapshots."""
    assert validate(log_of((1, 5), snapshots=[]), 0, 0) is None


@pytest.mark.parametrize(("epoch", "expected"), [(1, (2, 10)), (2, (2, 10)), (3, (3, 15)), (4, (3, 15)), (9, (7, 30))])
def test_end_offset_for_epoch_below_the_log_is_that_of_the_snapshot(epoch: int, expected: tuple[int, int]) -> None:
    """An epoch below all that the log holds ends where the log begins, in the epoch of the snapshot there."""
    answer = trimmed_log().end_offset_for_epoch(Epoch(epoch))
    assert (answer.epoch, answer.end_offset) == expected


def test_last_epoch_of_an_empty_log_is_that_of_its_snapshot() -> None:
    """A log that holds no record any more claims what its snapshot ends with."""
    log = log_of(start=10, snapshots=[(10, 2)])
    assert (log.last_epoch, log.log_end_offset) == (2, 10)
    assert log.end_offset_for_epoch(Epoch(2)) == EpochEndOffset(Epoch(2), Offset(10))
    log.append(batches_of((3, 1), start=10))
    assert log.last_epoch == 3


def test_high_watermark_starts_at_the_newest_snapshot() -> None:
    """What a snapshot holds is committed, whatever else is known after a restart."""
    recovered = RecoveredLog(
        log_start_offset=Offset(0), log_end_offset=Offset(30), epochs=(), snapshots=(stored(10, 2), stored(20, 5))
    )
    assert LogState(recovered).high_watermark == 20


def test_truncate_fully_to_latest_snapshot() -> None:
    """A log begins anew at a snapshot: empty, its epochs forgotten, all its ends at the snapshot's, no other left."""
    log = trimmed_log()
    log.start_after(stored(40, 6))
    ends = (log.log_start_offset, log.flushed_end_offset, log.high_watermark, log.log_end_offset)
    assert (ends, log.last_epoch, log.epochs.entries) == ((40, 40, 40, 40), 6, ())
    assert log.snapshots == (stored(40, 6),)
    assert log.count_bytes(Offset(40), Offset(40)) < 1


def test_update_log_start_offset() -> None:
    """Of three snapshots the log begins at the end of the second, and what was in the first is forgotten with it."""
    log = log_of((1, 5), (2, 10), snapshots=[])
    moved = [log.add_snapshot(stored(*snapshot)) for snapshot in ((3, 1), (7, 2), (12, 2))]
    assert (moved, log.log_start_offset) == ([False, True, True], 7)
    assert log.snapshots == (stored(7, 2), stored(12, 2))
    assert [tuple(entry) for entry in _entries(log)] == [(2, 7)]


def test_update_log_start_offset_with_missing_snapshot() -> None:
    """A log begins where it began, or where a snapshot ends that it still has: nowhere else."""
    log = log_of((1, 30), snapshots=[])
    assert log.log_start_offset == 0
    for end_offset in (3, 4, 11, 12, 29):
        log.add_snapshot(stored(end_offset, 1))
        assert log.log_start_offset in {0, *(known.id.end_offset for known in log.snapshots)}
        assert log.log_start_offset < log.snapshots[-1].id.end_offset
    assert log.log_start_offset == 12


def _entries(log: LogState) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]


def test_a_snapshot_that_is_not_newer_is_our_mistake() -> None:
    """Snapshots are added in order only."""
    log = trimmed_log()
    with pytest.raises(AssertionError):
        log.add_snapshot(stored(20, 5))
