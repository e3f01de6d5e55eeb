"""What a log knows of itself: epoch ends, divergence, ends in order. Kafka's MockLogTest and KafkaMetadataLogTest."""

from __future__ import annotations

import pytest

from replica.core.log.log_state import MANY_BYTES, TAIL_BATCHES_MAX, LogState
from replica.core.log.recovered import RecoveredLog
from replica.core.rules import Rules
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset
from tests.core.harness import batches_of, epochs_of


def log_of(*epochs_and_counts: tuple[int, int]) -> LogState:
    log = empty_log()
    log.append(batches_of(*epochs_and_counts))
    log.flushed(log.log_end_offset)
    return log


def empty_log() -> LogState:
    return LogState(RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=()))


def recovered_log(log_end: int, entries: dict[int, int]) -> LogState:
    epochs = tuple(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries.items())
    return LogState(RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(log_end), epochs=epochs))


def validate(log: LogState, offset: int, epoch: int) -> tuple[int, int] | None:
    answer = log.diverging_epoch(Offset(offset), Epoch(epoch))
    return None if answer is None else (answer.epoch, answer.end_offset)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(0, (0, 0)), (1, (1, 15)), (2, (1, 15)), (3, (3, 20)), (4, (4, 30)), (5, (4, 30))]
)
def test_end_offset_for_epoch(epoch: int, expected: tuple[int, int]) -> None:
    """A log always answers with an epoch that it has, or with its very beginning."""
    answer = log_of((1, 15), (3, 5), (4, 10)).end_offset_for_epoch(Epoch(epoch))
    assert (answer.epoch, answer.end_offset) == expected


def test_end_offset_for_epoch_of_an_empty_log() -> None:
    """An empty log has only its beginning to offer."""
    assert empty_log().end_offset_for_epoch(Epoch(3)) == EpochEndOffset(Epoch(0), Offset(0))


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        pytest.param(30, 5, (4, 30), id="epoch_greater_than_last_known_epoch"),
        pytest.param(16, 2, (1, 15), id="unknown_epoch_less_than_last_known"),
        pytest.param(15, 2, (1, 15), id="unknown_epoch_even_where_it_would_begin"),
        pytest.param(1, 0, (0, 0), id="epoch_less_than_first_epoch_in_log"),
        pytest.param(31, 4, (4, 30), id="offset_greater_than_end_offset"),
        pytest.param(16, 1, (1, 15), id="offset_beyond_the_end_of_its_epoch"),
        pytest.param(15, 1, None, id="offset_at_the_very_end_of_its_epoch"),
        pytest.param(7, 1, None, id="offset_less_than_leo"),
        pytest.param(30, 4, None, id="valid_epoch_and_offset"),
        pytest.param(20, 3, None, id="valid_at_the_end_of_a_middle_epoch"),
        pytest.param(0, 0, None, id="the_beginning_is_always_valid"),
    ],
)
def test_validate_offset_and_epoch(offset: int, epoch: int, expected: tuple[int, int] | None) -> None:
    """A reader has diverged iff its last epoch is unknown here, or ends here before its offset."""
    assert validate(log_of((1, 15), (3, 5), (4, 10)), offset, epoch) == expected


