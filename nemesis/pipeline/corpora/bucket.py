"""One bucket: operations of many objects in, their judgements out. Every engine calls this and nothing else.

Owns the way from rows to the kernels and back, and the bound on memory: rows are gathered until there are enough for a
call, and of a window that does not fit no more is kept than how many operations it has. A window that is malformed is
*unknown*, with the line, and stops no other; so is one of which the model has no such operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nemesis.formats.edn_text import edn_text
from nemesis.linearizability.arrays.columns import CALL_OPERATIONS_MAX, NIL, Ending, Function, Ints, dense, starts_of
from nemesis.linearizability.arrays.judge import SEARCH_OPERATIONS_MAX, Judged, cut_from, judge_columns
from nemesis.linearizability.judgement import Budget, KeyJudgement
from nemesis.linearizability.model import Model, ModelError
from nemesis.linearizability.operations import Operation
from nemesis.pipeline.corpora.encoding import columns_of, ints, operations_of
from nemesis.pipeline.corpora.parts import convicted
from nemesis.pipeline.corpora.schemas import JUDGEMENT_ROWS, OPERATION_ROWS
from nemesis.verdict import Verdict

_WINDOWS_MAX = 2**31
"""How many windows an object may have: an object and its window are one number."""
VALUE_CHARS_MAX = 200
"""How much of a value is told in the evidence."""
STATES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is asked of a bucket. Workers get it pickled."""

    model: Model
    budget: Budget
    call_operations_max: int = CALL_OPERATIONS_MAX


Reading = Callable[[pa.Table], list[Operation]]
"""How rows of one object are read as operations."""


def judge_bucket(rows: pa.Table, task: Task, reading: Reading = operations_of) -> pa.Table:
    """The judgements (``JUDGEMENT_ROWS``) of all objects that ``rows`` are of, which are all that there are of them.

    ``rows`` have columns of ``OPERATION_ROWS``; where histories were cut also ``window`` and ``begins_with``.
    """
    if not rows.num_rows:
        return JUDGEMENT_ROWS.empty_table()
    windows = ints(rows, "window", 0)
    units, numbers = dense(ints(rows, "object", 0)) if not windows.any() else _units(rows, windows)
    unit_rows = _Units(rows, numbers, len(units), task.model, reading)
    spoiled = malformed(rows, numbers)
    initial = None if cut_from(task.model) is None else _initial(rows, numbers, len(units))
    columns = columns_of(*_sound(rows, numbers, spoiled), len(units))
    judged = judge_columns(columns, task.model, task.budget, unit_rows.operations, initial=initial)
    told = (
        judged.told
        | _convicted(judged, unit_rows, task, initial)
        | {
            number: KeyJudgement.undecided(number, int(unit_rows.counts[number]), "", reason)
            for number, reason in (spoiled | unit_rows.misfits).items()
        }
    )
    first = unit_rows.first
    return _judgements(ints(rows, "object", 0)[first], windows[first], rows, numbers, judged, told)


def _convicted(judged: Judged, units: _Units, task: Task, initial: Ints | None) -> dict[int, KeyJudgement]:
    """Units that are too large to be judged one by one, and yet wrong: by parts of them."""
    first = cut_from(task.model)
    found: dict[int, KeyJudgement] = {}
    for number, judgement in judged.told.items():
        if first is None or judgement.verdict is not Verdict.UNKNOWN or units.counts[number] <= SEARCH_OPERATIONS_MAX:
            continue
        begin = first if initial is None else int(initial[number])
        limits = {"number": number, "operations_max": SEARCH_OPERATIONS_MAX}
        by_part = convicted(units.rows(number), task.model, begin, task.budget, **limits)
        if by_part is not None:
            found[number] = by_part
    return found


def _units(rows: pa.Table, windows: Ints) -> tuple[Ints, Ints]:
    """What is judged by itself: a window of an object."""
    objects, places = dense(ints(rows, "object", 0))
    assert len(objects) < _WINDOWS_MAX, f"{len(objects)} objects in one call"
    return dense(places * _WINDOWS_MAX + windows)


