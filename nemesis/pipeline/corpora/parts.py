"""A register's history that is too long to be judged operation by operation, convicted by a small part of it.

Owns which parts prove something. Take an order that explains a history, and leave out of it all operations on some
values: what is left explains what is left of the history, for a read still follows the write of what it read, and a
compare-and-set that of what it expected, as long as what these wrote is not left out. So if the operations on a few
values have no order, the whole has none. The kernel on columns finds the values: a rule that is broken is broken by one
or two *groups*, values that compare-and-sets join, and halving finds these. The kernels of single objects judge the
operations on them, and only what they convict is convicted. Source: Gibbons and Korach (1997).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays import registers
from nemesis.linearizability.arrays.beginning import Beginning
from nemesis.linearizability.arrays.columns import NIL, Bools, Columns, Decision, Ending, Function, Ints
from nemesis.linearizability.arrays.judge import combined, value_of
from nemesis.linearizability.judgement import Budget, KeyJudgement
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.corpora.encoding import columns_of, operations_of
from nemesis.verdict import Verdict

NO_GROUP = -1
"""Of a row that wrote nothing and saw nothing, or that nobody knows to have: leaving it out proves no less."""


def convicted(
    rows: pa.Table, model: Model, first: int, budget: Budget, *, number: int, operations_max: int
) -> KeyJudgement | None:
    """The judgement of object ``number`` by a part of its ``rows``, which begin with ``first``.

    ``model`` is a register. None where no part of at most ``operations_max`` operations was found that has no order, or
    where an operation may have written who knows what: then nothing is known.
    """
    columns = columns_of(rows, np.zeros(rows.num_rows, dtype=np.int64), 1)
    has_cas = type(model) is CasRegister
    if _may_have_written_anything(columns, has_cas=has_cas).any():
        return None
    groups = groups_of(columns, has_cas=has_cas)

    def violates(chosen: Ints) -> bool:
        part = rows.filter(pa.array(np.isin(groups, chosen)))
        own = columns_of(part, np.zeros(part.num_rows, dtype=np.int64), 1)
        decided = registers.decide(own, np.array([first]), has_cas=has_cas)
        return bool(decided.decisions[0] == Decision.VIOLATED)

    chosen = _guilty(_by_time(groups, columns.invoked), violates)
    kept = np.isin(groups, chosen)
    if not 0 < kept.sum() <= operations_max:
        return None
    part = operations_of(rows.filter(pa.array(kept)).combine_chunks())
    found = combined(number, judge(part, Beginning(model, value_of(first)), budget))
    return replace(found, operations=rows.num_rows, decided=0) if found.verdict is Verdict.INVALID else None


def _may_have_written_anything(columns: Columns, *, has_cas: bool) -> Bools:
    """The rows whose effect, if they had one, no column tells: of any value that is read it may be the write."""
    told = (Function.READ, Function.WRITE, *((Function.CAS,) if has_cas else ()))
    effective: Bools = ~np.isin(columns.function, told) & (columns.ending != Ending.FAIL)
    return effective


def groups_of(columns: Columns, *, has_cas: bool) -> Ints:
    """The group of each row: values that a compare-and-set replaces by one another are of one group."""
    function, ok, failed = columns.function, columns.ending == Ending.OK, columns.ending == Ending.FAIL
    is_cas = (function == Function.CAS) & has_cas
    swaps = is_cas & ~failed
    saw = (is_cas & failed & (columns.result != NIL)) | ((function == Function.READ) & ok)
    writes = (function == Function.WRITE) & ~failed
    value = np.where(saw, columns.result, np.where(swaps, columns.second, columns.argument))
    values, places = np.unique(np.concatenate((value, columns.argument[swaps])), return_inverse=True)
    own, expected = places[: len(value)], places[len(value) :]
    joined = _joined(len(values), own[swaps], expected)
    return np.where(saw | writes | swaps, joined[own], NO_GROUP)


def _joined(count: int, first: Ints, second: Ints) -> Ints:
    """Numbers for ``count`` places, equal for those that pairs join."""
    parent = list(range(count))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        parent[root(one)] = root(other)
    return np.array([root(place) for place in range(count)], dtype=np.int64)


def _by_time(groups: Ints, invoked: Ints) -> Ints:
    """Each group once, in the order of their first operations: those that contradict each other are near by then."""
    order = np.argsort(invoked, kind="stable")
    different, first = np.unique(groups[order], return_index=True)
    in_order = different[np.argsort(first, kind="stable")]
    is_group: Bools = in_order != NO_GROUP
    return in_order[is_group]


def _guilty(groups: Ints, violates: Callable[[Ints], bool]) -> Ints:
    """One group or two that break a rule; none where all together break none."""
    if not violates(groups):
        return groups[:0]
    while len(groups) > 1:
        halves = groups[: len(groups) // 2], groups[len(groups) // 2 :]
        broken = next((half for half in halves if violates(half)), None)
        if broken is None:
            return _across(*halves, violates)
        groups = broken
    return groups


def _across(one: Ints, other: Ints, violates: Callable[[Ints], bool]) -> Ints:
    """One group of each side, where neither side breaks a rule by itself."""
    while len(one) > 1 or len(other) > 1:
        larger, smaller = (one, other) if len(one) >= len(other) else (other, one)
        half = len(larger) // 2
        is_first = violates(np.concatenate((larger[:half], smaller)))
        one, other = larger[:half] if is_first else larger[half:], smaller
    return np.concatenate((one, other))
