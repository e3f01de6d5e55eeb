"""Keys that are packed into one number sort as keys one by one, and never overflow."""

from __future__ import annotations

import numpy as np
import pytest

from nemesis.linearizability.arrays.columns import compressed, dense, numbered, ordering, running_max, starts_of
from tests.depth import seeds

ROWS = 10_000_000


@pytest.mark.parametrize("span", [10, 2**20, 2**31, 2**40, 2**62])
def test_the_order_is_that_of_the_keys(span: int) -> None:
    """Whether they fit one number or not: sorted by the first key, then by the second, then by the third."""
    random = np.random.default_rng(span)
    keys = [random.integers(-span, span, 3_000), random.integers(0, span, 3_000), random.integers(0, 3, 3_000)]
    keys[1][::2] = keys[1][1::2]
    keys[0][:1_000] = keys[0][0]

    order = ordering(*keys)

    expected = np.lexsort(keys[::-1])
    assert all((key[order] == key[expected]).all() for key in keys)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ten_million_rows_in_five_million_segments() -> None:
    """As many segments as a product of plain times and numbers would overflow at: each maximum is of its segment."""
    segments = np.arange(ROWS) // 2
    values = np.where(np.arange(ROWS) % 2 == 0, np.arange(ROWS, 0, -1) * 2**38, 0)

    found = running_max(segments, values, -1)

    assert (found[::2] == -1).all()
    assert (found[1::2] == values[::2]).all()


@pytest.mark.parametrize("seed", seeds(10))
def test_running_maxima(seed: int) -> None:
    """The greatest of the values before, in the same segment, as a loop finds it."""
    random = np.random.default_rng(seed)
    segments = np.sort(random.integers(0, 6, 40))
    segments = numbered(starts_of(segments), 40)
    values = random.integers(0, 2**62, 40)

    expected = [max((int(values[j]) for j in range(i) if segments[j] == segments[i]), default=-1) for i in range(40)]

    assert running_max(segments, values, -1).tolist() == expected


@pytest.mark.parametrize("span", [3, 100, 2**62])
def test_dense_numbers(span: int) -> None:
    """Each value has the place of its own among the different ones, in order."""
    values = np.random.default_rng(1).integers(-span, span, 200)
    different, places = dense(values)

    assert (different[places] == values).all()
    assert different.tolist() == sorted(set(values.tolist()))


def test_compressed_times_keep_their_order() -> None:
    """What was less, equal or greater still is, across the arrays."""
    one, other = compressed(np.array([5, 2**62, 7]), np.array([7, 2**63 - 1]))

    assert (one.tolist(), other.tolist()) == ([0, 2, 1], [1, 3])
