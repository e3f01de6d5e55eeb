"""The judgement of a history: each object by the kernel that decides it fastest.

Owns the choice. Histories of registers with unique writes, of logs, of lists and of sets are decided without a search;
other registers by the search that knows registers; everything else by the search that knows the model's ``step`` only.
A kernel that crashes makes its key *unknown*, with the reason, and stops no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from nemesis.linearizability import (
    accelerator,
    lists,
    logs,
    register_batch,
    register_events,
    register_search,
    search,
    sets,
    zones,
)
from nemesis.linearizability.beam import Answer, C, Finding
from nemesis.linearizability.core_operations import CoreOperations, can_be_unknown, core_of
from nemesis.linearizability.counterexample import (
    STATES_MAX,
    Contradiction,
    PrefixSearch,
    Silence,
    decided,
    shortest,
    told,
    until,
)
from nemesis.linearizability.forms import (
    AddForm,
    AppendForm,
    FetchForm,
    Form,
    MembersForm,
    RegisterForm,
    RegisterKind,
    WholeForm,
)
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.register_states import values_before
from nemesis.linearizability.slots import ordered_events
from nemesis.linearizability.violation import InapplicableError, Violation
from nemesis.linearizability.witness import objection
from nemesis.verdict import Verdict

F = TypeVar("F", bound=Form)

CORE_CONFIGURATIONS = 30_000
"""How many configurations all questions may visit that find the operations to tell of: a second or two."""
CORE_REGISTER_CONFIGURATIONS = 1_000_000
"""The same for registers, whose search is many times as fast."""
STATES_WORK = 200_000
"""How many elements of states are tried, so that a kernel that does not search can tell the states at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
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


Kernel = Callable[[_Case], KeyJudgement]


def judge(
    operations: Iterable[Operation],
    model: Model,
    budget: Budget | None = None,
    *,
    witness: Mapping[int, int] | None = None,
    accelerated: bool = True,
) -> list[KeyJudgement]:
    """One judgement for each object, in the order of their first operations.

    ``witness`` maps the lines of operations to their places in a log that the servers kept, for objects that have one;
    see ``witness.objection``. Where it proves nothing, the object is judged without. Unless ``accelerated`` is false,
    registers are searched in C where that is installed; the judgements are the same.
    """
    parts = model.partition(operations)
    budget = budget or Budget()
    proofs = _proofs(parts, model, budget) if accelerated and witness is None else {}
    return [
        _proved(key, proofs[key]) if key in proofs else _judge_key(key, part, model, budget, witness, accelerated)
        for key, part in parts.items()
    ]


def _proofs(
    parts: Mapping[Hashable, Sequence[Operation]], model: Model, budget: Budget
) -> Mapping[Hashable, register_batch.Proof]:
    """The objects that C proves right in one call, if it is there."""
    if sum(map(len, parts.values())) < register_batch.OPERATIONS_MIN or (native := accelerator.loaded()) is None:
        return {}
    with suppress(Exception):  # what is wrong with one object is said of that object, by those who judge it alone
        return register_batch.proofs(parts, model, budget, native)
    return {}


def _proved(key: Hashable, proof: register_batch.Proof) -> KeyJudgement:
    """What the first kernel that can decide would have said."""
    return KeyJudgement(
        key=key,
        verdict=Verdict.VALID,
        kernel="zones" if proof.unique else "register-search",
        operations=proof.operations,
        decided=proof.operations,
        configurations=0 if proof.unique else proof.visited,
    )


def judge_by(
    kernel: str,
    key: Hashable,
    operations: Sequence[Operation],
    model: Model,
    budget: Budget | None = None,
    *,
    accelerated: bool = True,
) -> KeyJudgement:
    """The judgement of one object by the kernel of this name, one of ``KERNELS``.

    Raises InapplicableError if it cannot decide this history.
    """
    return KERNELS[kernel](_case(key, operations, model, budget or Budget(), accelerated))


def _judge_key(
    key: Hashable,
    operations: Sequence[Operation],
    model: Model,
    budget: Budget,
    witness: Mapping[int, int] | None,
    accelerated: bool,
) -> KeyJudgement:
    name = "model"
    try:
        case = _case(key, operations, model, budget, accelerated)
        if witness is not None and objection(case.operations, model, witness) is None:
            return case.judgement("witness")
        for name, kernel in KERNELS.items():  # noqa: B007 (for the reason of a crash)
            with suppress(InapplicableError):
                return kernel(case)
    except Exception as error:  # whatever goes wrong in one key is said of that key
        return KeyJudgement(
            key=key,
            verdict=Verdict.UNKNOWN,
            kernel=name,
            operations=len(operations),
            decided=0,
            configurations=0,
            reason=f"{type(error).__name__} in {name}: {error}",
        )
    raise AssertionError("the general search decides whatever the others do not")


def _case(
    key: Hashable, operations: Sequence[Operation], model: Model, budget: Budget, accelerated: bool = True
) -> _Case:
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
    return _Case(
        key=key,
        model=model,
        recorded=operations,
        operations=kept,
        forms=forms,
        budget=budget,
        accelerated=accelerated,
    )


