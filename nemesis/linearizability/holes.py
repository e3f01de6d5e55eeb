"""The holes of a log, filled with records of unknown offset: which record may stand where.

Owns the assignment, and knows nothing of operations but their moments. A hole must be filled, an acknowledged record
must stand somewhere, an unknown one may. Each has an offset from which on it may stand, the greater the later it was
invoked, and one before which it must, the greater the later it returned. So the records are the jobs of one machine,
each as long as all others, offsets are its time, and the rule of the earliest due date is: the earliest return first,
never idle. It misses a due date only if every assignment does, and leaves a hole only if every one does. What was over
before another one began is taken before it, so that the order of the records needs no rule of its own. O(n log n).
Batches are as hard to fit as anything: for them, a way is tried that finds an assignment where holes have an obvious
one, and else finds nothing.

Source: Jackson's rule; Glover, "Maximum matching in a convex bipartite graph" (1967).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from nemesis.linearizability.forms import EVER

TRIES = 4
"""How often a batch is tried somewhere, for each batch, until it is given up."""
LOOKS = 32
"""How many are looked at for one offset: of the known batches those that return first, of unknown ones the latest."""


class Filler(NamedTuple):
    """``records`` in a row, appended by ``operation``, that may stand from offset ``first`` on.

    ``returned`` is EVER for unknown ones, which may be left out.
    """

    first: int
    returned: int
    operation: int
    invoked: int
    records: int


def fill(gaps: Sequence[tuple[int, int]], length: int, fillers: Sequence[Filler], musts: int) -> dict[int, int] | int:
    """The offset of each single record, by its operation, or the first hole that nothing can fill.

    ``gaps`` are (first offset, one after the last), in their order, and the log goes on at ``length``, where all may
    stand. ``musts`` of the records are acknowledged. Whether one stands too late is for the caller to see.
    """
    todo = sorted(fillers, reverse=True)
    ready: list[tuple[int, int]] = []
    placed: dict[int, int] = {}
    for offset in _free(gaps, length):
        if offset >= length and not musts:
            break
        while todo and todo[-1].first <= offset:
            filler = todo.pop()
            heappush(ready, (filler.returned, filler.operation))
        if not ready:
            assert offset < length, f"a record may not stand at {offset}, behind all"
            return offset
        returned, operation = heappop(ready)
        placed[operation] = offset
        musts -= returned < EVER
    return placed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """An offset to fill, in gap number ``gap``, with one of ``choices``; known ones before ``begun`` have a place."""

    gap: int
    offset: int
    begun: int
    choices: Iterator[Filler]


def pack(gaps: Sequence[tuple[int, int]], fillers: Sequence[Filler]) -> dict[int, int] | None:
    """Offsets of batches, by their operations, that fill all ``gaps``; None if none are found, which is no proof."""
    known = sorted((f for f in fillers if f.returned < EVER), key=lambda f: f.returned)
    unknown = sorted(f for f in fillers if f.returned == EVER)
    placed: dict[int, int] = {}

    def spot(gap: int, offset: int, begun: int) -> _Spot:
        begun = _first_left(known, placed, begun)
        latest = bisect_right(unknown, offset, key=lambda f: f.first)
        near = [*known[begun : begun + LOOKS], *reversed(unknown[max(0, latest - LOOKS) : latest])]
        choices = _fitting(near, placed, offset, gaps[gap][1])
        return _Spot(gap=gap, offset=offset, begun=begun, choices=choices)

    spots = [spot(0, gaps[0][0], 0)]
    for _ in range(TRIES * len(fillers)):
        here = spots[-1]
        if len(placed) == len(spots):
            placed.popitem()
        if (filler := next(here.choices, None)) is None:
            spots.pop()
            if not spots:
                return None
            continue
        placed[filler.operation] = here.offset
        gap, offset = here.gap, here.offset + filler.records
        if offset == gaps[gap][1]:
            gap += 1
            if gap == len(gaps):
                return placed
            offset = gaps[gap][0]
        spots.append(spot(gap, offset, here.begun))
    return None


def _first_left(fillers: Sequence[Filler], placed: Container[int], begin: int) -> int:
    """The index of the first that has no place, from ``begin`` on."""
    while begin < len(fillers) and fillers[begin].operation in placed:
        begin += 1
    return begin


def _fitting(near: Sequence[Filler], placed: Container[int], offset: int, after: int) -> Iterator[Filler]:
    """What of ``near`` may stand at ``offset``, and ends at ``after`` or before; known ones come first.

    Nothing overtakes what was over before it began.
    """
    overtaken = EVER
    for filler in near:
        if filler.operation in placed:
            continue
        if filler.invoked < overtaken and filler.first <= offset and offset + filler.records <= after:
            yield filler
        overtaken = min(overtaken, filler.returned)


def _free(gaps: Sequence[tuple[int, int]], length: int) -> Iterator[int]:
    """All offsets that are free, in their order."""
    for first, after in gaps:
        yield from range(first, after)
    yield from count(length)
