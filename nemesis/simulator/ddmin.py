"""Delta debugging: from much that together fails to little that does.

Owns the search over subsets and knows nothing of what they are made of.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE TSE 2002), algorithm ddmin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """A part of ``items``, in their order, that fails and does not without any single one of its items.

    That all of them fail is taken for granted.
    """
    if not items or fails(items[:0]):
        return items[:0]
    granularity = 2
    while len(items) > 1:
        parts = _split(items, granularity)
        if (part := _first(parts, fails)) is not None:
            items, granularity = part, 2
        elif granularity > 2 and (rest := _first(_complements(parts), fails)) is not None:
            items, granularity = rest, granularity - 1
        elif granularity < len(items):
            granularity = min(2 * granularity, len(items))
        else:
            break
    return items


def _first(parts: Sequence[Sequence[Item]], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item] | None:
    return next((part for part in parts if fails(part)), None)


def _split(items: Sequence[Item], count: int) -> list[Sequence[Item]]:
    """So many parts of nearly equal length, none of them empty."""
    ends = [len(items) * number // count for number in range(count + 1)]
    return [items[start:end] for start, end in pairwise(ends)]


def _complements(parts: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """All but one of the parts, for each of them."""
    numbers = range(len(parts))
    return [[item for other in numbers if other != left_out for item in parts[other]] for left_out in numbers]
