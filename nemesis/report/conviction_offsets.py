"""A table of offsets, a column for each who says what stands there: which offsets, and what a row is made of.

Owns the choice of rows: those that an anomaly names, and a few before and after each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BEFORE, AFTER = 3, 4
NAMED_MAX = 4
"""So many of the offsets that are named are looked at, each with those around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """One offset. ``differs``: not all who hold something there hold the same. ``follows``: on the row above.

    ``is_named``: by an anomaly; ``is_first``: it is the first that differs. A cell has the colour of its epoch.
    """

    offset: int
    is_named: bool
    is_first: bool
    differs: bool
    follows: bool
    cells: Sequence[str]
    colours: Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTable:
    """Rows in the order of their offsets; the names of the columns are without that of the offset."""

    columns: Sequence[str]
    rows: Sequence[OffsetRow]


def windows(named: Iterable[int]) -> list[int]:
    """The offsets to show, in their order."""
    chosen = sorted(named)[:NAMED_MAX]
    return sorted({offset for one in chosen for offset in range(max(one - BEFORE, 0), one + AFTER + 1)})
