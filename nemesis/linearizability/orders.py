"""One order that explains a history, step by step: for people, and as a proof that whoever doubts can replay.

Owns a plain search, for histories of some thousand operations: of what may come next, first what returns first, and
what is unknown only where nothing else will do. The kernels decide; this shows. Source: Wing and Gong, "Testing and
verifying concurrent objects" (1993), with the memo of Lowe, "Testing for linearizability" (2017).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from nemesis.linearizability.forms import EVER
from nemesis.linearizability.model import REFUSED, Model
from nemesis.linearizability.operations import Operation, Value

STEPS_MAX = 200_000
WORK_MAX = 20_000_000
"""How many steps, and steps times operations, are tried before nothing is shown: some seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``operation`` took effect, and ``state`` is what the object was in afterwards."""

    operation: Operation
    state: Value


def order_of(operations: Sequence[Operation], model: Model) -> tuple[Step, ...] | None:
    """An order of ``operations``, those that say something: all that returned, and of the unknown what that takes.

    None if none was found within the bounds, which proves nothing.
    """
    history = _History(operations, model)
    if history.explains(0):
        return ()
    tried: set[tuple[int, Value]] = set()
    path: list[Step] = []
    todo = [history.next_after(0, model.initial())]
    done = [0]
    steps_max = min(STEPS_MAX, WORK_MAX // max(len(operations), 1))
    while len(tried) < steps_max:
        found = next(todo[-1], None)
        if found is None:
            todo.pop()
            done.pop()
            if not todo:
                return None
            path.pop()
            continue
        k, state = found
        reached = done[-1] | 1 << k
        if (reached, state) in tried:
            continue
        tried.add((reached, state))
        path.append(Step(operation=operations[k], state=state))
        if history.explains(reached):
            return tuple(path)
        todo.append(history.next_after(reached, state))
        done.append(reached)
    return None


class _History:
    def __init__(self, operations: Sequence[Operation], model: Model) -> None:
        self._operations, self._model = operations, model
        self._ends = [EVER if operation.returned is None else operation.returned for operation in operations]
        self._by_end = sorted(range(len(operations)), key=lambda k: (self._ends[k], operations[k].invoked))
        self._known = sum(1 << k for k, end in enumerate(self._ends) if end != EVER)

    def explains(self, done: int) -> bool:
        """Whether all that returned has taken effect."""
        return done & self._known == self._known

    def next_after(self, done: int, state: Value) -> Iterator[tuple[int, Value]]:
        """What may take effect next, and the state after it: nothing that began after another one had returned."""
        first_end = EVER
        asked: set[Hashable] = set()
        for k in self._by_end:
            operation = self._operations[k]
            if done >> k & 1:
                continue
            first_end = min(first_end, self._ends[k])
            if operation.invoked > first_end:
                continue
            if self._ends[k] == EVER:  # One that asks the same, and began earlier, is as good.
                alike = operation.f, operation.argument, operation.process if self._model.process_matters else None
                if alike in asked:
                    continue
                asked.add(alike)
            after = self._model.step(state, operation)
            if after is not REFUSED and (after != state or self._ends[k] != EVER):
                yield k, after