class _Units:
    """The rows of each unit, sorted when somebody asks for them.

    ``misfits`` are those that the model cannot take apart. Nothing is given out of such a one: an error on a worker
    would end the whole job.
    """

    def __init__(self, rows: pa.Table, numbers: Ints, units: int, model: Model, reading: Reading) -> None:
        self._rows, self._numbers, self._model, self._reading = rows, numbers, model, reading
        self.misfits: dict[int, str] = {}
        self._sorted: pa.Table | None = None
        self.counts = np.bincount(numbers, minlength=units)
        self._ends = np.cumsum(self.counts)
        self.first = np.empty(units, dtype=np.int64)
        self.first[numbers[::-1]] = np.arange(len(numbers))[::-1]

    def rows(self, number: int) -> pa.Table:
        """The rows of a unit."""
        if self._sorted is None:
            order = pa.array(np.argsort(self._numbers, kind="stable"))
            self._sorted = completed(self._rows).take(order).combine_chunks()
        count = int(self.counts[number])
        return self._sorted.slice(int(self._ends[number]) - count, count)

    def operations(self, number: int) -> Sequence[Operation]:
        """The operations of a unit."""
        found = self._reading(self.rows(number))
        try:
            self._model.partition(found)
        except Exception as error:
            self.misfits[number] = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
            return ()
        return found


def completed(rows: pa.Table) -> pa.Table:
    """The rows with every column of ``OPERATION_ROWS``."""
    count = rows.num_rows
    columns = {
        field.name: rows.column(field.name) if field.name in rows.schema.names else pa.nulls(count, field.type)
        for field in OPERATION_ROWS
    }
    return pa.table(columns)


def _sound(rows: pa.Table, numbers: Ints, spoiled: dict[int, str]) -> tuple[pa.Table, Ints]:
    """The rows of units with nothing malformed in them, and whose they are."""
    if not spoiled:
        return rows, numbers
    kept = ~np.isin(numbers, list(spoiled))
    return rows.filter(pa.array(kept)), numbers[kept]


def malformed(rows: pa.Table, numbers: Ints) -> dict[int, str]:
    """What is wrong with units that have an operation which cannot be; ``numbers`` says of which unit each row is."""
    function, ending = ints(rows, "function", -1), ints(rows, "ending", -1)
    returned = rows.column("returned")
    ended = returned.is_valid().to_numpy()
    times = ints(rows, "returned", 0)
    is_known = (ending == Ending.OK) | (ending == Ending.FAIL)
    wrong = (function < Function.OTHER) | (function > Function.STALE_FETCH) | ~(is_known | (ending == Ending.INFO))
    wrong |= is_known & (~ended | (times < ints(rows, "invoked", 0)))
    lines = ints(rows, "line", 0)
    places = np.flatnonzero(wrong)[::-1]
    return {
        int(numbers[k]): f"line {lines[k]}: an operation of no known kind, or that is over before it begins"
        for k in places
    }


def _initial(rows: pa.Table, numbers: Ints, units: int) -> Ints | None:
    """The value that each unit begins with, where histories were cut."""
    if "begins_with" not in rows.schema.names:
        return None
    initial = np.full(units, NIL)
    initial[numbers] = ints(rows, "begins_with", NIL)
    return initial


def _judgements(
    objects: Ints, windows: Ints, rows: pa.Table, numbers: Ints, judged: Judged, told: dict[int, KeyJudgement]
) -> pa.Table:
    units = len(objects)
    info = np.bincount(numbers[ints(rows, "ending", 0) == Ending.INFO], minlength=units)
    counted = judged.operations.astype(np.int64)
    columns: dict[str, Any] = {
        "object": objects,
        "window": windows.astype(np.int32),
        "operations": np.bincount(numbers, minlength=units),
        "unknown_outcomes": info,
        "judged": counted.copy(),
        "decided": counted.copy(),
        "configurations": np.zeros(units, dtype=np.int64),
    }
    texts: dict[str, list[Any]] = {
        # The first kernel decides what says nothing at all.
        "kernel": [judged.kernel if count else "zones" for count in counted.tolist()],
        "verdict": [Verdict.VALID.value] * units,
        **{name: [None] * units for name in ("reason", "last_line", "conflict", "states")},
    }
    for number, judgement in told.items():
        columns["judged"][number] = judgement.operations
        columns["decided"][number] = judgement.decided
        columns["configurations"][number] = judgement.configurations
        for name, value in evidence_of(judgement).items():
            texts[name][number] = value
    return pa.table({**columns, **texts}, schema=JUDGEMENT_ROWS)


