"""The judgement of one window of an object's history: from what the object may be in to what it may be in afterwards.

Owns the window of any model, judged by the search; who cuts the history says where. A window has the operations that
begin in it and, first, those that were pending at its beginning. What is pending at its end goes on in the next one,
with the configurations there. A prefix of the history that ends in the window is what the window's operations have been
by then, so a counterexample is cut here as in a whole history. That is known only from where all has returned that was
pending at the beginning and is known to return: these were followed knowing how they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.linearizability.beam import Answer, Finding
from nemesis.linearizability.counterexample import STATES_MAX, decided, told, until
from nemesis.linearizability.judgement import Budget, Counterexample, KeyJudgement
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.search import Config, Search, Start
from nemesis.verdict import Verdict

KERNEL = "search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window of the history of object ``key``: ``operations`` in the order of their positions.

    The first ``carried`` of them were pending where it begins, in ``start``. It ends before the position ``stop``; None
    for the last one.
    """

    key: int
    model: Model
    budget: Budget
    operations: Sequence[Operation]
    carried: int
    start: Start
    stop: int | None

    def search(self, operations: Sequence[Operation], stop: int | None = None) -> Search:
        """A search of ``operations`` from where the window begins."""
        return Search(operations, self.model, self.budget, self.start, stop)


def judge_window(window: Window) -> tuple[KeyJudgement, Start | None]:
    """The judgement, and what the object may be in where the window ends; None if that is not known.

    Of the operations that begin in the window the judgement says how many there are, ``decided`` counts all that are
    over in it.
    """
    kept = relevant(window.operations, window.model)
    search = window.search(kept, window.stop)
    found = search.run()
    match found.answer:
        case Answer.YES:
            count = len(kept) if window.stop is None else decided(kept, window.stop)
            return _judgement(window, kept, found, Verdict.VALID, count), search.left(found)
        case Answer.NO:
            return _refuted(window, kept, search, found), None
        case Answer.UNDECIDED:
            return _undecided(window, kept, search, found), None


def _judgement(
    window: Window,
    kept: Sequence[Operation],
    found: Finding[Config],
    verdict: Verdict,
    count: int,
    *,
    example: Counterexample | None = None,
    reason: str | None = None,
) -> KeyJudgement:
    return KeyJudgement(
        key=window.key,
        verdict=verdict,
        kernel=KERNEL,
        operations=sum(operation.invoked >= window.carried for operation in kept),
        decided=count,
        configurations=found.visited,
        counterexample=example,
        reason=reason,
    )


def _undecided(window: Window, kept: Sequence[Operation], search: Search, found: Finding[Config]) -> KeyJudgement:
    """Too much to try, or too much was tried before to know that all was."""
    limit = window.budget.limit(len(search.events))
    reason = f"the budget of {limit} configurations, {window.budget.frontier} at once, ran out"
    if not window.start.is_all:
        reason += "; it was not enough for all that the object may have been in where the window begins"
    reached = next((search.position(event) for event in search.events[found.reached :] if event < 0), None)
    count = 0 if reached is None else decided(kept, reached)
    return _judgement(window, kept, found, Verdict.UNKNOWN, count, reason=reason)


def _refuted(window: Window, kept: Sequence[Operation], search: Search, found: Finding[Config]) -> KeyJudgement:
    """The counterexample: by the first return that refutes the history up to there, as far as that is known."""
    cut = _cut(window, kept, search, found.died)
    end = search.position(search.events[cut.last])
    last = kept[~search.events[cut.last]]
    states: list[Value] = []
    if cut.is_exact:
        before = [op for op in relevant(until(kept, end - 1), window.model) if op.invoked != last.invoked]
        states = window.search(before).states_at_end(STATES_MAX)
    possible = ", ".join(map(window.model.describe_state, states)) or "unknown"
    reason = f"{window.model.describe_operation(last)} fits no order: before it the state could only be {possible}"
    if not cut.is_exact:
        reason += "; the answers to operations that were pending where the window ends refute it as well"
    doubtful = search.position(search.events[cut.doubtful])
    undecided = sum(event < 0 for event in search.events[cut.doubtful : cut.last])
    example = told(kept, end, states, reason, undecided=undecided)
    return _judgement(window, kept, found, Verdict.INVALID, decided(kept, doubtful), example=example)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Indexes of events: all before ``doubtful`` is right, and ``last`` is the return that is told.

    It refutes the history up to there, if ``is_exact``; else more is needed.
    """

    doubtful: int
    last: int
    is_exact: bool


def _cut(window: Window, kept: Sequence[Operation], search: Search, died: int) -> _Cut:
    """Where the history is cut; the search died at the return of index ``died`` or before."""
    events = search.events
    ends = [index for index, event in enumerate(events[: search.stop]) if event < 0 and index >= died]
    floor = max(
        (index for index, event in enumerate(events) if event < 0 and kept[~event].invoked < window.carried), default=0
    )
    known = [index for index in ends if index >= floor]
    is_open = any(event < 0 for event in events[search.stop :])
    if not known or (is_open and _answer(window, kept, search, known[-1]) is not Answer.NO):
        return _Cut(doubtful=died, last=died, is_exact=False)
    low, high, step, right = 0, len(known) - 1, 1, -1
    while low < high:
        middle = min(low + step - 1, high - 1) if step else (low + high) // 2
        answer = _answer(window, kept, search, known[middle])
        if answer is Answer.NO:
            high, step = middle, 0
        else:
            low, step = middle + 1, step * 2
        right = middle if answer is Answer.YES else right
    return _Cut(doubtful=ends[0] if right < 0 else known[right + 1], last=known[high], is_exact=True)


def _answer(window: Window, kept: Sequence[Operation], search: Search, index: int) -> Answer:
    """What is known of the history up to the event of this index."""
    cut = relevant(until(kept, search.position(search.events[index])), window.model)
    return window.search(cut).run().answer
