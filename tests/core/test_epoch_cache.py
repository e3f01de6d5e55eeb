"""The leader-epoch cache as tables: Kafka's LeaderEpochFileCacheTest, name by name, without the ``should``.

A cache is written ``{epoch: start_offset}``; an answer is ``(epoch, end_offset)``, None where Kafka says (-1, -1).
Kafka's cache has a method for each step from one epoch to the next. This one is asked by offsets: the epoch before one
that begins at 15 holds offset 14, and the epoch after one that ends at 15 holds offset 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEntry, Offset

Answer = tuple[int, int] | None
Assignments = list[tuple[int, int]]

END = 30
HISTORY = {2: 6, 3: 8, 4: 11}
WITH_GAPS = {2: 10, 4: 15, 10: 20}


def cache_of(entries: Mapping[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries.items())


def assigned(*assignments: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for epoch, start in assignments:
        cache.assign(Epoch(epoch), Offset(start))
    return cache


def entries_of(cache: LeaderEpochCache) -> dict[int, int]:
    return {entry.epoch: entry.start_offset for entry in cache.entries}


def ask(cache: LeaderEpochCache, epoch: int | None, log_end: int = 20) -> Answer:
    answer = cache.end_offset_for(None if epoch is None else Epoch(epoch), Offset(log_end))
    return None if answer is None else (answer.epoch, answer.end_offset)


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        pytest.param([(2, 10)], {2: 10}, id="add_epoch_and_message_offset_to_cache"),
        pytest.param([(2, 6), (2, 10)], {2: 6}, id="not_overwrite_offset_once_it_has_been_assigned"),
        pytest.param([(2, 9), (3, 9)], {3: 9}, id="enforce_monotonically_increasing_start_offsets"),
        pytest.param([(2, 6), (3, 5)], {3: 5}, id="enforce_offsets_increase_monotonically"),
        pytest.param([(1, 5), (2, 6), (1, 7)], {1: 7}, id="enforce_monotonically_increasing_epochs"),
        pytest.param([(5, 11), (6, 12), (7, 13), (7, 12)], {5: 11, 7: 12}, id="truncate_if_earlier_starting_offset"),
        pytest.param([(1, 5), (2, 6), (4, 8), (3, 7)], {1: 5, 2: 6, 3: 7}, id="entries_below_in_both_fields_stay"),
        pytest.param([(0, 0), (1, 0)], {1: 0}, id="epoch_without_a_record"),
        pytest.param([(0, 0), (0, 1), (0, 2), (1, 3), (1, 4)], {0: 0, 1: 3}, id="follower_receives_many_messages"),
    ],
)
def test_assign(assignments: Assignments, expected: dict[int, int]) -> None:
    """An epoch keeps its first start, and takes the place of entries that are not below it in both fields."""
    cache = assigned(*assignments)
    assert entries_of(cache) == expected
    latest = cache.entries[-1]
    assert cache.latest == latest
    assert not cache.assign(latest.epoch, Offset(99)), "it has been assigned"


@pytest.mark.parametrize(
    ("entries", "epoch", "expected"),
    [
        pytest.param({2: 11}, 2, (2, 20), id="return_log_end_offset_if_latest_epoch_requested"),
        pytest.param({}, 0, None, id="return_unsupported_if_no_epoch_recorded"),
        pytest.param({}, 5, None, id="return_unsupported_if_no_epoch_recorded_yet"),
        pytest.param({}, None, None, id="no_epoch_recorded_and_undefined_epoch_requested"),
        pytest.param({2: 11, 3: 12}, None, None, id="return_undefined_offset_if_undefined_epoch_requested"),
        pytest.param({5: 11, 6: 12, 7: 13}, 4, (4, 11), id="requested_epoch_less_than_first_epoch"),
        pytest.param({1: 11, 2: 13, 3: 15}, 2, (2, 15), id="get_first_offset_of_subsequent_epoch"),
        pytest.param({2: 100}, 3, None, id="epoch_which_is_not_currently_tracked"),
        pytest.param({0: 10, 2: 13, 4: 17}, 1, (0, 13), id="next_available_epoch_if_there_is_no_exact_one"),
        pytest.param({0: 10, 2: 13, 4: 17}, 2, (2, 17), id="epoch_before_a_gap"),
        pytest.param({0: 10, 2: 13, 4: 17}, 3, (2, 17), id="epoch_in_a_gap"),
    ],
)
def test_end_offset_for(entries: Mapping[int, int], epoch: int | None, expected: Answer) -> None:
    """An epoch ends where the next known one begins, the latest with the log; one that is not known has no end."""
    assert ask(cache_of(entries), epoch) == expected


def test_should_increase_and_track_epochs_as_leaders_change_many_times() -> None:
    """An epoch without a record gives way to the next; later epochs bound the earlier ones."""
    cache = assigned((0, 0), (1, 0))
    assert (ask(cache, 1, 0), ask(cache, 0, 0)) == ((1, 0), (0, 0))
    assert ask(cache, 1, 5) == (1, 5)
    cache.assign(Epoch(2), Offset(5))
    assert [ask(cache, epoch, 10) for epoch in (2, 1, 0)] == [(2, 10), (1, 5), (0, 0)]


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        pytest.param(8, {2: 6}, id="drop_entries_on_epoch_boundary_when_removing_latest_entries"),
        pytest.param(9, {2: 6, 3: 8}, id="drop_entries_between_epoch_boundary_when_removing_newest"),
        pytest.param(11, {2: 6, 3: 8}, id="at_the_last"),
        pytest.param(12, HISTORY, id="nothing"),
        pytest.param(0, {}, id="all"),
        pytest.param(-1, HISTORY, id="not_reset_epoch_history_tail_if_undefined_passed"),
    ],
)
def test_truncate_from_end(end_offset: int, expected: dict[int, int]) -> None:
    """Entries that start at or above the new end go, and no other; it is told whether any went."""
    cache = cache_of(HISTORY)
    assert cache.truncate_from_end(Offset(end_offset)) == (expected != HISTORY)
    assert entries_of(cache) == expected


@pytest.mark.parametrize(
    ("history", "start_offset", "expected"),
    [
        pytest.param(HISTORY, 8, {3: 8, 4: 11}, id="preserve_reset_offset_on_clear_earliest_if_one_exists"),
        pytest.param(HISTORY, 9, {3: 9, 4: 11}, id="update_saved_offset_when_offset_to_clear_to_is_between_epochs"),
        pytest.param(HISTORY, 7, {2: 7, 3: 8, 4: 11}, id="update_offset_between_epoch_boundaries_on_clear_earliest"),
        pytest.param(HISTORY, 10, {3: 10, 4: 11}, id="just_below_an_epoch"),
        pytest.param({0: 0, 1: 7, 2: 10}, 5, {0: 5, 1: 7, 2: 10}, id="epoch_0_is_an_epoch_as_any_other"),
        pytest.param(HISTORY, 1, HISTORY, id="not_clear_anything_if_offset_to_early"),
        pytest.param(HISTORY, 6, HISTORY, id="not_clear_anything_if_offset_to_first_offset"),
        pytest.param(HISTORY, 11, {4: 11}, id="retain_latest_epoch_on_clear_all_earliest"),
        pytest.param(HISTORY, 15, {4: 15}, id="retain_latest_epoch_on_clear_all_earliest_and_update_its_offset"),
        pytest.param(HISTORY, -1, HISTORY, id="not_reset_epoch_history_head_if_undefined_passed"),
    ],
)
def test_truncate_from_start(history: dict[int, int], start_offset: int, expected: dict[int, int]) -> None:
    """Entries below the one that holds the new start go, and that one begins there; it is told whether any changed."""
    cache = cache_of(history)
    assert cache.truncate_from_start(Offset(start_offset)) == (expected != history)
    assert entries_of(cache) == expected


def test_should_clear_earliest_and_latest_on_empty_cache() -> None:
    """An empty cache has nothing to lose, and no latest epoch."""
    cache = LeaderEpochCache()
    assert not cache.truncate_from_start(Offset(7))
    assert not cache.truncate_from_end(Offset(7))
    assert (cache.latest, cache.entries) == (None, ())


@pytest.mark.parametrize(("offset", "expected"), [(5, None), (6, 2), (7, 2), (8, 3), (10, 3), (11, 4), (99, 4)])
def test_should_fetch_epoch_for_given_offset(offset: int, expected: int | None) -> None:
    """An offset belongs to the entry with the greatest start not above it."""
    assert cache_of(HISTORY).epoch_for_offset(Offset(offset)) == expected


@pytest.mark.parametrize("entries", [[(2, 6), (2, 7)], [(3, 6), (2, 7)], [(2, 6), (3, 6)], [(2, 6), (3, 5)]])
def test_a_cache_that_does_not_increase_is_refused(entries: Assignments) -> None:
    """Loaded entries that do not increase in both fields are an error that names them."""
    with pytest.raises(ValueError, match="must increase"):
        LeaderEpochCache(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_any_assignments_leave_an_increasing_cache(assignments: Assignments) -> None:
    """Whatever is assigned, both fields increase, and the last assignment is the latest entry or was known before."""
    cache = assigned(*assignments)
    entries = list(entries_of(cache).items())
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    if assignments:
        assert entries[-1][0] == assignments[-1][0]
        assert entries[-1][1] <= assignments[-1][1]


# --- from one epoch to the next -------------------------------------------------------------------------------------


def start_of(cache: LeaderEpochCache, epoch: int) -> int | None:
    """Where just this epoch begins, if it has an entry."""
    return next((entry.start_offset for entry in cache.entries if entry.epoch == epoch), None)


def previous_epoch(cache: LeaderEpochCache, epoch: int) -> int | None:
    """The epoch that holds the offset before this one's first."""
    start_offset = start_of(cache, epoch)
    return None if start_offset is None else cache.epoch_for_offset(Offset(start_offset - 1))


