"""One object's history, and what decides it: as operations that say something, and in the languages of fast kernels.

Owns what the kernels and the evidence share: the case, the rules that decide without a search, and the search that
knows registers. Says nothing of why a history is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from nemesis.linearizability import accelerator, lists, logs, register_events, register_search, sets, zones
from nemesis.linearizability.beam import Finding
from nemesis.linearizability.counterexample import decided
from nemesis.linearizability.forms import (
    AddForm,
    AppendForm,
    FetchForm,
    Form,
    MembersForm,
    RegisterForm,
    WholeForm,
)
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.violation import InapplicableError, Violation
from nemesis.verdict import Verdict

F = TypeVar("F", bound=Form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One object's history: what was recorded; what of it says something, by invocations, and means to fast kernels."""

    key: Hashable
    model: Model
    recorded: Sequence[Operation]
    operations: list[Operation]
    forms: list[Form | None]
    budget: Budget
    accelerated: bool

    def judgement(
        self,
        kernel: str,
        *,
        end: int | None = None,
        configurations: int = 0,
        counterexample: Counterexample | None = None,
        reason: str | None = None,
    ) -> KeyJudgement:
        """*Valid* with neither ``counterexample`` nor ``reason``; else ``end`` is the first return in doubt."""
        verdict = Verdict.VALID
        if reason is not None:
            verdict = Verdict.UNKNOWN
        elif counterexample is not None:
            verdict = Verdict.INVALID
        return KeyJudgement(
            key=self.key,
            verdict=verdict,
            kernel=kernel,
            operations=len(self.operations),
            decided=len(self.operations) if end is None else decided(self.operations, end),
            configurations=configurations,
            counterexample=counterexample,
            reason=reason,
        )


def case_of(
    key: Hashable, operations: Sequence[Operation], model: Model, budget: Budget, accelerated: bool = True
) -> Case:
    """The case of one object: of its ``operations`` those that say something, and what they mean to fast kernels."""
    kept = relevant(operations, model)
    forms = [model.form(operation) for operation in kept]
    if set(map(type, forms)) <= {RegisterForm}:
        # An unknown compare-and-set of a value with itself changes nothing, unless somebody asks for versions.
        idle = {
            k
            for k, form in enumerate(forms)
            if kept[k].outcome is Outcome.INFO and isinstance(form, RegisterForm) and form.reads_only
        }
        if idle:
            kept = [operation for k, operation in enumerate(kept) if k not in idle]
            forms = [form for k, form in enumerate(forms) if k not in idle]
    return Case(
        key=key,
        model=model,
        recorded=operations,
        operations=kept,
        forms=forms,
        budget=budget,
        accelerated=accelerated,
    )


def _zones(case: Case) -> Violation | None:
    return zones.violation_of(case.operations, _registers(case), case.model.register_initial())


def _logs(case: Case) -> Violation | None:
    forms = [form for form in case.forms if isinstance(form, AppendForm | FetchForm)]
    return logs.violation_of(case.operations, _all(case, forms))


def _lists(case: Case) -> Violation | None:
    forms = [
        form
        for form in case.forms
        if isinstance(form, WholeForm)
        or (isinstance(form, AppendForm) and form.base is None and len(form.records) == 1)
    ]
    return lists.violation_of(case.operations, _all(case, forms))


def _sets(case: Case) -> Violation | None:
    forms = [form for form in case.forms if isinstance(form, AddForm | MembersForm)]
    return sets.violation_of(case.operations, _all(case, forms))


def _registers(case: Case) -> list[RegisterForm]:
    return _all(case, [form for form in case.forms if isinstance(form, RegisterForm)])


def _all(case: Case, forms: list[F]) -> list[F]:
    if len(forms) < len(case.forms):
        raise InapplicableError("an operation has no meaning to this kernel")
    return forms


def register_walk(case: Case, budget: Budget) -> tuple[register_events.RegisterEvents, Finding[Any]]:
    """What the search that knows registers finds. Raises InapplicableError where an operation is none of a register."""
    history = register_events.encode(case.operations, _registers(case), case.model.register_initial())
    runs = accelerator.runs_over(history, accelerated=case.accelerated)
    return history, register_search.search(len(history.events), budget, runs)


RULES: Mapping[str, Callable[[Case], Violation | None]] = MappingProxyType(
    {"zones": _zones, "logs": _logs, "lists": _lists, "sets": _sets}
)
"""What decides without a search; raises InapplicableError where it cannot."""
