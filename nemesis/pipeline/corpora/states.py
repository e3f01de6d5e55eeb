"""The link of objects of which only ``Model.step`` is known: the configurations that they may be in are carried.

Owns where such a history is cut, and the bounds on what is carried. It is cut at the first moment, after enough
operations, at which nothing is pending but what nobody knows the end of; if there is none among as many again, where
these end. Whatever is pending there is carried, as rows, with the configurations: states, and which of the pending
operations have taken effect in them. An unknown operation that has in all of them is behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import Bools, Ending, Ints
from nemesis.linearizability.judgement import KeyJudgement
from nemesis.linearizability.model import Model, ModelError, relevant
from nemesis.linearizability.models.multi_register import MultiRegister
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.search import Start
from nemesis.linearizability.window import Window, judge_window
from nemesis.pipeline.corpora.bucket import Task, completed, evidence_of, judge_bucket, malformed
from nemesis.pipeline.corpora.chain import Judged, Link, Row, unknown
from nemesis.pipeline.corpora.encoding import ints, operations_of

ELEMENTS_MAX = 100_000
"""How many elements all states that are carried may have: a step may copy a state. Of more of them some are carried."""
PENDING_MAX = 10_000
"""How many operations may be carried."""
_NEVER_YET = -(2**63)


def is_one_object(model: Model) -> bool:
    """Whether ``model`` steps through all operations on an object, also where it takes a history of it apart."""
    return type(model).partition is Model.partition or type(model) is MultiRegister


@dataclass(frozen=True, slots=True)
class _Carried:
    """Rows that are pending, in the order of their invocations, and what the object may be in."""

    rows: pa.Table
    start: Start


class StateLink(Link):
    """One object. Windows have at least ``window_operations``, and at most twice as many."""

    def __init__(self, number: int, task: Task, window_operations: int) -> None:
        self.asked = 2 * window_operations
        self._number, self._task, self._least = number, task, window_operations
        self._carried: _Carried | None = None

    def window(self, rows: pa.Table) -> Judged:
        """See ``Link``. It can always be cut."""
        whole, carried = self._with_carried(completed(rows))
        place = carried + _quiet(whole, carried, self._least)
        moment = int(ints(whole, "invoked", 0)[place])
        return self._judged(whole.slice(0, place), carried, moment)

    def rest(self, rows: pa.Table) -> Row:
        return self._judged(*self._with_carried(completed(rows)), None).row

    def _with_carried(self, rows: pa.Table) -> tuple[pa.Table, int]:
        if self._carried is None:
            return rows, 0
        return pa.concat_tables([self._carried.rows, rows]).combine_chunks(), self._carried.rows.num_rows

    def _judged(self, rows: pa.Table, carried: int, moment: int | None) -> Judged:
        """The window of ``rows``, of which so many were carried; it ends at ``moment``."""
        ending = ints(rows, "ending", 0)[carried:]
        counts = {"operations": len(ending), "unknown_outcomes": int((ending == Ending.INFO).sum())}
        spoiled = malformed(rows, np.zeros(rows.num_rows, dtype=np.int64))
        if spoiled:
            row = unknown(spoiled[0]) | {"judged": len(ending)}
            return Judged(row=row | counts, taken=len(ending))
        try:
            judgement, obstacle = self._search(rows, carried, moment)
        except Exception as error:  # whatever goes wrong with one object is said of that object
            reason = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
            return Judged(row=unknown(reason) | {"judged": len(ending)} | counts, taken=len(ending))
        return Judged(row=_row(judgement) | counts, taken=len(ending), obstacle=obstacle)

    def _search(self, rows: pa.Table, carried: int, moment: int | None) -> tuple[KeyJudgement, str | None]:
        """The judgement, and why nothing can be carried on, if that is so."""
        operations, model = operations_of(rows), self._task.model
        start = Start(configs=((model.initial(), frozenset()),)) if self._carried is None else self._carried.start
        window = Window(
            key=self._number,
            model=model,
            budget=self._task.budget,
            operations=operations,
            carried=carried,
            start=start,
            stop=None if moment is None else _events_before(rows, moment),
        )
        judgement, left = judge_window(window)
        if left is None or moment is None:
            return judgement, None
        self._carried = _carried(rows, operations, relevant(operations, model), left, moment)
        return judgement, _too_much(self._carried)


class WholeLink(Link):
    """One object of a model that takes objects apart in a way of its own: its history is judged in one piece."""

    def __init__(self, task: Task) -> None:
        self.asked = self._most = task.call_operations_max
        self._task = task

    def window(self, rows: pa.Table) -> Judged | None:  # noqa: ARG002 (for other links)
        """It cannot be cut."""
        return None

    def rest(self, rows: pa.Table) -> Row:
        row: Row = judge_bucket(rows, self._task).to_pylist()[0]
        return row


def _row(judgement: KeyJudgement) -> Row:
    return {
        **unknown(""),
        "judged": judgement.operations,
        "decided": judgement.decided,
        "configurations": judgement.configurations,
        **evidence_of(judgement),
    }


def _quiet(rows: pa.Table, carried: int, least: int) -> int:
    """How many rows after the ``carried`` ones are before the cut; the last one only tells when that is."""
    own: int = rows.num_rows - carried
    latest = np.maximum.accumulate(ints(rows, "returned", _NEVER_YET))
    is_quiet: Bools = latest[:-1] < ints(rows, "invoked", 0)[1:]
    places = np.flatnonzero(is_quiet[max(0, carried + least - 1) :])
    return min(least + int(places[0]), own - 1) if len(places) else own - 1


def _events_before(rows: pa.Table, moment: int) -> int:
    """The position of the first event at ``moment``: all invocations of ``rows`` are before it."""
    returned: Ints = ints(rows, "returned", _NEVER_YET)
    over = (returned < moment) & rows.column("returned").is_valid().to_numpy()
    return len(over) + int(over.sum())


def _carried(
    rows: pa.Table, operations: Sequence[Operation], telling: Sequence[Operation], left: Start, moment: int
) -> _Carried:
    """What is pending at ``moment``, with configurations that name it by its new places."""
    returned = ints(rows, "returned", _NEVER_YET)
    pending = (returned >= moment) | ~rows.column("returned").is_valid().to_numpy()
    told = {operation.invoked for operation in telling}
    behind = frozenset.intersection(*(effective for _, effective in left.configs))
    is_unknown = ints(rows, "ending", 0) == Ending.INFO
    kept = [
        place
        for place in np.flatnonzero(pending).tolist()
        if (position := operations[place].invoked) in told and not (is_unknown[place] and position in behind)
    ]
    places = {operations[place].invoked: new for new, place in enumerate(kept)}
    configs = (
        (state, frozenset(places[position] for position in effective if position in places))
        for state, effective in left.configs
    )
    start = _bounded(Start(configs=tuple(configs), is_all=left.is_all))
    return _Carried(rows=rows.take(pa.array(kept, pa.int64())), start=start)


def _bounded(start: Start) -> Start:
    """As many of the configurations as may be carried, and at least one."""
    elements = np.cumsum([_size(state) for state, _ in start.configs])
    most = max(1, int(np.searchsorted(elements, ELEMENTS_MAX, side="right")))
    return start if most >= len(elements) else Start(configs=start.configs[:most], is_all=False)


def _too_much(carried: _Carried) -> str | None:
    """Why that cannot be carried, if it is so."""
    elements = _size(carried.start.configs[0][0])
    if elements > ELEMENTS_MAX:
        return f"where it was cut its state has {elements} elements, more than {ELEMENTS_MAX}"
    if carried.rows.num_rows > PENDING_MAX:
        return f"where it was cut {carried.rows.num_rows} operations were pending, more than {PENDING_MAX}"
    return None


def _size(state: Value) -> int:
    return 1 + (len(state) if isinstance(state, tuple | frozenset | str | bytes) else 0)