def next_epoch(cache: LeaderEpochCache, epoch: int) -> int | None:
    """The epoch that holds the offset at which this one ends; the log may end there."""
    answer = ask(cache, epoch, END)
    return None if answer is None or answer[1] == END else cache.epoch_for_offset(Offset(answer[1]))


@pytest.mark.parametrize(("epoch", "expected"), [(2, None), (4, 2), (10, 4)])
def test_find_previous_epoch(epoch: int, expected: int | None) -> None:
    """Each known epoch leads to the one before it, whatever numbers lie between."""
    assert previous_epoch(cache_of(WITH_GAPS), epoch) == expected


@pytest.mark.parametrize(("epoch", "expected"), [(0, 2), (2, 4), (3, 4), (4, 10), (9, 10), (10, None), (100, None)])
def test_find_next_epoch(epoch: int, expected: int | None) -> None:
    """Any epoch, known or not, ends where the next known one begins; after the latest there is none."""
    assert next_epoch(cache_of(WITH_GAPS), epoch) == expected


def test_get_epoch_entry() -> None:
    """An epoch's entry says where it began; an epoch in between has none, nor one that was cut."""
    cache = assigned(*WITH_GAPS.items())
    assert [start_of(cache, epoch) for epoch in (2, 3, 4)] == [10, None, 15]
    cache.truncate_from_start(Offset(12))
    cache.truncate_from_end(Offset(20))
    assert [start_of(cache, epoch) for epoch in (2, 4, 10)] == [12, 15, None]
    assert (cache.latest, previous_epoch(cache, 4)) == (EpochEntry(Epoch(4), Offset(15)), 2)
