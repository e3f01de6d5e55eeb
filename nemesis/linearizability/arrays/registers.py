"""Registers whose every value was written once, many of them in one call.

Owns the rules of ``nemesis.linearizability.zones`` on columns: the same objects are decided, and the same are wrong.
The write of a value and its reads are a cluster; a compare-and-set puts its cluster directly behind that of what it
expected. Sorting by (object, value) makes the clusters, doubling of pointers the chains, sorting by time finds chains
that each must precede another. O(n log n), without a loop over objects.

Source: Gibbons and Korach, "Testing shared memories" (1997).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

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

_T = TypeVar("_T", bound=np.generic)
_BEFORE_ALL = -1
_SPAN_MAX = 2**40
"""Times that span more are replaced by their ranks, so that they can be packed with other keys."""
_ROUNDS_MAX = 2_000
"""How long a line of compare-and-sets of unknown outcome may be, each known only by the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What counts: reads, which are known, writes, and compare-and-sets by what they leave and what they expected."""

    objects: int
    object: Ints
    value: Ints
    is_write: Bools
    known: Bools
    invoked: Ints
    returned: Ints
    expected: Ints
    """Of the rows that are compare-and-sets, in their order."""
    cas: Ints
    """Which rows those are."""


@dataclass(slots=True, kw_only=True)
class _Clusters:
    """One row for each (object, value), in this order. ``first`` is the earliest return, ``last`` the latest begin."""

    object: Ints
    value: Ints
    writers: Ints
    counted: Bools
    initial: Bools
    write_at: Ints
    first_read: Ints
    first: Ints
    last: Ints
    child: Ints
    """Clusters that a compare-and-set made; ``parent`` is that of what it expected, of ``child_counts`` the first."""
    parent: Ints


def decide(columns: Columns, initial: Ints, *, has_cas: bool = True, misses_tell: bool = False) -> Decided:
    """Which objects are right, of which each began with ``initial`` of its number.

    Without ``has_cas`` the objects have no compare-and-set. With ``misses_tell`` a failed one that returned nothing
    proves that the value differed, which this kernel knows nothing of.
    """
    undecided = np.zeros(columns.objects, dtype=np.bool_)
    violated = np.zeros(columns.objects, dtype=np.bool_)
    rows = _relevant(columns, undecided, has_cas=has_cas, misses_tell=misses_tell)
    clusters = _clusters(rows, initial)
    undecided[clusters.object[clusters.writers + clusters.initial > 1]] = True
    _count_seen(clusters, undecided)
    _check_written(clusters, violated)
    _check_within(clusters, violated)
    roots = _chains(clusters, undecided | violated, violated)
    _check_between(clusters, roots, violated)
    return Decided.of(undecided, violated, np.bincount(rows.object, minlength=columns.objects))


def _relevant(columns: Columns, undecided: Bools, *, has_cas: bool, misses_tell: bool) -> _Rows:
    """Drop what says nothing, and turn compare-and-sets that changed nothing into reads."""
    function, ok = columns.function, columns.ending == Ending.OK
    failed = columns.ending == Ending.FAIL
    is_cas = function == Function.CAS
    is_foreign = (function < Function.READ) | (function > Function.CAS)
    is_foreign |= is_cas & ~failed & (not has_cas)
    missed = failed & is_cas & has_cas
    if misses_tell:
        is_foreign |= missed & (columns.result == NIL)
    undecided[columns.object[is_foreign]] = True
    repeats = is_cas & (columns.argument == columns.second) & ~failed
    is_read = (ok & (function == Function.READ)) | (ok & repeats) | (missed & (columns.result != NIL))
    is_write = (function == Function.WRITE) & ~failed
    swaps = is_cas & ~failed & ~repeats
    value = np.where(is_write, columns.argument, np.where(swaps, columns.second, columns.result))
    value = np.where(repeats, columns.argument, value)
    tells = is_read | is_write | swaps
    if undecided.any():
        tells &= ~undecided[columns.object]
    kept = slice(None) if tells.all() else np.flatnonzero(tells)
    invoked, returned = _times(columns.invoked[kept], np.where(failed | ok, columns.returned, NEVER)[kept])
    cas = np.flatnonzero(swaps[kept])
    return _Rows(
        objects=columns.objects,
        object=columns.object[kept],
        value=value[kept],
        is_write=(is_write | swaps)[kept],
        known=(ok | is_read)[kept],
        invoked=invoked,
        returned=returned,
        expected=columns.argument[kept][cas],
        cas=cas,
    )


def _times(invoked: Ints, returned: Ints) -> tuple[Ints, Ints]:
    """The times from 0 on. A return after all that began bounds nothing, however late it is."""
    if not len(invoked):
        return invoked, returned
    low, high = int(invoked.min()), int(invoked.max())
    if low < 0 or high - low > _SPAN_MAX:
        invoked, returned = compressed(invoked, returned)
        return invoked, returned
    return invoked - low, np.minimum(returned, high + 1) - low


def _clusters(rows: _Rows, initial: Ints) -> _Clusters:
    """Sort by (object, value). What a compare-and-set expected is a row of its own, which begins and ends nothing."""
    objects = np.concatenate((rows.object, rows.object[rows.cas]))
    values = np.concatenate((rows.value, rows.expected))
    order = ordering(objects, values)
    object_, value = objects[order], values[order]
    starts = starts_of(object_, value)
    if not len(starts):
        return _no_clusters()
    is_write = _extended(rows.is_write, len(rows.cas), False)[order]
    is_read = _extended(~rows.is_write, len(rows.cas), False)[order]
    known = _extended(rows.known, len(rows.cas), False)[order]
    invoked = _extended(rows.invoked, len(rows.cas), _BEFORE_ALL)[order]
    returned = _extended(rows.returned, len(rows.cas), NEVER)[order]
    cluster_of = np.empty(len(order), dtype=np.int64)
    cluster_of[order] = numbered(starts, len(order))
    own, held = object_[starts], value[starts]
    return _Clusters(
        object=own,
        value=held,
        writers=np.add.reduceat(is_write.astype(np.int64), starts),
        counted=np.logical_or.reduceat(known, starts),
        initial=held == initial[own],
        write_at=np.maximum.reduceat(np.where(is_write, invoked, _BEFORE_ALL), starts),
        first_read=np.minimum.reduceat(np.where(is_read, returned, NEVER), starts),
        first=np.minimum.reduceat(returned, starts),
        last=np.maximum.reduceat(invoked, starts),
        child=cluster_of[rows.cas],
        parent=cluster_of[len(rows.object) :],
    )


def _extended(column: npt.NDArray[_T], more: int, value: Any) -> npt.NDArray[_T]:
    """The column with ``more`` rows of one value at its end."""
    return np.concatenate((column, np.full(more, value, dtype=column.dtype))) if more else column


def _no_clusters() -> _Clusters:
    none, no = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    return _Clusters(
        object=none,
        value=none,
        writers=none,
        counted=no,
        initial=no,
        write_at=none,
        first_read=none,
        first=none,
        last=none,
        child=none,
        parent=none,
    )


def _count_seen(clusters: _Clusters, undecided: Bools) -> None:
    """A write of unknown outcome counts if a compare-and-set that counts expected its value; drop what does not."""
    for rounds in count():
        seen = clusters.parent[clusters.counted[clusters.child]]
        fresh = seen[~clusters.counted[seen]]
        if not len(fresh):
            break
        if rounds == _ROUNDS_MAX:
            undecided[clusters.object[fresh]] = True
            break
        clusters.counted[fresh] = True
    counts = clusters.counted[clusters.child]
    clusters.child, clusters.parent = clusters.child[counts], clusters.parent[counts]


def _check_written(clusters: _Clusters, violated: Bools) -> None:
    """What was read or expected was written, and was expected once."""
    nobody = clusters.counted & (clusters.writers == 0) & ~clusters.initial
    violated[clusters.object[nobody]] = True
    twice = np.bincount(clusters.parent, minlength=len(clusters.object)) > 1
    violated[clusters.object[twice]] = True


def _check_within(clusters: _Clusters, violated: Bools) -> None:
    """No read of a value was over before its write began."""
    early = clusters.first_read < clusters.write_at
    violated[clusters.object[early]] = True


def _chains(clusters: _Clusters, skipped: Bools, violated: Bools) -> Bools:
    """Fold each chain into the cluster that it begins with, after checking its order; which clusters begin one."""
    roots = clusters.counted | clusters.initial
    kept = ~skipped[clusters.object[clusters.child]]
    child, parent = clusters.child[kept], clusters.parent[kept]
    if not len(child):
        return roots
    roots[clusters.child] = False
    up = np.arange(len(clusters.object))
    depth = np.zeros(len(clusters.object), dtype=np.int64)
    up[child], depth[child] = parent, 1
    for _ in range(len(child).bit_length() + 1):
        depth[child] += depth[up[child]]
        up[child] = up[up[child]]
    in_circle = depth[up[child]] > 0
    violated[clusters.object[child[in_circle]]] = True
    _fold(clusters, np.concatenate((child[~in_circle], np.unique(parent))), up, depth, violated)
    return roots


def _fold(clusters: _Clusters, members: Ints, up: Ints, depth: Ints, violated: Bools) -> None:
    """Check that what follows in a chain was not over before what precedes it began."""
    members = members[depth[up[members]] == 0]
    members = np.unique(members)
    if not len(members):
        return
    members = members[ordering(up[members], depth[members])]
    root = up[members]
    starts = starts_of(root)
    before = running_max(numbered(starts, len(members)), clusters.last[members], _BEFORE_ALL - 1)
    late = clusters.first[members] < before
    violated[clusters.object[members[late]]] = True
    first = np.minimum.reduceat(clusters.first[members], starts)
    last = np.maximum.reduceat(clusters.last[members], starts)
    clusters.first[root[starts]], clusters.last[root[starts]] = first, last


def _check_between(clusters: _Clusters, roots: Bools, violated: Bools) -> None:
    """No two chains must each precede the other.

    A chain is *forward* if it was over in a part before the last of it began: the register held it in between.
    """
    chain = np.flatnonzero(roots)
    own, last = clusters.object[chain], clusters.last[chain]
    first = np.where(clusters.initial[chain], _BEFORE_ALL, clusters.first[chain])
    forward = first < last
    start = np.where(forward, first, last)
    order = ordering(own, start, forward.astype(np.int64))
    own, first, last, forward = own[order], first[order], last[order], forward[order]
    places = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(forward, places, -1)) if len(order) else places
    before = np.concatenate((np.array([-1]), latest[:-1])) if len(order) else places
    other = np.maximum(before, 0)
    clash = (before >= 0) & (own[other] == own) & (first < last[other])
    violated[own[clash]] = True
