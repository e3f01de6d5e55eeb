"""From one epoch of a cache to the next: the rest of Kafka's LeaderEpochFileCacheTest.

Kafka's cache has a method for each step. This one is asked by offsets: the epoch before one that begins at 15 holds
offset 14, and the epoch after one that ends at 15 holds offset 15. A cache is written ``{epoch: start_offset}``.
"""

from __future__ import annotations

import pytest

from replica.core.log.epoch_cache import LeaderEpochCache
from replica.ids import Epoch, EpochEntry, Offset
from tests.core.test_epoch_cache import ask, assigned, cache_of

END = 30
HISTORY = {2: 10, 4: 15, 10: 20}


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


def test_previous_epoch() -> None:
    """Before the latest epoch comes the one that was the latest; there is none before the first, and none at all."""
    cache = assigned()
    assert (cache.latest, cache.epoch_for_offset(Offset(0))) == (None, None)
    cache.assign(Epoch(2), Offset(10))
    assert previous_epoch(cache, 2) is None
    cache.assign(Epoch(4), Offset(15))
    assert previous_epoch(cache, 4) == 2
    cache.assign(Epoch(10), Offset(20))
    assert previous_epoch(cache, 10) == 4
    cache.truncate_from_end(Offset(18))
    assert (cache.latest, previous_epoch(cache, 4)) == (EpochEntry(Epoch(4), Offset(15)), 2)


@pytest.mark.parametrize(("epoch", "expected"), [(2, None), (4, 2), (10, 4)])
def test_find_previous_epoch(epoch: int, expected: int | None) -> None:
    """Each known epoch leads to the one before it, whatever numbers lie between."""
    assert previous_epoch(cache_of(HISTORY), epoch) == expected


@pytest.mark.parametrize(("epoch", "expected"), [(0, 2), (2, 4), (3, 4), (4, 10), (9, 10), (10, None), (100, None)])
def test_find_next_epoch(epoch: int, expected: int | None) -> None:
    """Any epoch, known or not, ends where the next known one begins; after the latest there is none."""
    assert next_epoch(cache_of(HISTORY), epoch) == expected


def test_get_epoch_entry() -> None:
    """An epoch's entry says where it began; an epoch in between has none, nor one that was cut."""
    cache = assigned(*HISTORY.items())
    assert [start_of(cache, epoch) for epoch in (2, 3, 4)] == [10, None, 15]
    cache.truncate_from_start(Offset(12))
    cache.truncate_from_end(Offset(20))
    assert [start_of(cache, epoch) for epoch in (2, 4, 10)] == [12, 15, None]


def test_should_fetch_latest_epoch_of_empty_cache() -> None:
    """An empty cache has no latest epoch."""
    assert LeaderEpochCache().latest is None


def test_should_fetch_end_offset_of_empty_cache() -> None:
    """An empty cache knows of no epoch where it ends."""
    assert ask(LeaderEpochCache(), 7, 0) is None


def test_should_clear_earliest_on_empty_cache() -> None:
    """There is nothing to forget at the start of an empty cache."""
    cache = LeaderEpochCache()
    assert not cache.truncate_from_start(Offset(7))
    assert cache.entries == ()


def test_should_clear_latest_on_empty_cache() -> None:
    """There is nothing to cut at the end of an empty cache."""
    cache = LeaderEpochCache()
    assert not cache.truncate_from_end(Offset(7))
    assert cache.entries == ()
