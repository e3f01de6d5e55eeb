"""Registers of many objects at once: those that the first runs in C prove right, without a look at each operation.

Owns the short way from operations to columns. Operations that ask and are answered alike mean the same, so the model is
asked once for each different one, and all objects go to C in one call. What is not proved here, or does not fit, is
judged as if nobody had looked: so verdicts and evidence are those of ``kernel``, and only the time differs.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from ctypes import CDLL
from itertools import compress, pairwise
from operator import attrgetter
from typing import NamedTuple

from nemesis.linearizability import accelerator
from nemesis.linearizability.beam import Answer
from nemesis.linearizability.forms import EVER, RegisterForm, RegisterKind
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.model import Model
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.register_events import RegisterColumns

What = tuple[Outcome, str, Value, Value]
"""The outcome, f, argument and result of an operation."""

_WHAT = attrgetter("outcome", "f", "argument", "result")
OPERATIONS_MIN = 500
"""So many operations are worth it; fewer are judged as fast one by one."""
MEANINGS_MAX = 20_000
"""Where more of them differ, as where each value is written once, nothing is gained."""

_SILENT, _UNFIT = 0, 1
"""The numbers of meanings that are none: says nothing, and is for another kernel."""
_CHANGES_NOTHING = -1


class Proof(NamedTuple):
    """What is known of an object that is right.

    ``operations`` is how many say something, ``visited`` the configurations that the search went over, and ``unique``
    whether each value was there once, so that ``zones`` would have decided.
    """

    operations: int
    visited: int
    unique: bool


class TooManyMeaningsError(Exception):
    """Hardly any two operations ask and are answered alike."""


class _Meanings(dict[What, int]):
    """By what was asked and answered, the number of its meaning: its place in the columns of this class."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._ids: dict[Value, int] = {model.register_initial(): 0}
        self.kinds = [0, 0]
        self.operands = [0, 0]
        self.news = [0, 0]
        self.written = [_CHANGES_NOTHING, _CHANGES_NOTHING]
        self.has_unfit = self.has_silent = False

    def __missing__(self, what: What) -> int:
        if len(self) >= MEANINGS_MAX:
            raise TooManyMeaningsError
        try:
            number = self._number(_operation(what))
        except Exception:  # whoever judges this object alone will say what is wrong with it
            number = _UNFIT
        self.has_unfit = self.has_unfit or number == _UNFIT
        self.has_silent = self.has_silent or number == _SILENT
        self[what] = number
        return number

    def _number(self, operation: Operation) -> int:
        told = operation
        if operation.outcome is Outcome.FAIL:
            proof = self._model.evidence(operation)
            if proof is None:
                return _SILENT
            told = proof
        elif operation.outcome is Outcome.INFO and self._model.reads_only(operation):
            return _SILENT
        elif operation.argument is not None and operation.result == 0:
            return _UNFIT  # false, which a model may refuse, equals 0
        form = self._model.form(told)
        if not isinstance(form, RegisterForm):
            return _UNFIT
        if operation.outcome is Outcome.INFO and form.reads_only:
            return _SILENT
        return self._new(form)

    def _new(self, form: RegisterForm) -> int:
        ids = self._ids
        value, new = (ids.setdefault(one, len(ids)) for one in (form.value, form.new))
        self.kinds.append(form.kind)
        self.operands.append(value)
        self.news.append(new)
        self.written.append({RegisterKind.WRITE: value, RegisterKind.CAS: new}.get(form.kind, _CHANGES_NOTHING))
        return len(self.kinds) - 1

    def are_unique(self, numbers: Iterable[int]) -> bool:
        """Whether a register with operations of these meanings had each value once, and none that it began with."""
        seen = {0}
        for number in numbers:
            written = self.written[number]
            if written in seen or self.kinds[number] == RegisterKind.MISS:
                return False
            if written != _CHANGES_NOTHING:
                seen.add(written)
        return True


def _operation(what: What) -> Operation:
    outcome, f, argument, result = what
    return Operation(
        process=None,
        f=f,
        key=None,
        argument=argument,
        result=result,
        outcome=outcome,
        invoked=0,
        returned=None,
        line=0,
    )


def proofs(
    parts: Mapping[Hashable, Sequence[Operation]], model: Model, budget: Budget, native: CDLL
) -> dict[Hashable, Proof]:
    """What is proved, by object; of the others, which may be all, nothing is said."""
    # A subclass may look at more than the model that it was made from.
    if not vars(type(model)).get("told_by_values", False):
        return {}
    meanings = _Meanings(model)
    keys: list[Hashable] = []
    rows = _Rows()
    for key, part in parts.items():
        operations = sorted(part, key=attrgetter("invoked"))
        numbers = list(map(meanings.__getitem__, map(_WHAT, operations)))
        if meanings.has_unfit and _UNFIT in numbers:
            continue
        if meanings.has_silent and _SILENT in numbers:
            operations = list(compress(operations, numbers))
            numbers = list(filter(None, numbers))
        keys.append(key)
        rows.add(operations, numbers)
    if not keys:
        return {}
    answers = accelerator.first_answers(rows.columns(meanings), budget, native)
    return {
        key: Proof(len(numbers), found.visited, meanings.are_unique(numbers))
        for key, numbers, found in zip(keys, rows.parts(), answers, strict=True)
        if found.answer is Answer.YES
    }


class _Rows:
    """What is kept of the operations of objects: the numbers of what they mean, and when they were."""

    def __init__(self) -> None:
        self._starts = array("q", [0])
        self._numbers, self._invoked, self._returned = (array("q") for _ in range(3))

    def add(self, operations: Sequence[Operation], numbers: Sequence[int]) -> None:
        """Those of the next object."""
        self._numbers.extend(numbers)
        self._invoked.extend(operation.invoked for operation in operations)
        self._returned.extend(EVER if one.returned is None else one.returned for one in operations)
        self._starts.append(len(self._numbers))

    def parts(self) -> Iterator[Sequence[int]]:
        """The numbers of each object."""
        return (self._numbers[begin:end] for begin, end in pairwise(self._starts))

    def columns(self, meanings: _Meanings) -> RegisterColumns:
        """The columns of all objects."""
        kinds, values, news = meanings.kinds, meanings.operands, meanings.news
        return RegisterColumns(
            starts=self._starts,
            initial=array("q", bytes(8 * (len(self._starts) - 1))),
            kinds=array("q", (kinds[number] for number in self._numbers)),
            values=array("q", (values[number] for number in self._numbers)),
            news=array("q", (news[number] for number in self._numbers)),
            invoked=self._invoked,
            returned=self._returned,
        )
