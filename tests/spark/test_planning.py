"""The arithmetic of planning: limits are kept and shared out, ranges are cut without loss."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.ids import Offset, TopicPartition
from replica.spark.planning import limited, split
from replica.spark.values import OffsetRange


def ranges(*sizes: int) -> list[OffsetRange]:
    """One range per partition, each with so many offsets, from 100 times its number on."""
    return [
        OffsetRange(
            topic_partition=TopicPartition("t", number), start=Offset(100 * number), end=Offset(100 * number + size)
        )
        for number, size in enumerate(sizes)
    ]


def shares(sizes: list[int], offsets_max: int) -> list[int]:
    """How many offsets each partition gets."""
    waiting = ranges(*sizes)
    ends = limited(waiting, offsets_max)
    return [ends[each.topic_partition] - each.start for each in waiting]


@pytest.mark.parametrize(
    ("sizes", "offsets_max", "expected"),
    [
        ([10, 20], 100, [10, 20]),
        ([10, 20], 30, [10, 20]),
        ([10, 20], 3, [1, 2]),
        ([10, 20], 1, [1, 0]),
        ([1_000_000, 1, 1], 10, [8, 1, 1]),
        ([5, 0, 5], 5, [3, 0, 2]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([0, 0], 5, [0, 0]),
    ],
)
def test_a_limit_is_shared_out(sizes: list[int], offsets_max: int, expected: list[int]) -> None:
    """Each partition gets its share of what waits."""
    assert shares(sizes, offsets_max) == expected


@pytest.mark.parametrize("offsets_max", [1, 2, 3, 4, 50])
def test_no_partition_starves(offsets_max: int) -> None:
    """Beside a partition that is filled faster than it is read, all others get their turns."""
    read = [0, 0, 0, 0]
    for _ in range(4):
        waiting = [
            OffsetRange(topic_partition=TopicPartition("t", number), start=Offset(start), end=Offset(end))
            for number, (start, end) in enumerate(zip(read, (read[0] + 1_000_000, 1, 1, 1), strict=True))
        ]
        read = [int(end) for end in limited(waiting, offsets_max).values()]
    assert read[1:] == [1, 1, 1]


@given(st.lists(st.integers(0, 90), min_size=1, max_size=8), st.integers(1, 400))
def test_a_limit_is_used_up_and_kept(sizes: list[int], offsets_max: int) -> None:
    """No partition gets more than waits in it, and together they get the limit, or all there is."""
    given_out = shares(sizes, offsets_max)
    assert sum(given_out) == min(offsets_max, sum(sizes))
    assert all(0 <= share <= size for share, size in zip(given_out, sizes, strict=True))


@pytest.mark.parametrize(
    ("sizes", "min_partitions", "expected"),
    [
        ([10, 0, 30], None, [10, 30]),
        ([10, 0, 30], 2, [10, 30]),
        ([10, 30], 4, [10, 10, 10, 10]),
        ([10], 3, [3, 3, 4]),
        ([2, 1], 10, [1, 1, 1]),
        ([0, 0], 5, []),
    ],
)
def test_ranges_are_cut(sizes: list[int], min_partitions: int | None, expected: list[int]) -> None:
    """Large ranges are cut first, into nearly equal parts; empty ones give none."""
    assert [part.size for part in split(ranges(*sizes), min_partitions)] == expected


@given(st.lists(st.integers(0, 90), max_size=8), st.integers(1, 60))
def test_cutting_loses_nothing(sizes: list[int], min_partitions: int) -> None:
    """The parts of a partition follow one another without gap or overlap and are there in the number that was asked."""
    whole = ranges(*sizes)
    parts = split(whole, min_partitions)
    assert all(part.size > 0 for part in parts)
    for each in whole:
        own = [part for part in parts if part.topic_partition == each.topic_partition]
        assert sum(part.size for part in own) == each.size
        assert all(earlier.end == later.start for earlier, later in pairwise(own))
        assert not own or (own[0].start, own[-1].end) == (each.start, each.end)
    assert len(parts) >= min(min_partitions, sum(sizes))