# follower's log, leader's log, the leader's epoch in which nothing is written yet, each answer, each truncation
DIVERGENCE = [
    pytest.param([(1, 2)], [(1, 4)], None, [], [], id="A_prefix_same_epoch"),
    pytest.param([(1, 2)], [(1, 2), (2, 2)], None, [], [], id="B_prefix_higher_epoch"),
    pytest.param([(1, 4)], [(1, 2)], 2, [(1, 2)], [2], id="C"),
    pytest.param([(1, 2), (2, 2)], [(1, 2)], 3, [(1, 2)], [2], id="D"),
    pytest.param([(1, 2), (2, 2)], [(1, 2), (3, 2)], 4, [(1, 2)], [2], id="E"),
    pytest.param([(1, 1), (2, 2)], [(1, 2)], 3, [(1, 2)], [1], id="F"),
    pytest.param([(2, 1)], [(1, 1), (3, 1)], 4, [(1, 1)], [0], id="G"),
    pytest.param([(0, 1), (2, 4)], [(0, 1), (1, 4), (3, 1)], None, [(1, 5)], [1], id="H_several_rounds"),
    pytest.param(
        [(0, 1), (2, 1), (4, 1)],
        [(1, 1), (3, 1), (5, 1)],
        None,
        [(3, 2), (1, 1), (0, 0)],
        [2, 1, 0],
        id="test_truncation",
    ),
    pytest.param([(0, 1), (2, 1), (4, 1)], [(0, 1), (2, 1), (5, 1)], None, [(2, 2)], [2], id="test_diverging_epochs"),
]


@pytest.mark.parametrize(("follower_log", "leader_log", "empty_epoch", "answers", "cuts"), DIVERGENCE)
def test_divergence_table(
    follower_log: list[tuple[int, int]],
    leader_log: list[tuple[int, int]],
    empty_epoch: int | None,
    answers: list[tuple[int, int]],
    cuts: list[int],
) -> None:
    """Round by round the leader answers and the follower cuts as the table says; a common prefix is left."""
    follower, leader, seen, cut = log_of(*follower_log), log_of(*leader_log), [], []
    if empty_epoch is not None:
        leader.epochs.assign(Epoch(empty_epoch), leader.log_end_offset)
    while (answer := leader.diverging_epoch(follower.log_end_offset, follower.last_epoch or Epoch(0))) is not None:
        end_offset = Rules().truncation(epochs=follower.epochs, log_end_offset=follower.log_end_offset, leader=answer)
        assert end_offset < follower.log_end_offset, "a round without progress"
        follower.truncate_to(end_offset)
        seen.append((answer.epoch, answer.end_offset))
        cut.append(end_offset)
    assert (seen, cut) == (answers, cuts)
    kept = batches_of(*follower_log)[: follower.log_end_offset]
    assert [batch.data for batch in kept] == [batch.data for batch in batches_of(*leader_log)[: len(kept)]]


def test_monotonic_epoch_start_offset() -> None:
    """Each epoch begins with its first batch; an append tells whether an epoch began."""
    log = empty_log()
    assert log.append(batches_of((1, 3)))
    assert not log.append(batches_of((1, 2), start=3))
    assert log.append(batches_of((4, 1), start=5))
    assert log.epochs.entries == epochs_of(batches_of((1, 5), (4, 1)))


def test_unexpected_append_offset() -> None:
    """An append anywhere but at the log's end is our own mistake."""
    with pytest.raises(AssertionError):
        log_of((1, 3)).append(batches_of((1, 1), start=4))


def test_truncate_to_end_offset_clears_epoch_cache() -> None:
    """Truncation drops the epochs that begin at or above the new end, and the last epoch follows."""
    log = log_of((1, 2), (2, 2), (3, 2))
    log.truncate_to(Offset(4))
    assert (log.log_end_offset, log.flushed_end_offset, log.last_epoch) == (4, 4, 2)
    assert [entry.epoch for entry in log.epochs.entries] == [1, 2]


def test_only_a_flushed_log_is_truncated() -> None:
    """A flush in flight could report an end that meanwhile belongs to other records."""
    log = log_of((1, 2))
    log.append(batches_of((1, 1), start=2))
    with pytest.raises(AssertionError):
        log.truncate_to(Offset(1))


def test_last_epoch_is_of_a_record_not_of_an_empty_epoch() -> None:
    """An epoch that begins at the log's end has no record yet and is not the last one fetched."""
    assert recovered_log(4, {1: 0, 3: 4}).last_epoch == 1
    assert empty_log().last_epoch is None


