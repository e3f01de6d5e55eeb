"""Holes: offsets that no write can have filled, in logs in which every offset holds a client's record."""

from __future__ import annotations

import pytest

from tests.checks.histories import Row, append, judge, names, poll, replica_log

HOLES: dict[str, tuple[list[Row], list[str]]] = {
    "nobody": ([append((0, 1), 10, 0), append((2, 3), 11, 2), poll((4, 5), 0, (0, 10))], ["hole"]),
    "somebody of unknown outcome": (
        [append((0, 1), 10, 0), append((1, None), 99, type="info"), append((2, 3), 11, 2)],
        [],
    ),
    "who came too late": ([append((0, 1), 11, 1), append((2, None), 99, type="info")], ["hole"]),
    "who failed": ([append((0, None), 99, type="fail"), append((2, 3), 11, 1)], ["hole"]),
    "one for two holes": ([append((0, None), 99, type="info"), append((2, 3), 11, 2)], ["hole"]),
    "two for two holes": (
        [append((0, None), 98, type="info"), append((1, None), 99, type="info", process=1), append((2, 3), 11, 2)],
        [],
    ),
    "sparse": ([append((0, 1), 11, 10**17)], ["hole"]),
}


@pytest.mark.parametrize("case", HOLES)
def test_holes(case: str) -> None:
    """Offsets that were never seen need as many appends that can stand there, and count only in a gapless log."""
    operations, expected = HOLES[case]
    decided = [name for name in names(judge(operations, gapless=True)) if not name.endswith("?")]
    assert decided == expected
    assert "hole" not in names(judge(operations))


def test_what_nobody_can_decode_fills_a_hole() -> None:
    """An offset at which a replica holds a record that cannot be decoded is no hole; one with a control record is."""
    operations = [append((0, 1), 10, 0), append((2, 3), 11, 2)]
    log = replica_log(1, [(1, [10]), (1, [0]), (1, [11])])
    undecoded = [row | ({"values": None} if row["base_offset"] == 1 else {}) for row in log]
    assert "hole" not in names(judge(operations, undecoded, gapless=True))
    assert "hole" in names(judge(operations, replica_log(1, [(1, [10]), (1, None), (1, [11])]), gapless=True))