def evidence_of(judgement: KeyJudgement) -> dict[str, Any]:
    """The columns of text of ``JUDGEMENT_ROWS`` that say something."""
    found = judgement.counterexample
    known = {"kernel": judgement.kernel, "verdict": judgement.verdict.value, "reason": judgement.reason}
    if found is None:
        return known
    return known | {
        "reason": found.reason,
        "last_line": found.last.line,
        "conflict": [told(operation) for operation in found.operations],
        "states": [_shown(state) for state in found.states[:STATES_MAX]],
    }


def told(operation: Operation) -> dict[str, Any]:
    """An operation in the evidence, its values in EDN."""
    return {
        "line": operation.line,
        "process": _shown(operation.process),
        "f": operation.f,
        "argument": _shown(operation.argument),
        "result": _shown(operation.result),
        "outcome": operation.outcome.value,
    }


def _shown(value: Any) -> str:
    """The value in EDN, or as Python writes it where a model has states that no file can hold."""
    try:
        text = edn_text(value)
    except AssertionError:
        text = repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


def judge_sorted(batches: Iterable[pa.RecordBatch], task: Task, call_operations: int) -> Iterator[pa.Table]:
    """Judge windows that come in order of (object, window), about ``call_operations`` at a time.

    Of a window with more than the task's maximum nothing is kept but its size: it is *unknown*.
    """
    held: list[pa.Table] = []
    held_rows = 0
    for window in _windows(batches, task.call_operations_max):
        if not window.rows:
            yield window.too_large(task.call_operations_max)
            continue
        if held and held_rows + window.count > max(call_operations, window.count):
            yield judge_bucket(pa.concat_tables(held).combine_chunks(), task)
            held, held_rows = [], 0
        held += window.rows
        held_rows += window.count
    if held:
        yield judge_bucket(pa.concat_tables(held).combine_chunks(), task)


@dataclass(slots=True)
class _Window:
    """One window; no rows if there are too many."""

    object: int
    window: int
    rows: list[pa.Table]
    count: int = 0
    unknown_outcomes: int = 0

    def add(self, rows: pa.Table, rows_max: int) -> None:
        """Take more rows, or drop them all."""
        self.count += rows.num_rows
        self.unknown_outcomes += int((ints(rows, "ending", 0) == Ending.INFO).sum())
        self.rows = [*self.rows, rows] if self.count <= rows_max else []

    def too_large(self, rows_max: int) -> pa.Table:
        """The judgement of what was dropped."""
        row = {
            **{name: getattr(self, name) for name in ("object", "window", "unknown_outcomes")},
            **{"operations": self.count, "judged": self.count, "decided": 0, "configurations": 0, "kernel": ""},
            "verdict": Verdict.UNKNOWN.value,
            "reason": f"{self.count} operations follow one another without a moment at which nothing is pending and "
            f"the value is known; at most {rows_max} are judged at once",
        }
        return pa.Table.from_pylist([row], schema=JUDGEMENT_ROWS)


def _windows(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[_Window]:
    """The rows by windows, one after the other."""
    current: _Window | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        objects, windows = ints(table, "object", 0), ints(table, "window", 0)
        starts = starts_of(objects, windows).tolist()
        for begin, end in zip(starts, [*starts[1:], len(objects)], strict=True):
            unit = int(objects[begin]), int(windows[begin])
            if current is None or (current.object, current.window) != unit:
                if current is not None:
                    yield current
                current = _Window(*unit, rows=[])
            current.add(table.slice(begin, end - begin), rows_max)
    if current is not None:
        yield current
