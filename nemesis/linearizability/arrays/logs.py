"""Logs with offsets, many of them in one call.

Owns the rules of ``nemesis.linearizability.logs`` on columns, for logs of single records whose acknowledged appends all
have a place: the same objects are wrong. Batches, and acknowledged appends of unknown offset that nobody read, are left
to that kernel. O(n log n) in operations and records, without a loop over objects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nemesis.linearizability.arrays.columns import (
    NEVER,
    NIL,
    Bools,
    Columns,
    Decided,
    Ending,
    Function,
    Ints,
    compressed,
    numbered,
    ordering,
    running_max,
    starts_of,
)

_ENDLESS = NEVER
"""The greatest length that a read which was cut off by its limit can have seen."""
_OFFSET_MAX = 2**62
"""Offsets above are left to numbers without an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """Which record stands at which offset of which object: every append and read that says so, a row each."""

    object: Ints
    offset: Ints
    record: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """Between which lengths a log was, a row for each operation that tells: an append's are its offset, and one more.

    ``known`` is the least length after the operation, ``highest`` the greatest before it; 0 and _ENDLESS for neither.
    """

    object: Ints
    known: Ints
    highest: Ints
    invoked: Ints
    returned: Ints


def decide(columns: Columns) -> Decided:
    """Which objects are right; all begin empty."""
    undecided = np.zeros(columns.objects, dtype=np.bool_)
    violated = np.zeros(columns.objects, dtype=np.bool_)
    _leave_to_others(columns, undecided)
    told = (columns.ending != Ending.FAIL) & ~undecided[columns.object]
    appends = np.flatnonzero(told & (columns.function == Function.APPEND))
    reads = np.flatnonzero(told & (columns.function >= Function.FETCH) & (columns.ending == Ending.OK))
    counts = _counts(columns)[reads]
    limit = columns.second[reads]
    violated[columns.object[reads[(limit != NIL) & (counts > limit)]]] = True
    placed = _placed(columns, appends, reads, counts)
    _check_one_each(placed, violated)
    offset = _offsets(columns, appends, placed, undecided, violated)
    unknown = appends[offset == NIL]
    bounds = _bounds(columns, appends, offset, reads, counts)
    length_at = _lengths_at(bounds, columns.object[unknown], columns.invoked[unknown])
    _check_in_time(bounds, length_at[: len(bounds.object)], violated)
    ends = (columns.object[reads], bounds.known[len(bounds.known) - len(reads) :])
    _check_holes(columns, placed, ends, (columns.object[unknown], length_at[len(bounds.object) :]), violated)
    telling = np.concatenate((appends, reads))
    return Decided.of(undecided, violated, np.bincount(columns.object[telling], minlength=columns.objects))


def _counts(columns: Columns) -> Ints:
    """How many records each row has."""
    if columns.record_ends is None:
        return np.zeros(len(columns.object), dtype=np.int64)
    return np.diff(columns.record_ends)


def _leave_to_others(columns: Columns, undecided: Bools) -> None:
    """What is no operation on a log of single records, or has no place in 64 bits; and records appended twice."""
    told = columns.ending != Ending.FAIL
    is_append = columns.function == Function.APPEND
    foreign = told & (columns.function < Function.APPEND)
    foreign |= told & is_append & (_counts(columns) > 0)
    is_fetch = columns.function >= Function.FETCH
    foreign |= is_fetch & ((columns.argument < 0) | (columns.argument > _OFFSET_MAX))
    foreign |= is_fetch & (columns.second < 0) & (columns.second != NIL)
    foreign |= is_append & (columns.result > _OFFSET_MAX)
    undecided[columns.object[foreign]] = True
    appends = np.flatnonzero(told & is_append)
    own, record = columns.object[appends], columns.argument[appends]
    order = ordering(own, record)
    own, record = own[order], record[order]
    undecided[own[1:][(own[1:] == own[:-1]) & (record[1:] == record[:-1])]] = True


def _placed(columns: Columns, appends: Ints, reads: Ints, counts: Ints) -> _Placed:
    """What appends that know their offset and reads say of places, each place and record once."""
    sure = appends[(columns.ending[appends] == Ending.OK) & (columns.result[appends] != NIL)]
    own = [columns.object[sure], np.repeat(columns.object[reads], counts)]
    offset, record = [columns.result[sure]], [columns.argument[sure]]
    if columns.records is not None and columns.record_ends is not None and len(reads):
        begin = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(begin, counts)
        offset.append(np.repeat(columns.argument[reads], counts) + within)
        record.append(columns.records[np.repeat(columns.record_ends[:-1][reads], counts) + within])
    objects, offsets, records = np.concatenate(own), np.concatenate(offset), np.concatenate(record)
    order = ordering(objects, offsets, records)
    objects, offsets, records = objects[order], offsets[order], records[order]
    once = starts_of(objects, offsets, records)
    return _Placed(object=objects[once], offset=offsets[once], record=records[once])


def _check_one_each(placed: _Placed, violated: Bools) -> None:
    """An offset has one record, and a record one offset."""
    own, offset = placed.object, placed.offset
    violated[own[1:][(own[1:] == own[:-1]) & (offset[1:] == offset[:-1])]] = True
    order = ordering(placed.object, placed.record)
    own, record = placed.object[order], placed.record[order]
    violated[own[1:][(own[1:] == own[:-1]) & (record[1:] == record[:-1])]] = True


