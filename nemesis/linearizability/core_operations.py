"""Which operations contradict each other: evidence of which nothing can be left out.

To leave an operation out is to forget its outcome, not the operation: a write that nobody answers for may still have
happened at any time, or never. With a write taken away altogether, every read of its value would be a contradiction
by itself, and the evidence would say nothing. Forgetting only ever allows more orders, so that contradictions are
monotone, and a subset of which nothing can be left out is found by halving. Source: Junker, "QuickXplain: preferred
explanations and relaxations for over-constrained problems" (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from nemesis.linearizability.beam import Answer
from nemesis.linearizability.forms import EVER
from nemesis.linearizability.model import Model, ModelError
from nemesis.linearizability.operations import Operation, Outcome

WORK_MAX = 4_000_000
"""How many operations all questions about one object may go over; what a search takes, who answers bounds."""

Decide = Callable[[Sequence[Operation]], Answer]
"""Whether there is an order of these operations, which are in the order of their invocations."""

Narrow = Callable[[Sequence[Operation]], Sequence[Operation]]
"""The same history without unknown operations that explain nothing, and would not if more were unknown."""


def forgotten(operation: Operation) -> Operation:
    """The same operation, where nobody knows how it ended."""
    return replace(operation, outcome=Outcome.INFO, result=None, returned=None)


def can_be_unknown(recorded: Iterable[Operation], model: Model) -> list[Operation]:
    """What was recorded, but for what failed and could never have been: an operation that the object does not have."""

    def could_be(operation: Operation) -> bool:
        try:
            model.step(model.initial(), forgotten(operation))
        except ModelError:
            return False
        return True

    return [op for op in recorded if op.outcome is not Outcome.FAIL or could_be(op)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOperations:
    """``operations`` that have no order, whatever became of all others, in the order of their invocations.

    ``is_minimal``: with the outcome of any one of them forgotten there is an order. Where it is false, the budget ended
    before that was shown of each. ``history`` is what was found to have no order: these, and what is unknown then.
    """

    operations: tuple[Operation, ...]
    history: Sequence[Operation]
    is_minimal: bool


def core_of(
    operations: Iterable[Operation], end: int, first: Iterable[Operation], decide: Decide, narrow: Narrow
) -> CoreOperations | None:
    """What contradicts itself in the history up to the return at position ``end``, which has no order.

    ``operations`` are all on the object, those that failed among them. Those ``first`` are tried first; then what began
    last. None if ``decide`` finds no contradiction within its budget.
    """
    return _Core(operations, end, decide).found(first, narrow)


class _Core:
    def __init__(self, operations: Iterable[Operation], end: int, decide: Decide) -> None:
        self._decide = decide
        begun = sorted((op for op in operations if op.invoked <= end), key=lambda op: op.invoked)
        self._history: Sequence[Operation] = [
            op if _ends(op) <= end or op.outcome is Outcome.FAIL else forgotten(op) for op in begun
        ]
        self._end = end
        self._work = 0
        self._in_doubt = False

    def found(self, first: Iterable[Operation], narrow: Narrow) -> CoreOperations | None:
        """Take more and more until they contradict each other, and of these as few as that takes."""
        preferred = {op.invoked: place for place, op in enumerate(first)}
        known = [op for op in self._history if op.outcome is not Outcome.INFO]
        known.sort(key=lambda op: (preferred.get(op.invoked, len(preferred)), -op.invoked))
        size = min(max(len(preferred), 2), len(known))
        while not self._contradict(known[:size]):
            if size == len(known):
                return None
            size = min(2 * size, len(known))
        self._in_doubt = False
        self._history = narrow(self._forgetting(known[:size]))
        core = self._needed([], known[:size])
        if self._in_doubt and not self._contradict(core):
            core = known[:size]
        core.sort(key=lambda op: op.invoked)
        return CoreOperations(operations=tuple(core), history=self._but(core), is_minimal=not self._in_doubt)

    def _needed(self, beside: list[Operation], among: list[Operation]) -> list[Operation]:
        """Of ``among`` as many as leave no order together with ``beside``, which has one without them."""
        if len(among) == 1:
            return among
        near, far = among[: len(among) // 2], among[len(among) // 2 :]
        needed = [] if self._contradict(beside + near) else self._needed(beside + near, far)
        if needed and self._contradict(beside + needed):
            return needed
        return needed + self._needed(beside + needed, near)

    def _contradict(self, known: Iterable[Operation]) -> bool:
        """Whether there is no order once the outcomes of all others are forgotten."""
        self._work += len(self._history)
        answer = Answer.UNDECIDED
        if self._work <= WORK_MAX:
            answer = self._decide(self._but(known))
        self._in_doubt |= answer is Answer.UNDECIDED
        return answer is Answer.NO

    def _but(self, known: Iterable[Operation]) -> Sequence[Operation]:
        """The history by the cut, where only these outcomes are known.

        What is known to fail later never happened, and what it saw by then is of no matter.
        """
        said = self._forgetting(known)
        return [op for op in said if op.outcome is not Outcome.FAIL or _ends(op) <= self._end]

    def _forgetting(self, known: Iterable[Operation]) -> Sequence[Operation]:
        """The history, where the outcomes of all others are forgotten."""
        kept = {operation.invoked for operation in known}
        return [op if op.invoked in kept else forgotten(op) for op in self._history]


def _ends(operation: Operation) -> int:
    return EVER if operation.returned is None else operation.returned
