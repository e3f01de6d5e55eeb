"""Why a history is not linearizable, as small as it can be told.

Owns the cut: linearizability is closed under prefixes, so there is a first return that cannot be explained, and what
came after it is left out. What is pending there is unknown. Of the operations before it, those are told that a rule
names, or that were going on at the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from nemesis.linearizability.forms import EVER
from nemesis.linearizability.judgement import Counterexample
from nemesis.linearizability.operations import Operation, Outcome, Value

OPERATIONS_MAX = 20
STATES_MAX = 10
DESCENTS = 3
"""How often a prefix is cut where its own contradiction ends before bisection takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """``operations`` of the whole history cannot all be; ``reason`` is one sentence."""

    operations: tuple[Operation, ...]
    reason: str


Rule = Callable[[int], Contradiction | None]
"""What contradicts itself in the history up to the event at a position, inclusive; None if nothing does."""


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


def shortest(operations: Iterable[Operation], found: Contradiction, rule: Rule) -> tuple[int, Contradiction]:
    """The position of the first return that ``rule`` cannot explain, and what it says of the history up to there.

    ``found`` is what it says of the whole.
    """
    ends = sorted(operation.returned for operation in operations if operation.returned is not None)
    low, high, descents = 0, len(ends) - 1, 0
    while low < high:
        named = bisect_right(ends, max((_end(op) for op in found.operations if _end(op) <= ends[high]), default=0)) - 1
        if descents < DESCENTS and low <= named < high and (earlier := rule(ends[named])) is not None:
            high, found = named, earlier
            continue
        middle = high - 1 if descents < DESCENTS else (low + high) // 2
        descents += 1
        earlier = rule(ends[middle])
        if earlier is None:
            low = middle + 1
        else:
            high, found = middle, earlier
    return ends[high], found


def _end(operation: Operation) -> int:
    return EVER if operation.returned is None else operation.returned


def decided(operations: Iterable[Operation], end: int) -> int:
    """How many operations were over before the return at position ``end``."""
    return sum(operation.returned is not None and operation.returned < end for operation in operations)


def told(
    operations: Sequence[Operation], end: int, states: Sequence[Value], reason: str, named: Iterable[Operation] = ()
) -> Counterexample:
    """The counterexample by the return at position ``end``: with what is ``named``, or else what went on then."""
    last = next(operation for operation in operations if operation.returned == end)
    members = list(named) or _around(operations, last)
    if last not in members:
        members.append(last)
    members.sort(key=lambda operation: operation.invoked)
    return Counterexample(last=last, operations=tuple(members), states=tuple(states[:STATES_MAX]), reason=reason)


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