def _offsets(columns: Columns, appends: Ints, placed: _Placed, undecided: Bools, violated: Bools) -> Ints:
    """The offset of each append, NIL where nobody told it; and what was read without having been appended."""
    objects = np.concatenate((columns.object[appends], placed.object))
    records = np.concatenate((columns.argument[appends], placed.record))
    is_place = np.concatenate((np.zeros(len(appends), dtype=np.int64), np.ones(len(placed.object), dtype=np.int64)))
    order = ordering(objects, records, is_place)
    own, record, place = objects[order], records[order], is_place[order] == 1
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = (own[1:] == own[:-1]) & (record[1:] == record[:-1])
    # A record that an append begins its group with was appended; of groups with two places one is wrong anyway.
    violated[own[place & ~follows]] = True
    offset = np.full(len(appends), NIL, dtype=np.int64)
    shown = np.flatnonzero(place & follows)
    shown = shown[~place[shown - 1]]
    offset[order[shown - 1]] = placed.offset[order[shown] - len(appends)]
    unseen = (offset == NIL) & (columns.ending[appends] == Ending.OK)
    undecided[columns.object[appends[unseen]]] = True
    violated[columns.object[appends[(offset < 0) & (offset != NIL)]]] = True
    return offset


def _bounds(columns: Columns, appends: Ints, offset: Ints, reads: Ints, counts: Ints) -> _Bounds:
    """The lengths that appends with a place, and then reads, tell of."""
    has_place = offset != NIL
    known_appends, bases = appends[has_place], offset[has_place]
    start, limit = columns.argument[reads], columns.second[reads]
    end = np.where(counts > 0, start + counts, 0)
    open_ended = ((limit != NIL) & (counts >= limit)) | (columns.function[reads] == Function.STALE_FETCH)
    rows = np.concatenate((known_appends, reads))
    is_info = columns.ending[rows] == Ending.INFO
    return _Bounds(
        object=columns.object[rows],
        known=np.concatenate((bases + 1, end)),
        highest=np.concatenate((bases, np.where(open_ended, _ENDLESS, start + counts))),
        invoked=columns.invoked[rows],
        returned=np.where(is_info, NEVER, columns.returned[rows]),
    )


def _lengths_at(bounds: _Bounds, object_: Ints, at: Ints) -> Ints:
    """The greatest length known from what returned before each row of ``bounds`` began, and before each ``at``."""
    asked, lengths = len(bounds.object) + len(at), np.concatenate((bounds.known, np.zeros(0, dtype=np.int64)))
    if not asked:
        return lengths
    times = compressed(np.concatenate((bounds.invoked, at)), bounds.returned)
    objects = np.concatenate((bounds.object, object_, bounds.object))
    is_return = np.concatenate((np.zeros(asked, dtype=np.int64), np.ones(len(lengths), dtype=np.int64)))
    order = ordering(objects, np.concatenate(times), is_return)
    told = np.concatenate((np.zeros(asked, dtype=np.int64), lengths))[order]
    starts = starts_of(objects[order])
    greatest = running_max(numbered(starts, len(order)), told, -1)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.maximum(greatest, 0)
    return found[:asked]


def _check_in_time(bounds: _Bounds, length_at: Ints, violated: Bools) -> None:
    """Nothing needs the log to have been shorter than it was known to be."""
    violated[bounds.object[length_at > bounds.highest]] = True


def _check_holes(
    columns: Columns, placed: _Placed, ends: tuple[Ints, Ints], unknown: tuple[Ints, Ints], violated: Bools
) -> None:
    """Each hole below the greatest known length has an append of unknown outcome of its own that may fill it."""
    greatest = np.zeros(columns.objects, dtype=np.int64)
    np.maximum.at(greatest, ends[0], ends[1])
    once = starts_of(placed.object, placed.offset)
    own, offset = placed.object[once], placed.offset[once]
    np.maximum.at(greatest, own, offset + 1)
    missing = greatest - np.bincount(own, minlength=columns.objects)
    fillers = np.bincount(unknown[0], minlength=columns.objects)
    violated |= missing > fillers
    holed = (missing > 0) & ~violated
    if not holed.any():
        return
    hole_object, hole = _holes(own, offset, holed, greatest)
    few = holed[unknown[0]]
    objects = np.concatenate((unknown[0][few], hole_object))
    keys = np.concatenate((unknown[1][few], hole))
    is_hole = np.concatenate((np.zeros(int(few.sum()), dtype=np.int64), np.ones(len(hole), dtype=np.int64)))
    order = ordering(objects, keys, is_hole)
    own = objects[order]
    balance = np.cumsum(1 - 2 * is_hole[order])
    starts = starts_of(own)
    base = np.concatenate((np.zeros(1, dtype=np.int64), balance[starts[1:] - 1]))
    balance = balance - base[numbered(starts, len(own))]
    violated[own[(balance < 0) & (is_hole[order] == 1)]] = True


def _holes(own: Ints, offset: Ints, holed: Bools, greatest: Ints) -> tuple[Ints, Ints]:
    """The unfilled offsets of the objects that are ``holed``: (object, offset)."""
    kept = holed[own]
    objects = np.flatnonzero(holed)
    own = np.concatenate((own[kept], objects, objects))
    offset = np.concatenate((offset[kept], np.full(len(objects), -1), greatest[objects]))
    order = ordering(own, offset)
    own, offset = own[order], offset[order]
    gap = np.where(own[1:] == own[:-1], offset[1:] - offset[:-1] - 1, 0)
    begin = np.cumsum(gap) - gap
    within = np.arange(int(gap.sum())) - np.repeat(begin, gap)
    return np.repeat(own[1:], gap), np.repeat(offset[:-1] + 1, gap) + within
