"""The evidence of a conviction: of the operations on an object those that contradict each other, and no other.

Owns asking whether what is left of a history has an order, within a budget of its own: a conviction stands without
its evidence. Source: as ``core_operations``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from nemesis.linearizability import search
from nemesis.linearizability.beam import Answer
from nemesis.linearizability.case import RULES, Case, case_of, register_walk
from nemesis.linearizability.core_operations import CoreOperations, can_be_unknown, core_of, forgotten
from nemesis.linearizability.counterexample import doubt_of
from nemesis.linearizability.forms import EVER, RegisterForm, RegisterKind
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.model import Model
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.violation import InapplicableError

EVIDENCE_MAX = 20
"""Of so many objects of one history the evidence is looked for."""
CORE_CONFIGURATIONS = 30_000
"""How many configurations all questions may visit that find the operations to tell of: a second or two."""
CORE_REGISTER_CONFIGURATIONS = 1_000_000
"""The same for registers, whose search is many times as fast."""


def explained(
    judgements: Sequence[KeyJudgement],
    parts: Mapping[Hashable, Sequence[Operation]],
    model: Model,
    budget: Budget,
    *,
    accelerated: bool = True,
    evidence_max: int = EVER,
) -> list[KeyJudgement]:
    """The same judgements, of which ``evidence_max`` convictions tell what contradicts itself and nothing else.

    ``parts`` are all operations on each object. The evidence of one object may take a second or two, so that of
    thousands of them only the ``clearest`` get theirs; of the others is told what a rule names or what went on then.
    """
    chosen = {judgement.key for judgement in clearest(judgements, evidence_max)}
    return [
        _explained(found, parts[found.key], model, budget, accelerated) if found.key in chosen else found
        for found in judgements
    ]


def clearest(judgements: Iterable[KeyJudgement], count: int) -> list[KeyJudgement]:
    """So many of those that are invalid: first those without a doubt where they go wrong, then the shortest."""
    invalid = [found for found in judgements if found.counterexample is not None]
    return sorted(invalid, key=lambda found: (_of(found).undecided, found.operations))[:count]


def _of(judgement: KeyJudgement) -> Counterexample:
    assert judgement.counterexample is not None, f"{judgement.key} is {judgement.verdict}"
    return judgement.counterexample


def _explained(
    judgement: KeyJudgement, recorded: Sequence[Operation], model: Model, budget: Budget, accelerated: bool
) -> KeyJudgement:
    """The conviction with its evidence; as it is where that is not found, whatever goes wrong."""
    example = _of(judgement)
    assert example.last.returned is not None, f"line {example.last.line} never returned"
    named = example.operations if judgement.kernel in RULES else ()
    core: CoreOperations | None = None
    broken: str | None = None
    with suppress(Exception):
        case = case_of(judgement.key, recorded, model, budget, accelerated)
        can_be = can_be_unknown(recorded, model)
        core = core_of(can_be, example.last.returned, named, _Questions(case), partial(_without_unseen, case))
        broken = None if core is None else _broken_rule(case_of(judgement.key, core.history, model, budget))
    if core is None:
        return judgement
    members = {operation.invoked: operation for operation in (example.last, *core.operations)}
    told = replace(
        example,
        last=members[example.last.invoked],
        operations=tuple(members[invoked] for invoked in sorted(members)),
        reason=example.reason if broken is None else broken + doubt_of(example.undecided),
        is_minimal=core.is_minimal and any(example.last.invoked == op.invoked for op in core.operations),
    )
    return replace(judgement, counterexample=told)


class _Questions:
    """Whether histories have an order, by the kernel that decides each fastest; all of them within one budget.

    What is forgotten makes a history harder to search. So each question may take half of what is left.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._left = min(CORE_CONFIGURATIONS, case.budget.limit(len(case.operations)))
        self._left_of_registers = min(CORE_REGISTER_CONFIGURATIONS, case.budget.limit(len(case.operations)))

    def __call__(self, operations: Sequence[Operation]) -> Answer:
        """YES, NO, or UNDECIDED where the budget ends."""
        case = case_of(self._case.key, operations, self._case.model, self._case.budget, self._case.accelerated)
        for rule in RULES.values():
            with suppress(InapplicableError):
                return Answer.YES if rule(case) is None else Answer.NO
        with suppress(InapplicableError):
            _, walked = register_walk(case, self._half(self._left_of_registers))
            self._left_of_registers -= walked.visited
            return walked.answer
        found = search.Search(case.operations, case.model, self._half(self._left)).run()
        self._left -= found.visited
        return found.answer

    def _half(self, left: int) -> Budget:
        return Budget(configurations=max(left // 2, 1), frontier=self._case.budget.frontier)


def _without_unseen(case: Case, operations: Sequence[Operation]) -> Sequence[Operation]:
    """The history without unknown operations that explain nothing, also if what is known to have failed had not."""
    undone = [forgotten(operation) for operation in operations if operation.outcome is Outcome.FAIL]
    seen = _seen(case_of(case.key, [*operations, *undone], case.model, case.budget))
    return [op for op in operations if op.outcome is not Outcome.INFO or op.invoked in seen]


def _broken_rule(case: Case) -> str | None:
    """What contradicts itself, in the words of the rule that is broken; None if only a search knows."""
    for rule in RULES.values():
        with suppress(InapplicableError):
            return None if (found := rule(case)) is None else found.reason
    return None


def _seen(case: Case) -> set[int]:
    """When those operations began that may explain something.

    An unknown write to a register explains nothing if nobody is known to have met what it wrote. A read that saw
    anything but one value may have met any of them.
    """
    forms = [form for form in case.forms if isinstance(form, RegisterForm)]
    if len(forms) < len(case.forms) or any(form.kind is RegisterKind.MISS for form in forms):
        return {operation.invoked for operation in case.operations}
    unknown: defaultdict[Value, list[int]] = defaultdict(list)
    seen: list[int] = []
    for k, form in enumerate(forms):
        if case.operations[k].outcome is Outcome.INFO:
            unknown[form.new if form.kind is RegisterKind.CAS else form.value].append(k)
        else:
            seen.append(k)
    for k in seen:
        if forms[k].kind is not RegisterKind.WRITE:
            seen += unknown.pop(forms[k].value, ())
    return {case.operations[k].invoked for k in seen}