def test_high_watermark_never_falls_and_stays_within_the_log() -> None:
    """A lower high watermark is ignored, one beyond the log's end is our own mistake."""
    log = log_of((1, 5))
    log.advance_high_watermark(Offset(3))
    log.advance_high_watermark(Offset(2))
    assert log.high_watermark == 3
    with pytest.raises(AssertionError):
        log.advance_high_watermark(Offset(6))


def test_a_flush_beyond_the_log_end_is_our_mistake() -> None:
    """Storage cannot have flushed what the log does not hold; an older report changes nothing."""
    log = log_of((1, 5))
    log.flushed(Offset(2))
    assert log.flushed_end_offset == 5
    with pytest.raises(AssertionError):
        log.flushed(Offset(6))


def test_bytes_are_counted_over_the_remembered_tail() -> None:
    """Sizes are counted for the youngest batches."""
    log = log_of((1, 3))
    size = batches_of((1, 1))[0].size_bytes
    assert log.count_bytes(Offset(1), Offset(3)) >= 2 * size
    assert log.count_bytes(Offset(1), Offset(3)) < 2 * size + 1
    assert log.count_bytes(Offset(3), Offset(3)) < 1


def test_who_waits_in_the_tail_is_counted_for_when_it_has_moved_on() -> None:
    """Each batch that leaves the tail takes nobody's count away: a fetch that waits there for more goes on waiting."""
    log = log_of((1, 3))
    added = batches_of((1, TAIL_BATCHES_MAX), start=3)
    log.append(added)
    three = sum(batch.size_bytes for batch in batches_of((1, 3)))
    for start in (0, 1, 2):
        counted = log.count_bytes(Offset(start), log.log_end_offset)
        assert counted <= three + sum(batch.size_bytes for batch in added), start


def test_of_batches_that_were_there_at_the_start_nothing_is_known() -> None:
    """A reader of what a restart has found gets as much as it wants."""
    log = LogState(RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(3), epochs=()))
    log.append(batches_of((1, 2), start=3))
    assert log.count_bytes(Offset(2), Offset(5)) == MANY_BYTES
    assert log.count_bytes(Offset(3), Offset(5)) < MANY_BYTES


@pytest.mark.parametrize("cut", [0, 10, TAIL_BATCHES_MAX - 1])
def test_bytes_of_older_batches_are_counted_roughly(cut: int) -> None:
    """Behind the tail up to as many as it has are left out, and none is counted twice."""
    batches = batches_of((1, 5 * TAIL_BATCHES_MAX))
    log = empty_log()
    log.append(batches)
    log.flushed(log.log_end_offset)
    log.truncate_to(Offset(len(batches) - cut))
    for start in range(0, len(batches) - TAIL_BATCHES_MAX, 100):
        counted = log.count_bytes(Offset(start), log.log_end_offset)
        exact = sum(batch.size_bytes for batch in batches[start : log.log_end_offset])
        left_out = sum(batch.size_bytes for batch in batches[start : start + TAIL_BATCHES_MAX])
        assert exact - left_out <= counted <= exact, start


def test_nothing_is_known_of_older_batches_once_the_tail_is_cut_away() -> None:
    """Bytes are counted anew from there, so that what was counted before says nothing any more."""
    log = log_of((1, 5 * TAIL_BATCHES_MAX))
    log.truncate_to(Offset(3 * TAIL_BATCHES_MAX))
    log.append(batches_of((2, 1), start=3 * TAIL_BATCHES_MAX))
    assert log.count_bytes(Offset(2 * TAIL_BATCHES_MAX), log.log_end_offset) == MANY_BYTES


def test_truncated_batches_are_not_counted() -> None:
    """Sizes of batches that were cut away are forgotten with them."""
    log = log_of((1, 3))
    size = batches_of((1, 1))[0].size_bytes
    log.truncate_to(Offset(1))
    log.append(batches_of((2, 1), start=1))
    assert log.count_bytes(Offset(1), Offset(2)) < size + 1
