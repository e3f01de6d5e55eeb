"""The sparse time index against a linear scan, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.disks.simulated_files import SimulatedFiles
from replica.records import EVER
from replica.storage.time_index import TimeIndex
from tests.storage.disks import flip

PATH = Path("/00000000000000000100.timeindex")
OFFSETS = b"what the offset index has in its file"

intervals = st.lists(st.lists(st.integers(-3, 30), max_size=4), min_size=1, max_size=40)
"""The timestamps of the batches in each interval; the last one is open."""


def indexed(shape: list[list[int]]) -> TimeIndex:
    index = TimeIndex()
    for at, timestamps_ms in enumerate(shape):
        if at:
            index.begin_interval()
        for timestamp_ms in timestamps_ms:
            index.note(timestamp_ms)
    return index


def check_lookups(index: TimeIndex, shape: list[list[int]]) -> None:
    """Every lookup names the first interval with a batch that is young enough, and no other."""
    for timestamp_ms in range(-4, 32):
        young = [at for at, found in enumerate(shape) if any(found_ms >= timestamp_ms for found_ms in found)]
        for interval in range(len(shape) + 1):
            expected = next((at for at in young if at >= interval), None)
            assert index.first_from(interval, timestamp_ms) == expected
    assert index.max_timestamp_ms == max((found_ms for found in shape for found_ms in found), default=EVER)


@given(intervals)
def test_lookup_agrees_with_a_linear_scan(shape: list[list[int]]) -> None:
    """The times need not rise."""
    check_lookups(indexed(shape), shape)


def test_a_lookup_passes_over_many_intervals() -> None:
    """The runs in which they are passed over have no seams."""
    shape = [[0] for _ in range(5000)]
    for at in (0, 1, 1023, 1024, 1025, 2047, 2048, 4998, 4999):
        index = indexed([*shape[:at], [7], *shape[at + 1 :]])
        assert index.first_from(0, 5) == at
        assert index.first_from(at, 5) == at
        assert index.first_from(at + 1, 5) is None


@given(intervals, st.data())
def test_truncate_forgets_what_is_cut(shape: list[list[int]], data: st.DataObject) -> None:
    """A truncated index is the one that was never told of the batches that are gone."""
    count = data.draw(st.integers(0, len(shape) - 1))
    left = data.draw(st.integers(0, len(shape[count])))
    kept = [*shape[:count], shape[count][:left]]
    index = indexed(shape)
    index.truncate(count, max(kept[-1], default=EVER))
    check_lookups(index, kept)


@given(intervals)
def test_store_and_load(shape: list[list[int]]) -> None:
    """An index loaded from its file, after a power loss, answers as the stored one once the last batches are noted."""
    files = SimulatedFiles()
    indexed(shape).store(files, PATH, OFFSETS)
    files.crash()
    loaded = TimeIndex()
    assert loaded.load(files, PATH, count=len(shape) - 1, offset_index=OFFSETS)
    for timestamp_ms in shape[-1]:
        loaded.note(timestamp_ms)
    check_lookups(loaded, shape)


def test_the_file_has_eight_bytes_an_entry() -> None:
    """Big-endian, behind a version and the checksum of both files."""
    files = SimulatedFiles()
    indexed([[7, 5], [-1], [9]]).store(files, PATH, OFFSETS)
    assert files.content(PATH) == bytes.fromhex("0002 fff95d7d 0000000000000007 ffffffffffffffff")


def test_an_index_without_entries_has_no_file() -> None:
    """A segment that is shorter than an interval is read when it is opened."""
    files = SimulatedFiles()
    indexed([[7]]).store(files, PATH, OFFSETS)
    assert not files.exists(PATH)
    assert TimeIndex().load(files, PATH, count=0, offset_index=OFFSETS)
    assert not TimeIndex().load(files, PATH, count=1, offset_index=OFFSETS)


def test_an_unchanged_index_is_not_written_again() -> None:
    """Storing twice costs one write; a new entry makes the next store a write again, what is in no entry does not."""
    files = SimulatedFiles()
    index = indexed([[7], []])
    index.store(files, PATH, OFFSETS)
    before = files.operations
    index.note(9)
    index.store(files, PATH, OFFSETS)
    assert files.operations == before
    index.begin_interval()
    index.store(files, PATH, OFFSETS)
    assert len(files.content(PATH)) == 22
    index.truncate(1, 9)
    index.store(files, PATH, OFFSETS)
    assert len(files.content(PATH)) == 14


@pytest.mark.parametrize("position", range(22))
def test_an_index_with_a_flipped_bit_is_not_used(position: int) -> None:
    """Retention deletes by it: a segment must not become old by a bit; and it seals the offset index as well."""
    files = SimulatedFiles()
    indexed([[7], [8], []]).store(files, PATH, OFFSETS)
    assert not TimeIndex().load(files, PATH, count=2, offset_index=OFFSETS[1:])
    flip(files, PATH, position)
    assert not TimeIndex().load(files, PATH, count=2, offset_index=OFFSETS)


@pytest.mark.parametrize("count", [1, 3])
def test_an_index_of_another_length_is_not_used(count: int) -> None:
    """It has an entry for each of the offset index, or it is rebuilt."""
    files = SimulatedFiles()
    indexed([[7], [8], []]).store(files, PATH, OFFSETS)
    index = TimeIndex()
    assert not index.load(files, PATH, count=count, offset_index=OFFSETS)
    assert (len(index), index.max_timestamp_ms) == (0, EVER)
