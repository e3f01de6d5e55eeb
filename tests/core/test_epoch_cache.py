"""The leader-epoch cache as tables: Kafka's LeaderEpochFileCacheTest, name by name.

A cache is written ``{epoch: start_offset}``; an answer is ``(epoch, end_offset)``, None where Kafka says (-1, -1).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEntry, Offset

Answer = tuple[int, int] | None


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


def test_should_add_epoch_and_message_offset_to_cache() -> None:
    """An assigned epoch is the latest and ends at the log end."""
    cache = assigned((2, 10))
    assert cache.latest == EpochEntry(Epoch(2), Offset(10))
    assert ask(cache, 2, 11) == (2, 11)


def test_should_return_log_end_offset_if_latest_epoch_requested() -> None:
    """The latest epoch ends where the log ends, however often it was assigned."""
    assert ask(assigned((2, 11), (2, 12)), 2, 14) == (2, 14)


@pytest.mark.parametrize("epoch", [None, 0, 5])
def test_should_return_unsupported_if_no_epoch_recorded(epoch: int | None) -> None:
    """An empty cache answers nothing, whatever it is asked."""
    assert ask(cache_of({}), epoch) is None


def test_should_return_undefined_offset_if_undefined_epoch_requested() -> None:
    """A question about no epoch has no answer."""
    assert ask(cache_of({2: 11, 3: 12}), None) is None


def test_should_not_overwrite_offset_for_a_leader_epoch_once_it_has_been_assigned() -> None:
    """An epoch keeps its first start."""
    cache = assigned((2, 6))
    assert not cache.assign(Epoch(2), Offset(10))
    assert entries_of(cache) == {2: 6}


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        pytest.param([(2, 9), (3, 9)], {3: 9}, id="should_enforce_monotonically_increasing_start_offsets"),
        pytest.param([(2, 6), (3, 5)], {3: 5}, id="should_enforce_offsets_increase_monotonically"),
        pytest.param([(1, 5), (2, 6), (1, 7)], {1: 7}, id="should_enforce_monotonically_increasing_epochs"),
        pytest.param([(1, 5), (2, 6), (4, 8), (3, 7)], {1: 5, 2: 6, 3: 7}, id="a_newer_epoch_gives_way"),
        pytest.param(
            [(5, 11), (6, 12), (7, 13), (7, 12)],
            {5: 11, 7: 12},
            id="should_truncate_if_matching_epoch_but_earlier_starting_offset",
        ),
    ],
)
def test_assign_keeps_both_fields_increasing(assignments: list[tuple[int, int]], expected: dict[int, int]) -> None:
    """An entry that is not below the new one in both fields gives way."""
    assert entries_of(assigned(*assignments)) == expected


@pytest.mark.parametrize(
    ("entries", "epoch", "expected"),
    [
        pytest.param(
            {5: 11, 6: 12, 7: 13}, 4, (4, 11), id="should_return_first_epoch_if_requested_epoch_less_than_first_epoch"
        ),
        pytest.param({5: 11, 7: 12}, 5, (5, 12), id="matching_epoch_but_earlier_starting_offset"),
        pytest.param({5: 11, 7: 12}, 6, (5, 12), id="matching_epoch_but_earlier_starting_offset_epoch_gone"),
        pytest.param(
            {1: 11, 2: 13, 3: 15},
            2,
            (2, 15),
            id="should_get_first_offset_of_subsequent_epoch_when_offset_requested_for_previous_epoch",
        ),
        pytest.param(
            {0: 10, 2: 13, 4: 17},
            1,
            (0, 13),
            id="should_return_next_available_epoch_if_there_is_no_exact_epoch_for_the_one_requested_1",
        ),
        pytest.param(
            {0: 10, 2: 13, 4: 17},
            2,
            (2, 17),
            id="should_return_next_available_epoch_if_there_is_no_exact_epoch_for_the_one_requested_2",
        ),
        pytest.param(
            {0: 10, 2: 13, 4: 17},
            3,
            (2, 17),
            id="should_return_next_available_epoch_if_there_is_no_exact_epoch_for_the_one_requested_3",
        ),
        pytest.param(
            {2: 100}, 3, None, id="should_return_invalid_offset_if_epoch_is_requested_which_is_not_currently_tracked"
        ),
        pytest.param({1: 7}, 1, (1, 20), id="monotonically_increasing_epochs_latest"),
        pytest.param({1: 7}, 2, None, id="monotonically_increasing_epochs_dropped"),
    ],
)
def test_end_offset_for(entries: dict[int, int], epoch: int, expected: Answer) -> None:
    """The answer is the largest known epoch not above the one asked for, and where the next one begins."""
    assert ask(cache_of(entries), epoch) == expected


def test_should_increase_and_track_epochs_as_leaders_change_many_times() -> None:
    """An epoch without a record gives way to the next; later epochs bound the earlier ones."""
    cache = assigned((0, 0), (1, 0))
    assert (ask(cache, 1, 0), ask(cache, 0, 0)) == ((1, 0), (0, 0))
    assert ask(cache, 1, 5) == (1, 5)
    cache.assign(Epoch(2), Offset(5))
    assert [ask(cache, epoch, 10) for epoch in (2, 1, 0)] == [(2, 10), (1, 5), (0, 0)]


def test_should_increase_and_track_epochs_as_follower_receives_many_messages() -> None:
    """Assigned per record, an epoch still begins at its first one."""
    cache = assigned((0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5))
    assert (ask(cache, 0, 6), ask(cache, 1, 6)) == ((0, 3), (1, 6))


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        pytest.param(8, {2: 6}, id="should_drop_entries_on_epoch_boundary_when_removing_latest_entries"),
        pytest.param(9, {2: 6, 3: 8}, id="should_drop_entries_between_epoch_boundary_when_removing_newest"),
        pytest.param(11, {2: 6, 3: 8}, id="test_truncate_to_end_offset_clears_epoch_cache"),
        pytest.param(12, {2: 6, 3: 8, 4: 11}, id="nothing_above"),
        pytest.param(0, {}, id="everything"),
        pytest.param(-1, {2: 6, 3: 8, 4: 11}, id="should_not_reset_epoch_history_tail_if_undefined_passed"),
    ],
)
def test_truncate_from_end(end_offset: int, expected: dict[int, int]) -> None:
    """Entries that start at or above the new end go, and it is told whether any did."""
    cache = cache_of({2: 6, 3: 8, 4: 11})
    assert cache.truncate_from_end(Offset(end_offset)) == (expected != {2: 6, 3: 8, 4: 11})
    assert entries_of(cache) == expected


@pytest.mark.parametrize(
    ("entries", "start_offset", "expected"),
    [
        pytest.param(
            {2: 6, 3: 8, 4: 11}, 8, {3: 8, 4: 11}, id="should_preserve_reset_offset_on_clear_earliest_if_one_exists"
        ),
        pytest.param(
            {2: 6, 3: 8, 4: 11},
            9,
            {3: 9, 4: 11},
            id="should_update_saved_offset_when_offset_to_clear_to_is_between_epochs",
        ),
        pytest.param({2: 6, 3: 8, 4: 11}, 1, {2: 6, 3: 8, 4: 11}, id="should_not_clear_anything_if_offset_to_early"),
        pytest.param(
            {2: 6, 3: 8, 4: 11}, 6, {2: 6, 3: 8, 4: 11}, id="should_not_clear_anything_if_offset_to_first_offset"
        ),
        pytest.param({2: 6, 3: 8, 4: 11}, 11, {4: 11}, id="should_retain_latest_epoch_on_clear_all_earliest"),
        pytest.param(
            {2: 6, 3: 8, 4: 11},
            15,
            {4: 15},
            id="should_retain_latest_epoch_on_clear_all_earliest_and_update_its_offset",
        ),
        pytest.param({0: 0, 1: 7, 2: 10}, 5, {0: 5, 1: 7, 2: 10}, id="should_update_saved_offset_epoch_zero"),
        pytest.param(
            {2: 6, 3: 8, 4: 11}, -1, {2: 6, 3: 8, 4: 11}, id="should_not_reset_epoch_history_head_if_undefined_passed"
        ),
    ],
)
def test_truncate_from_start(entries: dict[int, int], start_offset: int, expected: dict[int, int]) -> None:
    """What lies below the new start is forgotten, but the epoch that holds it stays."""
    cache = cache_of(entries)
    assert cache.truncate_from_start(Offset(start_offset)) == (expected != entries)
    assert entries_of(cache) == expected


def test_should_clear_earliest_and_latest_on_empty_cache() -> None:
    """An empty cache has nothing to lose, and no latest epoch."""
    cache = LeaderEpochCache()
    assert not cache.truncate_from_start(Offset(7))
    assert not cache.truncate_from_end(Offset(7))
    assert cache.latest is None


@pytest.mark.parametrize(("offset", "expected"), [(5, None), (6, 2), (7, 2), (8, 3), (10, 3), (11, 4), (99, 4)])
def test_should_fetch_epoch_for_given_offset(offset: int, expected: int | None) -> None:
    """An offset belongs to the entry with the greatest start not above it."""
    assert cache_of({2: 6, 3: 8, 4: 11}).epoch_for_offset(Offset(offset)) == expected


@pytest.mark.parametrize("entries", [[(2, 6), (2, 7)], [(3, 6), (2, 7)], [(2, 6), (3, 6)], [(2, 6), (3, 5)]])
def test_a_cache_that_does_not_increase_is_refused(entries: list[tuple[int, int]]) -> None:
    """Loaded entries that do not increase in both fields are an error that names them."""
    with pytest.raises(ValueError, match="must increase"):
        LeaderEpochCache(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_any_assignments_leave_an_increasing_cache(assignments: list[tuple[int, int]]) -> None:
    """Whatever is assigned, both fields increase, and the last assignment is the latest entry or was known before."""
    cache = assigned(*assignments)
    entries = list(entries_of(cache).items())
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    if assignments:
        assert entries[-1][0] == assignments[-1][0]
        assert entries[-1][1] <= assignments[-1][1]
