"""The protocol's decisions as tables: votes, high watermark, truncation."""

from __future__ import annotations

import pytest

from replica.core.epoch_cache import LeaderEpochCache
from replica.core.rules import Rules, Truncation
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset

RULES = Rules()


def cache_of(entries: dict[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries.items())


@pytest.mark.parametrize(
    ("candidate", "own", "good"),
    [
        ((3, 10), (3, 10), True),
        ((3, 11), (3, 10), True),
        ((3, 9), (3, 10), False),
        ((4, 1), (3, 10), True),
        ((2, 99), (3, 10), False),
        ((0, 0), (0, 0), True),
        ((0, 0), (1, 1), False),
    ],
)
def test_candidate_log_is_up_to_date(candidate: tuple[int, int], own: tuple[int, int], good: bool) -> None:
    """The later last epoch wins; with the same one, the log that is not shorter."""
    up_to_date = RULES.candidate_log_is_up_to_date(
        candidate_epoch=candidate[0], candidate_end=candidate[1], own_epoch=own[0], own_end=own[1]
    )
    assert up_to_date == good


@pytest.mark.parametrize(
    ("epoch_start", "ends", "current", "expected"),
    [
        pytest.param(15, [15], None, None, id="quorum_size_one_nothing_in_epoch"),
        pytest.param(15, [16], None, 16, id="quorum_size_one"),
        pytest.param(15, [15, 0], None, None, id="quorum_size_two_unknown_follower"),
        pytest.param(15, [15, 15], None, None, id="quorum_size_two_at_epoch_start"),
        pytest.param(15, [16, 16], None, 16, id="quorum_size_two"),
        pytest.param(15, [20, 16], None, 16, id="quorum_size_two_slower_decides"),
        pytest.param(10, [15, 10, 0], None, None, id="quorum_size_three_at_epoch_start"),
        pytest.param(10, [15, 10, 10], None, None, id="quorum_size_three_both_at_epoch_start"),
        pytest.param(10, [15, 15, 10], None, 15, id="quorum_size_three"),
        pytest.param(10, [20, 15, 15], 15, 15, id="quorum_size_three_leader_ahead"),
        pytest.param(10, [20, 20, 15], 15, 20, id="quorum_size_three_again"),
        pytest.param(10, [20, 12, 15], 20, 20, id="non_monotonic_high_watermark_update"),
        pytest.param(10, [20, 15, 14, 11], None, 14, id="quorum_size_four_needs_three"),
        pytest.param(0, [9, 8, 7, 6, 5], None, 7, id="quorum_size_five_needs_three"),
        pytest.param(10, [11, 11, 9], 9, 11, id="known_high_watermark_rises"),
    ],
)
def test_update_high_watermark(epoch_start: int, ends: list[int], current: int | None, expected: int | None) -> None:
    """What a majority has reached, once that lies beyond the epoch's start, and never less than before."""
    high_watermark = RULES.quorum_high_watermark(
        voter_end_offsets=[Offset(end) for end in ends],
        epoch_start_offset=Offset(epoch_start),
        current=None if current is None else Offset(current),
    )
    assert high_watermark == expected


@pytest.mark.parametrize(
    ("end_offset", "high_watermark", "committed"), [(5, None, False), (5, 4, False), (5, 5, True), (5, 6, True)]
)
def test_produce_is_committed(end_offset: int, high_watermark: int | None, committed: bool) -> None:
    """A batch is committed once the high watermark, an exclusive end, has reached its end."""
    known = None if high_watermark is None else Offset(high_watermark)
    assert RULES.produce_is_committed(end_offset=Offset(end_offset), high_watermark=known) == committed


def test_consumer_read_bound_is_the_high_watermark() -> None:
    """A consumer reads below the high watermark, and nothing while that is unknown."""
    assert RULES.consumer_read_bound(high_watermark=Offset(4), log_end_offset=Offset(9)) == 4
    assert RULES.consumer_read_bound(high_watermark=None, log_end_offset=Offset(9)) is None


def test_last_fetched_epoch_is_that_of_the_last_record() -> None:
    """A follower names its last record's epoch, not the one it has reached; 0 while its log is empty."""
    assert RULES.last_fetched_epoch(last_epoch=Epoch(3), leader_epoch=Epoch(7)) == 3
    assert RULES.last_fetched_epoch(last_epoch=None, leader_epoch=Epoch(7)) == 0


@pytest.mark.parametrize(
    ("own", "log_end", "leader", "expected"),
    [
        pytest.param({}, 0, (1, 2), (0, True), id="local_undefined_empty"),
        pytest.param({1: 0}, 4, (2, 9), (4, True), id="local_undefined_leader_beyond"),
        pytest.param({1: 0}, 4, (2, 3), (3, True), id="local_undefined_leader_below"),
        pytest.param({1: 0}, 4, (1, 2), (2, True), id="same_epoch_leader_ends_first"),
        pytest.param({1: 0}, 4, (1, 9), (4, True), id="same_epoch_own_ends_first"),
        pytest.param({1: 0, 2: 2}, 4, (1, 3), (2, True), id="same_epoch_own_next_begins_first"),
        pytest.param({0: 0, 2: 1}, 5, (1, 5), (1, False), id="only_an_older_epoch_known"),
        pytest.param({2: 0}, 1, (1, 1), (0, True), id="epoch_below_all_own"),
        pytest.param({3: 0, 5: 120}, 200, (4, 155), (120, False), id="floor_below_leaders_answer"),
        pytest.param({3: 0, 5: 120}, 120, (3, 101), (101, True), id="second_round"),
    ],
)
def test_truncation(own: dict[int, int], log_end: int, leader: tuple[int, int], expected: tuple[int, bool]) -> None:
    """Both ends of a shared epoch bound what is kept; with only an older epoch in common the leader is asked again."""
    truncation = RULES.truncation(
        epochs=cache_of(own),
        log_end_offset=Offset(log_end),
        leader=EpochEndOffset(Epoch(leader[0]), Offset(leader[1])),
    )
    assert truncation == Truncation(end_offset=Offset(expected[0]), done=expected[1])
