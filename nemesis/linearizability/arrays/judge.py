"""The judgement of operations that are columns: one call for the objects that are right, one each for the others.

Owns who judges what. The kernels on columns prove most objects right. Whatever they do not prove goes, as operations,
to the kernels of single objects, whose verdict and evidence count: so both ways give the same. What would take too much
memory there is *unknown*, or, where the columns convict it, told without the conflicting operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nemesis.linearizability.arrays import logs, registers
from nemesis.linearizability.arrays.beginning import Beginning
from nemesis.linearizability.arrays.columns import NIL, Columns, Decided, Decision, Ints
from nemesis.linearizability.judgement import Budget, KeyJudgement
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model
from nemesis.linearizability.models.log import Log
from nemesis.linearizability.models.register import CasRegister, Register
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.verdict import Verdict

SEARCH_OPERATIONS_MAX = 500_000
"""How many operations of one object are judged as Python's values, of about 400 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The judgements of all objects of a call, by their numbers.

    Objects in ``told`` were judged one by one. All others are *valid*, by ``kernel``, and ``operations`` of them say
    something.
    """

    kernel: str
    operations: Ints
    told: dict[int, KeyJudgement]


def judge_columns(
    columns: Columns,
    model: Model,
    budget: Budget,
    operations_of: Callable[[int], Sequence[Operation]],
    *,
    initial: Ints | None = None,
) -> Judged:
    """Judge every object. ``operations_of`` gives the operations of the object of a number, for those not proved right.

    ``initial`` are the values that registers begin with, one an object; without it all begin as the model says.
    """
    kernel, decided = _decided(columns, model, initial)
    counts = np.bincount(columns.object, minlength=columns.objects)
    told: dict[int, KeyJudgement] = {}
    for number in np.flatnonzero((decided.decisions != Decision.VALID) & (counts > 0)).tolist():
        own = model if initial is None else Beginning(model, value_of(int(initial[number])))
        count, decision = int(counts[number]), Decision(int(decided.decisions[number]))
        if count > SEARCH_OPERATIONS_MAX:
            told[number] = _too_many(number, count, kernel, decision)
        else:
            told[number] = _judged_alone(number, operations_of(number), own, budget, decision)
    return Judged(kernel=kernel, operations=decided.operations, told=told)


def value_of(number: int) -> Value:
    """The value that a number in a column stands for."""
    return None if number == NIL else number


def cut_from(model: Model) -> int | None:
    """The value that objects begin with, if a history can be cut: if the last write says all, and numbers say it."""
    return number_of(model.register_initial()) if type(model) in (Register, CasRegister) else None


def _decided(columns: Columns, model: Model, initial: Ints | None) -> tuple[str, Decided]:
    """What the kernels on columns say, and which of them."""
    if type(model) is Log:
        return "logs", logs.decide(columns)
    if type(model) in (Register, CasRegister):
        first = number_of(model.register_initial())
        if initial is None and first is not None:
            initial = np.full(columns.objects, first)
        if initial is not None:
            has_cas, misses_tell = type(model) is CasRegister, _misses_tell(model)
            return "zones", registers.decide(columns, initial, has_cas=has_cas, misses_tell=misses_tell)
    nobody = np.zeros(columns.objects, dtype=np.int64)
    return "", Decided(decisions=np.full(columns.objects, Decision.UNDECIDED, dtype=np.int8), operations=nobody)


def number_of(value: Value) -> int | None:
    """The number that stands for ``value`` in a column; None if there is none."""
    if value is None:
        return NIL
    return value if type(value) is int and NIL < value < 2**63 else None


def _misses_tell(model: Model) -> bool:
    """Whether a failed compare-and-set that returned nothing proves something to this model."""
    probe = Operation(
        process=0, f="cas", key=None, argument=(1, 2), result=None, outcome=Outcome.FAIL, invoked=0, returned=1, line=1
    )
    return model.evidence(probe) is not None


def _judged_alone(
    number: int, operations: Sequence[Operation], model: Model, budget: Budget, decision: Decision
) -> KeyJudgement:
    found = combined(number, judge(operations, model, budget))
    if decision is Decision.VIOLATED and found.verdict is Verdict.VALID:
        # Two kernels that share no code contradict each other: one of them is wrong.
        reason = f"the columns contradict a rule, and {found.kernel} finds an order"
        return replace(found, verdict=Verdict.UNKNOWN, decided=0, reason=reason)
    return found


def combined(number: int, judgements: Sequence[KeyJudgement]) -> KeyJudgement:
    """The judgement of an object whose model takes it apart: the worst verdict, and all the work."""
    if not judgements:
        return KeyJudgement(key=number, verdict=Verdict.VALID, kernel="", operations=0, decided=0, configurations=0)
    worst = max(judgements, key=lambda judgement: judgement.verdict.badness)
    return replace(
        worst,
        key=number,
        operations=sum(judgement.operations for judgement in judgements),
        decided=sum(judgement.decided for judgement in judgements),
        configurations=sum(judgement.configurations for judgement in judgements),
    )


def _too_many(number: int, count: int, kernel: str, decision: Decision) -> KeyJudgement:
    """What is said of an object that would not fit where objects are judged one by one."""
    reason = f"{count} operations without a cut are too many to judge one by one, more than {SEARCH_OPERATIONS_MAX}"
    if decision is Decision.VIOLATED:
        reason = f"a rule of {kernel} is broken; {reason}, so that it is not known where"
    return KeyJudgement.undecided(number, count, kernel, reason)
