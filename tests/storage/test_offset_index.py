"""The sparse offset index against a linear scan, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.disks.simulated_files import SimulatedFiles
from replica.ids import Offset
from replica.storage.offset_index import OffsetIndex

PATH = Path("/00000000000000000100.index")
BASE = Offset(100)

batches = st.lists(st.tuples(st.integers(1, 50), st.integers(61, 9000)), max_size=60)
"""Batches as (records, bytes), back to back."""


def laid_out(shapes: list[tuple[int, int]]) -> tuple[list[tuple[Offset, int]], int]:
    """``(base offset, position)`` of each batch, and the size of the segment."""
    found, offset, position = [], BASE, 0
    for records, size in shapes:
        found.append((offset, position))
        offset, position = Offset(offset + records), position + size
    return found, position


def indexed(layout: list[tuple[Offset, int]], interval_bytes: int) -> OffsetIndex:
    index = OffsetIndex(BASE, interval_bytes)
    for base_offset, position in layout:
        index.maybe_add(base_offset, position)
    return index


def check_lookups(index: OffsetIndex, layout: list[tuple[Offset, int]], interval_bytes: int) -> None:
    """Every lookup gives a batch boundary at or before the right one, less than an interval and a batch away."""
    positions = {0, *(position for _, position in layout)}
    last_offset = layout[-1][0] if layout else BASE
    for offset in range(BASE, last_offset + 2):
        base_offset, found = index.last_before(Offset(offset))
        exact = max((position for noted, position in layout if noted <= offset), default=0)
        assert (base_offset, found) in {(BASE, 0), *layout}
        assert found in positions
        assert found <= exact
        assert exact - found < interval_bytes


@given(batches, st.integers(1, 10_000))
def test_lookup_agrees_with_a_linear_scan(shapes: list[tuple[int, int]], interval_bytes: int) -> None:
    """The index never points behind the batch that holds the offset, nor an interval or more before it."""
    layout, _ = laid_out(shapes)
    check_lookups(indexed(layout, interval_bytes), layout, interval_bytes)


@given(batches, st.integers(1, 10_000), st.data())
def test_truncate_forgets_what_is_cut(shapes: list[tuple[int, int]], interval_bytes: int, data: st.DataObject) -> None:
    """A truncated index is the one that was never told of the batches that are gone."""
    layout, size = laid_out(shapes)
    cut = data.draw(st.sampled_from([*(position for _, position in layout), size]))
    index = indexed(layout, interval_bytes)
    index.truncate(cut)
    kept = [(base_offset, position) for base_offset, position in layout if position < cut]
    assert len(index) == len(indexed(kept, interval_bytes))
    check_lookups(index, kept, interval_bytes)


@given(batches, st.integers(1, 10_000))
def test_store_and_load(shapes: list[tuple[int, int]], interval_bytes: int) -> None:
    """An index loaded from its file, after a power loss, answers as the stored one."""
    layout, size = laid_out(shapes)
    files = SimulatedFiles()
    index = indexed(layout, interval_bytes)
    index.store(files, PATH)
    files.crash()
    loaded = OffsetIndex(BASE, interval_bytes)
    assert loaded.load(files, PATH, segment_bytes=size)
    assert len(loaded) == len(index)
    check_lookups(loaded, layout, interval_bytes)


def test_the_file_has_eight_bytes_an_entry() -> None:
    """Relative offset and position, big-endian, four bytes each."""
    files = SimulatedFiles()
    indexed([(BASE, 0), (Offset(107), 5000)], 4096).store(files, PATH)
    assert files.content(PATH) == bytes.fromhex("00000007 00001388")


def test_an_unchanged_index_is_not_written_again() -> None:
    """Storing twice costs one write; a new entry makes the next store a write again."""
    files = SimulatedFiles()
    index = indexed([(Offset(107), 5000)], 4096)
    index.store(files, PATH)
    before = files.operations
    index.store(files, PATH)
    assert files.operations == before
    index.maybe_add(Offset(110), 10_000)
    index.store(files, PATH)
    assert len(files.content(PATH)) == 16


@pytest.mark.parametrize(
    "content",
    [b"1234567", bytes(16), bytes.fromhex("00000001000000ff0000000200000010"), bytes.fromhex("0000000100002000")],
    ids=["half an entry", "zeros", "positions fall", "beyond the segment"],
)
def test_an_index_that_cannot_be_right_is_not_used(content: bytes) -> None:
    """A file that does not fit the segment is left aside, to be rebuilt."""
    files = SimulatedFiles()
    indexed([], 1).store(files, PATH)
    files.overwrite(PATH, content)
    index = OffsetIndex(BASE, 4096)
    assert not index.load(files, PATH, segment_bytes=8192)
    assert len(index) == 0