def _zones(case: _Case) -> Violation | None:
    return zones.violation_of(case.operations, _registers(case), case.model.register_initial())


def _logs(case: _Case) -> Violation | None:
    forms = [form for form in case.forms if isinstance(form, AppendForm | FetchForm)]
    return logs.violation_of(case.operations, _all(case, forms))


def _lists(case: _Case) -> Violation | None:
    forms = [
        form
        for form in case.forms
        if isinstance(form, WholeForm)
        or (isinstance(form, AppendForm) and form.base is None and len(form.records) == 1)
    ]
    return lists.violation_of(case.operations, _all(case, forms))


def _sets(case: _Case) -> Violation | None:
    forms = [form for form in case.forms if isinstance(form, AddForm | MembersForm)]
    return sets.violation_of(case.operations, _all(case, forms))


def _registers(case: _Case) -> list[RegisterForm]:
    return _all(case, [form for form in case.forms if isinstance(form, RegisterForm)])


def _all(case: _Case, forms: list[F]) -> list[F]:
    if len(forms) < len(case.forms):
        raise InapplicableError("an operation has no meaning to this kernel")
    return forms


def _by_rules(name: str, decide: Callable[[_Case], Violation | None]) -> Kernel:
    """The kernel that judges by ``decide``, and cuts the history where that first finds something."""

    def kernel(case: _Case) -> KeyJudgement:
        def rule(end: int) -> Contradiction | Silence:
            cut = _case(case.key, until(case.operations, end), case.model, case.budget)
            try:
                return _contradiction(case, cut, decide(cut)) or Silence.RIGHT
            except InapplicableError:
                return searched.said_of(cut.operations)

        found = _contradiction(case, case, decide(case))
        if found is None:
            return case.judgement(name)
        searched = PrefixSearch(case.model, case.budget)
        cut = shortest(case.operations, found, rule)
        found = cut.found
        states = _states_if_soon_found(case, cut.end)
        example = _told(case, cut.end, states, found.reason, found.operations, cut.undecided)
        return case.judgement(name, end=cut.doubtful, configurations=searched.visited, counterexample=example)

    return kernel


def _contradiction(case: _Case, cut: _Case, found: Violation | None) -> Contradiction | None:
    """``found`` in ``cut``, said of the operations of ``case``."""
    if found is None:
        return None
    whole = {operation.invoked: operation for operation in case.operations}
    members = tuple(whole[cut.operations[k].invoked] for k in found.operations)
    return Contradiction(operations=members, reason=found.reason)


def _register_search(case: _Case) -> KeyJudgement:
    history, found = _register_walk(case, case.budget)
    if found.answer is Answer.YES:
        return case.judgement("register-search", configurations=found.visited)
    states: list[Value] = []
    if found.answer is Answer.NO:
        end = _position(case, history.events[found.died])
        begun = sum(operation.invoked < end for operation in case.operations)
        states = values_before(history, begun, found.died, found.frontier, STATES_MAX)
    return _by_finding("register-search", case, found, history.events, states)


def _register_walk(case: _Case, budget: Budget) -> tuple[register_events.RegisterEvents, Finding[Any]]:
    history = register_events.encode(case.operations, _registers(case), case.model.register_initial())
    runs = accelerator.runs_over(history, accelerated=case.accelerated)
    return history, register_search.search(len(history.events), budget, runs)


def _search(case: _Case) -> KeyJudgement:
    found = search.Search(case.operations, case.model, case.budget).run()
    if found.answer is Answer.YES:
        return case.judgement("search", configurations=found.visited)
    events = ordered_events(case.operations)
    if found.answer is Answer.NO:
        found.reached, found.died = _first_refuted(case, events, found.died)
        states = _states_before(case, events[found.died])
        return _by_finding("search", case, found, events, states)
    return _by_finding("search", case, found, events, [])


def _states_before(case: _Case, event: int) -> list[Value]:
    """States just before the return that is ``event``: without what returns, unless others saw that it took effect."""
    before = _until(case, _position(case, event) - 1)
    others = [operation for operation in before if operation.invoked != case.operations[~event].invoked]
    found = search.Search(others, case.model, case.budget).states_at_end(STATES_MAX)
    return found or search.Search(before, case.model, case.budget).states_at_end(STATES_MAX)


