"""Why a history is not linearizable, as small as it can be told.

Owns the cut: linearizability is closed under prefixes, so there is a first return that cannot be explained, and what
came after it is left out. What is pending there is unknown; but what failed in the end had no effect at any time. Of
the operations before it, those are told that a rule names, or that were going on at the time. A prefix that nobody
could decide within the budget is counted, and the counterexample says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from nemesis.linearizability.beam import Answer
from nemesis.linearizability.forms import EVER
from nemesis.linearizability.judgement import Budget, Counterexample
from nemesis.linearizability.model import Model
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.search import Search

OPERATIONS_MAX = 20
STATES_MAX = 10
WORK_MAX = 50_000_000
"""How many configurations times operations a search for the cut may go over: a few seconds."""
HELD_MAX = 4_000_000
"""How many it may hold at a time for one reason: some ten MiB of numbers."""
DESCENTS = 3
"""How often a prefix is cut where its own contradiction ends before bisection takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """``operations`` of the whole history cannot all be; ``reason`` is one sentence."""

    operations: tuple[Operation, ...]
    reason: str


class Silence(Enum):
    """What is known of a prefix in which no contradiction was found."""

    RIGHT = "right"
    """It is linearizable."""
    UNDECIDED = "undecided"
    """Nothing: it was not looked at, or what decides it takes more than the budget."""


Rule = Callable[[int], Contradiction | Silence]
"""What contradicts itself in the history up to the event at a position, inclusive; or why nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a history is cut: by the return at position ``end``, after which it is known to contradict itself.

    All prefixes that end before the return at ``doubtful`` are right. From there on, before ``end``, there are
    ``undecided`` of them; if there are none, ``doubtful`` is ``end``, and the prefix is the shortest that is wrong.
    """

    end: int
    doubtful: int
    undecided: int
    found: Contradiction


def until(operations: Iterable[Operation], end: int) -> list[Operation]:
    """The history up to the event at position ``end``, inclusive.

    What has not returned by then is unknown; but what failed later had no effect, and is left out.
    """
    begun = (operation for operation in operations if operation.invoked <= end)
    return [
        operation if operation.returned is None or operation.returned <= end else _cut(operation)
        for operation in begun
        if operation.outcome is not Outcome.FAIL or _end(operation) <= end
    ]


def _cut(operation: Operation) -> Operation:
    return replace(operation, outcome=Outcome.INFO, result=None, returned=None)


def shortest(operations: Iterable[Operation], found: Contradiction, rule: Rule) -> Cut:
    """The cut by the first return that ``rule`` cannot explain, and what it says of the history up to there.

    ``found`` is what it says of the whole. A prefix on which the rule is undecided is passed over, upwards first; then
    what is shorter is looked at.
    """
    ends = sorted(operation.returned for operation in operations if operation.returned is not None)
    low, floor, high, descents = 0, 0, len(ends) - 1, 0
    doubts: list[int] = []
    while floor < high or low < (top := min([high, *(doubt for doubt in doubts if doubt >= low)])):
        begin, behind = (floor, high) if floor < high else (low, top)
        middle = (begin + behind) // 2
        if descents < DESCENTS:
            named = _named(ends, found, behind)
            middle = named if begin <= named < behind else behind - 1
            descents += middle != named
        match rule(ends[middle]):
            case Contradiction() as earlier:
                high, found = middle, earlier
            case Silence.RIGHT:
                low, floor = middle + 1, max(floor, middle + 1)
            case Silence.UNDECIDED:
                doubts.append(middle)
                floor = max(floor, middle + 1)
            case said:
                assert_never(said)
    return Cut(end=ends[high], doubtful=ends[low], undecided=high - low, found=found)


def _named(ends: Sequence[int], found: Contradiction, behind: int) -> int:
    """The index of the last return, before or at the one of index ``behind``, of what contradicts itself; -1: none."""
    last = max((_end(op) for op in found.operations if _end(op) <= ends[behind]), default=-1)
    return bisect_right(ends, last) - 1


class PrefixSearch:
    """What the search says of prefixes that a kernel without one cannot decide; all of them within one budget.

    ``visited`` is how many configurations that took. A state may be as large as the history is long: so fewer of them
    are visited, and held, the longer it is.
    """

    def __init__(self, model: Model, budget: Budget) -> None:
        self._model, self._budget = model, budget
        self.visited = self._work = 0

    def said_of(self, operations: Sequence[Operation]) -> Contradiction | Silence:
        """Of the history of ``operations``, those that say something, of which one has returned.

        Each prefix may take half of what is left, so that no long one leaves nothing to those that are shorter.
        """
        size = len(operations)
        room = min(self._budget.limit(2 * size) - self.visited, (WORK_MAX - self._work) // size)
        if room < 2:
            return Silence.UNDECIDED
        budget = Budget(configurations=room // 2, frontier=min(self._budget.frontier, HELD_MAX // size))
        found = Search(operations, self._model, budget).run()
        self.visited += found.visited
        self._work += found.visited * size
        match found.answer:
            case Answer.YES:
                return Silence.RIGHT
            case Answer.UNDECIDED:
                return Silence.UNDECIDED
            case Answer.NO:
                last = max(operations, key=lambda operation: operation.returned or 0)
                reason = f"no order explains {self._model.describe_operation(last)}"
                return Contradiction(operations=(), reason=reason)
            case answer:
                assert_never(answer)


def _end(operation: Operation) -> int:
    return EVER if operation.returned is None else operation.returned


def decided(operations: Iterable[Operation], end: int) -> int:
    """How many operations were over before the return at position ``end``."""
    return sum(operation.returned is not None and operation.returned < end for operation in operations)


def told(
    operations: Sequence[Operation],
    end: int,
    states: Sequence[Value],
    reason: str,
    named: Sequence[Operation] = (),
    undecided: int = 0,
) -> Counterexample:
    """The counterexample by the return at position ``end``: with what a rule has ``named``, or else what went on then.

    ``undecided`` is as in ``Cut``; where it is not 0 the ``reason`` gets a sentence that says so.
    """
    last = next(operation for operation in operations if operation.returned == end)
    members = {operation.invoked: operation for operation in (last, *(named or _around(operations, last)))}
    return Counterexample(
        last=members[last.invoked],
        operations=tuple(members[invoked] for invoked in sorted(members)),
        states=tuple(states[:STATES_MAX]),
        reason=reason + doubt_of(undecided),
        undecided=undecided,
    )


def doubt_of(undecided: int) -> str:
    """What a reason says of so many shorter prefixes that are undecided."""
    if not undecided:
        return ""
    many = "1 shorter prefix is" if undecided == 1 else f"{undecided} shorter prefixes are"
    return f"; {many} undecided, so an earlier return may be the first that fits no order"


def _around(operations: Iterable[Operation], last: Operation) -> list[Operation]:
    """What went on while ``last`` did, and while the operation that was over just before it did; the latest of them."""
    assert last.returned is not None, f"line {last.line} never returned"
    before = [op.returned for op in operations if op.returned is not None and op.returned < last.invoked]
    since = max(before, default=last.invoked)
    going_on = [
        op
        for op in operations
        if op.invoked < last.returned and (op.invoked > since if op.returned is None else op.returned >= since)
    ]
    return sorted(going_on, key=lambda op: op.invoked)[-OPERATIONS_MAX:]
