"""The judgement of a history: each object by the kernel that decides it fastest.

Owns the choice. Histories of registers with unique writes, of logs, of lists and of sets are decided without a search;
other registers by the search that knows registers; everything else by the search that knows the model's ``step`` only.
A kernel that crashes makes its key *unknown*, with the reason, and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from nemesis.linearizability import search
from nemesis.linearizability.beam import Answer, C, Finding
from nemesis.linearizability.case import RULES, Case, case_of, register_walk
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
from nemesis.linearizability.evidence import explained
from nemesis.linearizability.forms import EVER, RegisterForm
from nemesis.linearizability.judgement import Budget, KeyJudgement
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.register_search import values_before
from nemesis.linearizability.slots import ordered_events
from nemesis.linearizability.violation import InapplicableError, Violation
from nemesis.linearizability.witness import objection

STATES_WORK = 200_000
"""How many elements of states are tried, so that a kernel that does not search can tell the states at the end."""

Kernel = Callable[[Case], KeyJudgement]


def judge(
    operations: Iterable[Operation],
    model: Model,
    budget: Budget | None = None,
    *,
    witness: Mapping[int, int] | None = None,
    accelerated: bool = True,
    evidence_max: int = EVER,
) -> list[KeyJudgement]:
    """One judgement for each object, in the order of their first operations.

    The operations that contradict each other are looked for in so many of the invalid ones as ``evidence_max``; see
    ``evidence.explained``.

    ``witness`` maps the lines of operations to their places in a log that the servers kept, for objects that have one;
    see ``witness.objection``. Where it proves nothing, the object is judged without. Unless ``accelerated`` is false,
    registers are searched in C where that is installed; the judgements are the same.
    """
    parts = model.partition(operations)
    budget = budget or Budget()
    found = [_judge_key(key, part, model, budget, witness, accelerated) for key, part in parts.items()]
    return explained(found, parts, model, budget, accelerated=accelerated, evidence_max=evidence_max)


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
        case = case_of(key, operations, model, budget, accelerated)
        if witness is not None and objection(case.operations, model, witness) is None:
            return case.judgement("witness")
        for name, kernel in KERNELS.items():  # noqa: B007 (for the reason of a crash)
            with suppress(InapplicableError):
                return kernel(case)
    except Exception as error:  # whatever goes wrong in one key is said of that key
        reason = f"{type(error).__name__} in {name}: {error}"
        return KeyJudgement.undecided(key, len(operations), name, reason)
    raise AssertionError("the general search decides whatever the others do not")


def _by_rules(name: str, decide: Callable[[Case], Violation | None]) -> Kernel:
    """The kernel that judges by ``decide``, and cuts the history where that first finds something."""

    def kernel(case: Case) -> KeyJudgement:
        def rule(end: int) -> Contradiction | Silence:
            cut = case_of(case.key, until(case.operations, end), case.model, case.budget)
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
        example = told(case.operations, cut.end, states, found.reason, found.operations, cut.undecided)
        return case.judgement(name, end=cut.doubtful, configurations=searched.visited, counterexample=example)

    return kernel


def _contradiction(case: Case, cut: Case, found: Violation | None) -> Contradiction | None:
    """``found`` in ``cut``, said of the operations of ``case``."""
    if found is None:
        return None
    whole = {operation.invoked: operation for operation in case.operations}
    members = tuple(whole[cut.operations[k].invoked] for k in found.operations)
    return Contradiction(operations=members, reason=found.reason)


def _register_search(case: Case) -> KeyJudgement:
    history, found = register_walk(case, case.budget)
    if found.answer is Answer.YES:
        return case.judgement("register-search", configurations=found.visited)
    states: list[Value] = []
    if found.answer is Answer.NO:
        end = _position(case, history.events[found.died])
        begun = sum(operation.invoked < end for operation in case.operations)
        states = values_before(history, begun, found.died, found.frontier, STATES_MAX)
    return _by_finding("register-search", case, found, history.events, states)


def _search(case: Case) -> KeyJudgement:
    found = search.Search(case.operations, case.model, case.budget).run()
    if found.answer is Answer.YES:
        return case.judgement("search", configurations=found.visited)
    events = ordered_events(case.operations)
    if found.answer is Answer.NO:
        found.reached, found.died = _first_refuted(case, events, found.died)
        states = _states_before(case, events[found.died])
        return _by_finding("search", case, found, events, states)
    return _by_finding("search", case, found, events, [])


def _states_before(case: Case, event: int) -> list[Value]:
    """States just before the return that is ``event``: without what returns, unless others saw that it took effect."""
    before = _until(case, _position(case, event) - 1)
    others = [operation for operation in before if operation.invoked != case.operations[~event].invoked]
    found = search.Search(others, case.model, case.budget).states_at_end(STATES_MAX)
    return found or search.Search(before, case.model, case.budget).states_at_end(STATES_MAX)


def _states_if_soon_found(case: Case, end: int) -> list[Value]:
    """States just before the return at ``end``, for a kernel that does not search: none if it takes long to find some.

    Of a register a state is one value; of all else it may be as long as the history before.
    """
    index = next(k for k, operation in enumerate(case.operations) if operation.returned == end)
    size = 1 if isinstance(case.forms[index], RegisterForm) else index + 1
    budget = Budget(configurations=STATES_WORK // size, frontier=case.budget.frontier)
    return _states_before(replace(case, budget=budget), ~index)


def _until(case: Case, end: int) -> list[Operation]:
    """What says something in the history up to the event at position ``end``, inclusive."""
    return relevant(until(case.operations, end), case.model)


def _first_refuted(case: Case, events: Sequence[int], died: int) -> tuple[int, int]:
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
    name: str, case: Case, found: Finding[C], events: Sequence[int], states: Sequence[Value]
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
    example = told(case.operations, end, states, reason, undecided=undecided)
    judgement = case.judgement(name, end=end, configurations=found.visited, counterexample=example)
    reached = next(_position(case, event) for event in events[found.reached :] if event < 0)
    return replace(judgement, decided=decided(case.operations, reached))


def _position(case: Case, event: int) -> int:
    """The position in the history of the return that is ``event``."""
    returned = case.operations[~event].returned
    assert returned is not None, f"operation {~event} never returned"
    return returned


KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        **{name: _by_rules(name, rule) for name, rule in RULES.items()},
        "register-search": _register_search,
        "search": _search,
    }
)
"""The kernels, the fastest first; a history is judged by the first that can decide it."""
