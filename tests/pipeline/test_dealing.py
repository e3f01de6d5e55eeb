"""Rows that are dealt into files come back whole, in their order, however few files may be open."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from nemesis.pipeline.corpora.dealing import Dealer, parted, take


@pytest.mark.parametrize("open_max", [1, 2, 7, 100])
def test_each_number_gets_its_rows_in_order(tmp_path: Path, open_max: int) -> None:
    """With fewer open files than numbers, every row is read back once, in the order in which it was dealt."""
    random = Random(open_max)
    dealer = Dealer(tmp_path, open_max=open_max)
    expected: dict[int, list[int]] = {}
    for piece in range(20):
        numbers = [random.randrange(-1, 9) for _ in range(30)]
        rows = [piece * 30 + place for place in range(30)]
        for number, row in zip(numbers, rows, strict=True):
            if number >= 0:
                expected.setdefault(number, []).append(row)
        dealer.deal(pa.table({"row": rows}), np.array(numbers, dtype=np.int64))
        assert len(dealer._writers) <= open_max
    found = [take(part).column("row").to_pylist() for part in dealer.close()]
    assert found == [expected[number] for number in sorted(expected)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("most", [0, 5, 2**15 - 1, 2**15, 2**17])
def test_rows_are_parted_by_numbers_of_any_length(most: int) -> None:
    """Each number gets its rows in their order, whether or not it fits two bytes; -1 gets none."""
    numbers = np.array([most, -1, 0, most, 3 % (most + 1), -1, most], dtype=np.int64)
    expected: dict[int, list[int]] = {}
    for place, number in enumerate(numbers.tolist()):
        expected.setdefault(number, []).append(place)
    del expected[-1]

    found = [(number, rows.column("row").to_pylist()) for number, rows in parted(pa.table({"row": range(7)}), numbers)]

    assert found == sorted(expected.items())


def test_nothing_is_parted_into_nothing() -> None:
    """No rows, or only such as go nowhere, are no parts."""
    empty = np.zeros(0, dtype=np.int64)
    assert list(parted(pa.table({"row": []}), empty)) == []
    assert list(parted(pa.table({"row": [1, 2]}), np.array([-1, -1]))) == []
