"""The leader-epoch cache as tables: Kafka's LeaderEpochFileCacheTest, name by name.

A cache is written ``{epoch: start_offset}``; an answer is ``(epoch, end_offset)``, None where Kafka says (-1, -1).
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


@pytest.mark.parametrize("epoch", [0, 5])
def test_should_return_unsupported_if_no_epoch_recorded(epoch: int) -> None:
    """An empty cache answers nothing, whatever it is asked."""
    assert ask(cache_of({}), epoch) is None


def test_should_return_unsupported_if_no_epoch_recorded_and_undefined_epoch_requested() -> None:
    """Nothing is known of no epoch either."""
    assert ask(cache_of({}), None) is None


def test_should_return_undefined_offset_if_undefined_epoch_requested() -> None:
    """A question about no epoch has no answer."""
    assert ask(cache_of({2: 11, 3: 12}), None) is None


def test_should_not_overwrite_offset_for_a_leader_epoch_once_it_has_been_assigned() -> None:
    """An epoch keeps its first start."""
    cache = assigned((2, 6))
    assert not cache.assign(Epoch(2), Offset(10))
    assert entries_of(cache) == {2: 6}


def test_should_enforce_monotonically_increasing_start_offsets() -> None:
    """An epoch in which nothing was written gives way to the one that begins at the same offset."""
    assert entries_of(assigned((2, 9), (3, 9))) == {3: 9}


def test_should_enforce_offsets_increase_monotonically() -> None:
    """An epoch that begins above a newer one gives way to it."""
    assert entries_of(assigned((2, 6), (3, 5))) == {3: 5}


def test_should_enforce_monotonically_increasing_epochs() -> None:
    """An older epoch that is assigned later drops the newer ones; of those nothing is known any more."""
    cache = assigned((1, 5), (2, 6), (1, 7))
    assert entries_of(cache) == {1: 7}
    assert (ask(cache, 1, 8), ask(cache, 2, 8)) == ((1, 8), None)


def test_should_truncate_if_matching_epoch_but_earlier_starting_offset() -> None:
    """An epoch that is assigned again further down begins there, and what lay in between goes."""
    cache = assigned((5, 11), (6, 12), (7, 13), (7, 12))
    assert entries_of(cache) == {5: 11, 7: 12}
    assert (ask(cache, 5), ask(cache, 6)) == ((5, 12), (5, 12))


def test_assign_keeps_entries_below_in_both_fields() -> None:
    """Only an entry that is not below the new one in both fields gives way."""
    assert entries_of(assigned((1, 5), (2, 6), (4, 8), (3, 7))) == {1: 5, 2: 6, 3: 7}


def test_should_return_first_epoch_if_requested_epoch_less_than_first_epoch() -> None:
    """An epoch below all ends where the first begins."""
    assert ask(cache_of({5: 11, 6: 12, 7: 13}), 4) == (4, 11)


def test_should_get_first_offset_of_subsequent_epoch_when_offset_requested_for_previous_epoch() -> None:
    """A known epoch ends where the next one begins."""
    assert ask(cache_of({1: 11, 2: 13, 3: 15}), 2) == (2, 15)


def test_should_return_invalid_offset_if_epoch_is_requested_which_is_not_currently_tracked() -> None:
    """An epoch above all has no end."""
    assert ask(cache_of({2: 100}), 3) is None


@pytest.mark.parametrize(("epoch", "expected"), [(1, (0, 13)), (2, (2, 17)), (3, (2, 17))])
def test_should_return_next_available_epoch_if_there_is_no_exact_epoch_for_the_one_requested(
    epoch: int, expected: Answer
) -> None:
    """An epoch that was skipped ends where the known one before it does."""
    assert ask(cache_of({0: 10, 2: 13, 4: 17}), epoch) == expected


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


HISTORY = {2: 6, 3: 8, 4: 11}


def cut_at_end(end_offset: int) -> dict[int, int]:
    """What is left of the history when it is cut at its end; it is told whether any entry went."""
    cache = cache_of(HISTORY)
    assert cache.truncate_from_end(Offset(end_offset)) == (entries_of(cache) != HISTORY)
    return entries_of(cache)


def test_should_drop_entries_on_epoch_boundary_when_removing_latest_entries() -> None:
    """An epoch that begins at the new end goes."""
    assert cut_at_end(8) == {2: 6}


def test_should_drop_entries_between_epoch_boundary_when_removing_newest() -> None:
    """An epoch that holds the new end stays."""
    assert cut_at_end(9) == {2: 6, 3: 8}


@pytest.mark.parametrize(
    ("end_offset", "expected"), [(11, {2: 6, 3: 8}), (12, HISTORY), (0, {})], ids=["at_the_last", "nothing", "all"]
)
def test_truncate_from_end(end_offset: int, expected: dict[int, int]) -> None:
    """Entries that start at or above the new end go, and no other."""
    assert cut_at_end(end_offset) == expected


def test_should_not_reset_epoch_history_tail_if_undefined_passed() -> None:
    """An offset that is none cuts nothing at the end."""
    assert cut_at_end(-1) == HISTORY


def cut_at_start(start_offset: int, history: Mapping[int, int] = HISTORY) -> dict[int, int]:
    """What is left of a history when it is cut at its start; it is told whether anything changed."""
    cache = cache_of(history)
    assert cache.truncate_from_start(Offset(start_offset)) == (entries_of(cache) != history)
    return entries_of(cache)


def test_should_preserve_reset_offset_on_clear_earliest_if_one_exists() -> None:
    """An epoch that begins at the new start keeps its place, and those before it go."""
    assert cut_at_start(8) == {3: 8, 4: 11}


def test_should_update_saved_offset_when_offset_to_clear_to_is_between_epochs() -> None:
    """An epoch that holds the new start begins there."""
    assert cut_at_start(9) == {3: 9, 4: 11}


def test_should_update_offset_between_epoch_boundaries_on_clear_earliest() -> None:
    """So it does wherever in the epoch the new start lies."""
    assert (cut_at_start(7), cut_at_start(10)) == ({2: 7, 3: 8, 4: 11}, {3: 10, 4: 11})


def test_should_update_offset_between_epoch_boundaries_on_clear_earliest2() -> None:
    """Epoch 0 is an epoch as any other."""
    assert cut_at_start(5, {0: 0, 1: 7, 2: 10}) == {0: 5, 1: 7, 2: 10}


def test_should_not_clear_anything_if_offset_to_early() -> None:
    """A start below all entries changes nothing."""
    assert cut_at_start(1) == HISTORY


def test_should_not_clear_anything_if_offset_to_first_offset() -> None:
    """A start where the first entry begins changes nothing."""
    assert cut_at_start(6) == HISTORY


def test_should_retain_latest_epoch_on_clear_all_earliest() -> None:
    """The latest epoch stays when the log begins with it."""
    assert cut_at_start(11) == {4: 11}


def test_should_retain_latest_epoch_on_clear_all_earliest_and_update_its_offset() -> None:
    """The latest epoch stays when the log begins within it, or has lost all of it."""
    assert cut_at_start(15) == {4: 15}


def test_should_not_reset_epoch_history_head_if_undefined_passed() -> None:
    """An offset that is none cuts nothing at the start."""
    assert cut_at_start(-1) == HISTORY


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
