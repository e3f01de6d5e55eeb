"""Rows that are dealt into files come back whole, in their order, however few files may be open."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from nemesis.pipeline.objects.dealing import Dealer, take


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
