"""Sorting by several keys, and running maxima within segments, without overflow.

Owns the packing of keys into one number of 64 bits, which sorts several times as fast as keys one by one, and the
rule that keys that do not fit are never packed: a product that overflows sorts wrong and says nothing.
"""

from __future__ import annotations

import numpy as np

from nemesis.linearizability.arrays.columns import Ints

_PACKED_MAX = 2**62


def ordering(*keys: Ints) -> Ints:
    """The places of the rows in an order by the first key, then by the second, and so on; equals in any order."""
    packed = _packed(keys)
    return np.lexsort(keys[::-1]) if packed is None else np.argsort(packed)


def _packed(keys: tuple[Ints, ...]) -> Ints | None:
    """The keys as one number each that sorts as they do; None if they do not fit."""
    if not len(keys[0]):
        return keys[0]
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    size = 1
    for span in spans:
        size *= span
    if size > _PACKED_MAX:
        return None
    packed = keys[0] - lows[0]
    for key, low, span in zip(keys[1:], lows[1:], spans[1:], strict=True):
        packed = packed * span + (key - low)
    return packed


def starts_of(*keys: Ints) -> Ints:
    """Where rows that are sorted by ``keys`` begin to differ from the one before, the first place included."""
    rows = len(keys[0])
    differs = np.ones(rows, dtype=np.bool_)
    if rows:
        differs[1:] = False
        for key in keys:
            differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)


def numbered(starts: Ints, rows: int) -> Ints:
    """The number of its segment for each of ``rows`` rows, where segments begin at ``starts``."""
    marks = np.zeros(rows, dtype=np.int64)
    marks[starts] = 1
    return np.cumsum(marks) - 1


def dense(values: Ints) -> tuple[Ints, Ints]:
    """The different values in order, and for each row the place of its own among them."""
    if not len(values):
        return values, values
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span > 4 * len(values):
        different, places = np.unique(values, return_inverse=True)
        return different, places
    present = np.bincount(values - low, minlength=span) > 0
    place_of = np.cumsum(present) - 1
    return np.flatnonzero(present) + low, place_of[values - low]


def compressed(*times: Ints) -> tuple[Ints, ...]:
    """The same times, small: what was less, equal or greater still is. Each array keeps its length."""
    lengths = np.cumsum([len(column) for column in times])
    _, ranks = np.unique(np.concatenate(times), return_inverse=True)
    return tuple(np.split(ranks, lengths[:-1]))


def running_max(segments: Ints, values: Ints, before: int) -> Ints:
    """The greatest of the values before each row in its segment, and ``before`` at its beginning.

    ``segments`` are numbers from 0 that never fall; ``before`` is less than every value.
    """
    rows = len(values)
    if not rows:
        return values
    different, ranks = dense(values)
    # Ranks are below the number of rows, and so are segments: their product fits wherever the rows do.
    greatest = np.maximum.accumulate(segments * len(different) + ranks) % len(different)
    found = np.full(rows, before, dtype=np.int64)
    same = segments[1:] == segments[:-1]
    found[1:][same] = different[greatest[:-1][same]]
    return found