def _states_if_soon_found(case: _Case, end: int) -> list[Value]:
    """States just before the return at ``end``, for a kernel that does not search: none if it takes long to find some.

    Of a register a state is one value; of all else it may be as long as the history before.
    """
    index = next(k for k, operation in enumerate(case.operations) if operation.returned == end)
    size = 1 if isinstance(case.forms[index], RegisterForm) else index + 1
    budget = Budget(configurations=STATES_WORK // size, frontier=case.budget.frontier)
    return _states_before(replace(case, budget=budget), ~index)


def _until(case: _Case, end: int) -> list[Operation]:
    """What says something in the history up to the event at position ``end``, inclusive."""
    return relevant(until(case.operations, end), case.model)


def _first_refuted(case: _Case, events: Sequence[int], died: int) -> tuple[int, int]:
    """The indexes of the first return in doubt, and of the first that is known to refute the history up to there.

    The search died at index ``died`` or before, knowing how the pending operations would end; so it may take longer.
    """
    ends = [index for index, event in enumerate(events) if event < 0 and index >= died]
    known, low, high, step = 0, 0, len(ends) - 1, 1
    while low < high:
        middle = min(low + step - 1, high - 1) if step else (low + high) // 2
        cut = _until(case, _position(case, events[ends[middle]]))
        answer = search.Search(cut, case.model, case.budget).run().answer
        if answer is Answer.NO:
            high, step = middle, 0
        else:
            low, step = middle + 1, step * 2
        known = low if answer is Answer.YES else known
    return ends[known], ends[high]


def _by_finding(
    name: str, case: _Case, found: Finding[C], events: Sequence[int], states: Sequence[Value]
) -> KeyJudgement:
    """The judgement of a history that a search refuted, or could not finish."""
    if found.answer is Answer.UNDECIDED:
        end = next((_position(case, event) for event in events[found.reached :] if event < 0), None)
        limit = case.budget.limit(len(events))
        reason = f"the budget of {limit} configurations, {case.budget.frontier} at once, ran out"
        return case.judgement(name, end=end, configurations=found.visited, reason=reason)
    end = _position(case, events[found.died])
    last = case.operations[~events[found.died]]
    possible = " or ".join(map(case.model.describe_state, states)) or "unknown"
    reason = f"{case.model.describe_operation(last)} fits no order: before it the state could only be {possible}"
    undecided = sum(event < 0 for event in events[found.reached : found.died])
    example = _told(case, end, states, reason, undecided=undecided)
    judgement = case.judgement(name, end=end, configurations=found.visited, counterexample=example)
    reached = next(_position(case, event) for event in events[found.reached :] if event < 0)
    return replace(judgement, decided=decided(case.operations, reached))


def _told(
    case: _Case,
    end: int,
    states: Sequence[Value],
    reason: str,
    named: Sequence[Operation] = (),
    undecided: int = 0,
) -> Counterexample:
    """The counterexample by the return at position ``end``, with the operations that contradict each other.

    They are looked for within a budget of their own, and the conviction stands whatever goes wrong there.
    """
    core: CoreOperations | None = None
    with suppress(Exception):
        core = core_of(
            can_be_unknown(case.recorded, case.model), end, named, _Questions(case), partial(_without_unseen, case)
        )
    if core is not None:
        reason = _broken_rule(_case(case.key, core.history, case.model, case.budget)) or reason
    elif named:
        core = CoreOperations(operations=tuple(named), history=(), is_minimal=False)
    return told(case.operations, end, states, reason, core, undecided)


class _Questions:
    """Whether histories have an order, by the kernel that decides each fastest; all of them within one budget.

    What is forgotten makes a history harder to search. So each question may take half of what is left.
    """

    def __init__(self, case: _Case) -> None:
        self._case = case
        self._left = min(CORE_CONFIGURATIONS, case.budget.limit(len(case.operations)))
        self._left_of_registers = min(CORE_REGISTER_CONFIGURATIONS, case.budget.limit(len(case.operations)))

    def __call__(self, operations: Sequence[Operation]) -> Answer:
        """YES, NO, or UNDECIDED where the budget ends."""
        case = _case(self._case.key, operations, self._case.model, self._case.budget, self._case.accelerated)
        for rule in RULES.values():
            with suppress(InapplicableError):
                return Answer.YES if rule(case) is None else Answer.NO
        with suppress(InapplicableError):
            _, walked = _register_walk(case, self._half(self._left_of_registers))
            self._left_of_registers -= walked.visited
            return walked.answer
        found = search.Search(case.operations, case.model, self._half(self._left)).run()
        self._left -= found.visited
        return found.answer

    def _half(self, left: int) -> Budget:
        return Budget(configurations=max(left // 2, 1), frontier=self._case.budget.frontier)


def _without_unseen(case: _Case, operations: Sequence[Operation]) -> Sequence[Operation]:
    """The history without unknown operations that explain nothing."""
    seen = _seen(_case(case.key, operations, case.model, case.budget))
    return [op for op in operations if op.outcome is not Outcome.INFO or op.invoked in seen]


def _broken_rule(case: _Case) -> str | None:
    """What contradicts itself, in the words of the rule that is broken; None if only a search knows."""
    for rule in RULES.values():
        with suppress(InapplicableError):
            return None if (found := rule(case)) is None else found.reason
    return None


def _seen(case: _Case) -> set[int]:
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


def _position(case: _Case, event: int) -> int:
    """The position in the history of the return that is ``event``."""
    returned = case.operations[~event].returned
    assert returned is not None, f"operation {~event} never returned"
    return returned


RULES: Mapping[str, Callable[[_Case], Violation | None]] = MappingProxyType(
    {"zones": _zones, "logs": _logs, "lists": _lists, "sets": _sets}
)
"""What decides without a search; raises InapplicableError where it cannot."""

KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        **{name: _by_rules(name, rule) for name, rule in RULES.items()},
        "register-search": _register_search,
        "search": _search,
    }
)
"""The kernels, the fastest first; a history is judged by the first that can decide it."""
