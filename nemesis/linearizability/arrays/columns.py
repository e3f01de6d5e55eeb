"""Operations of many objects as columns of numbers.

Owns what the numbers mean. A function, an outcome and up to three values an operation; what has no such form is OTHER,
and its object is judged as values of Python are. The values are numbers of 64 bits; nil is one of them.

Sorting by several keys, and running maxima within segments, without overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int8]
Bools: TypeAlias = npt.NDArray[np.bool_]

NIL = -(2**63)
"""The value nil, and a number that is not there. A history that has this number has no columns."""
NEVER = 2**63 - 1
"""The time at which an operation of unknown outcome returns."""
CALL_OPERATIONS_MAX = 2_000_000
"""How many operations one call takes: the kernels need up to 300 bytes for each."""


class Function(IntEnum):
    """What an operation does; what each column of values holds then."""

    OTHER = 0
    """None of those below: nothing."""
    READ = 1
    """``result`` is what came back."""
    WRITE = 2
    """``argument`` is written."""
    CAS = 3
    """``second`` is written where ``argument`` was; of one that failed, ``result`` is what it saw, or nil."""
    APPEND = 4
    """``argument`` is appended, or ``records`` as one where there are any; ``result`` is the offset, nil if unknown."""
    FETCH = 5
    """``records`` were read from offset ``argument`` on, at most ``second`` of them, nil for as many as there are."""
    STALE_FETCH = 6
    """A fetch that promised nothing about the end of the log."""


class Ending(IntEnum):
    """What is known of an operation's end; see ``Outcome``."""

    OK = 0
    FAIL = 1
    INFO = 2


class Decision(IntEnum):
    """What a kernel says of an object."""

    VALID = 0
    VIOLATED = 1
    UNDECIDED = 2
    """This kernel cannot tell; another one must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Operations of ``objects`` objects, one row each, in any order.

    ``object`` numbers the objects from 0. ``invoked`` and ``returned`` are times or positions, of which only the order
    within an object counts; one operation came before another exactly if its ``returned`` is less than the other's
    ``invoked``. ``returned`` is NEVER where the ending is INFO. The records of row ``i`` are
    ``records[record_ends[i] : record_ends[i + 1]]``; without any, both are None.
    """

    objects: int
    object: Ints
    function: Codes
    ending: Codes
    argument: Ints
    second: Ints
    result: Ints
    invoked: Ints
    returned: Ints
    records: Ints | None = None
    record_ends: Ints | None = None

    def __post_init__(self) -> None:
        rows = len(self.object)
        lengths = {len(column) for column in (self.function, self.ending, self.argument, self.second, self.result)}
        assert lengths == {rows}, f"columns of {lengths} rows beside {rows}"
        assert len(self.invoked) == len(self.returned) == rows, f"times of {len(self.invoked)} rows beside {rows}"
        assert rows <= CALL_OPERATIONS_MAX, f"{rows} operations in one call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a kernel says: a ``Decision`` for each object, and how many of its operations say something.

    Of objects that are undecided that number means nothing.
    """

    decisions: Codes
    operations: Ints

    @classmethod
    def of(cls, undecided: Bools, violated: Bools, operations: Ints) -> Decided:
        """What is undecided is not violated, whatever else was found."""
        decisions = np.where(violated, Decision.VIOLATED, Decision.VALID)
        return cls(decisions=np.where(undecided, Decision.UNDECIDED, decisions).astype(np.int8), operations=operations)


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
