"""One order that explains a history, step by step: for people, and as a proof that whoever doubts can replay.

Owns a plain search: of what may come next, first what returns first, and what is unknown only where nothing else will
do. Memory grows with the history and time with the ways that end nowhere, so that a history of a million operations
has its order in seconds where it is not hard. The kernels decide; this shows. Source: Wing and Gong, "Testing and
verifying concurrent objects" (1993), with the list and the memo of Lowe, "Testing for linearizability" (2017); what was
done stands in the memo as a number that is drawn for it (Zobrist, 1970).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from nemesis.linearizability.forms import EVER
from nemesis.linearizability.model import REFUSED, Model
from nemesis.linearizability.operations import Operation, Value

WORK_MAX = 2_000_000
WORK_PER_OPERATION = 16
"""How many candidates are looked at before nothing is shown: so many, or more in a long history. A second or two."""
HELD_MAX = 20_000_000
"""How many elements all states on the way may have: some hundred MiB."""
TOKEN_BITS = 64
"""Two sets of operations are one in the memo by chance alone, so that an order is overlooked, and none is made up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``operation`` took effect, and ``state`` is what the object was in afterwards."""

    operation: Operation
    state: Value


def order_of(operations: Sequence[Operation], model: Model) -> tuple[Step, ...] | None:
    """An order of ``operations``, those that say something: all that returned, and of the unknown what that takes.

    None if none was found within the bounds, which proves nothing.
    """
    return _Search(sorted(operations, key=lambda operation: operation.invoked), model).order()


class _Search:
    """A walk in depth. What has returned and is not done is a linked list, by invocations; the unknown are grouped."""

    def __init__(self, operations: Sequence[Operation], model: Model) -> None:
        self._operations, self._model = operations, model
        size = len(operations)
        self._ends = [EVER if operation.returned is None else operation.returned for operation in operations]
        known = [k for k in range(size) if self._ends[k] != EVER]
        self._left = len(known)
        self._after, self._before = [size] * (size + 1), [size] * (size + 1)
        for first, second in zip([size, *known], [*known, size], strict=True):
            self._after[first], self._before[second] = second, first
        self._groups = list(self._alike().values())
        self._used = [0] * len(self._groups)
        random = Random(size)
        self._tokens = [random.getrandbits(TOKEN_BITS) for _ in range(size)]
        self._work_max = max(WORK_MAX, WORK_PER_OPERATION * size)
        self._work = self._held = 0

    def _alike(self) -> dict[Hashable, list[int]]:
        """The unknown operations by what they ask: of those that ask the same, the one that began first will do."""
        groups: dict[Hashable, list[int]] = {}
        for k, operation in enumerate(self._operations):
            if self._ends[k] == EVER:
                process = operation.process if self._model.process_matters else None
                groups.setdefault((operation.f, operation.argument, process), []).append(k)
        return groups

    def order(self) -> tuple[Step, ...] | None:
        """The first order that is found."""
        path: list[tuple[int, int]] = []  # an operation, and the group that it is of
        states, tried, done = [self._model.initial()], [0], 0
        failed: set[tuple[int, Value]] = set()
        while self._left:
            if self._work > self._work_max or self._held > HELD_MAX:
                return None
            found = self._next(states[-1], tried, done, failed)
            if found is not None:
                k, group, state = found
                self._take(k, group)
                path.append((k, group))
                states.append(state)
                tried.append(0)
                done ^= self._tokens[k]
                self._held += _size(state)
                continue
            failed.add((done, states.pop()))
            tried.pop()
            if not path:
                return None
            k, group = path.pop()
            self._give_back(k, group)
            done ^= self._tokens[k]
        return tuple(
            Step(operation=self._operations[k], state=state) for (k, _), state in zip(path, states[1:], strict=True)
        )

    def _next(
        self, state: Value, tried: list[int], done: int, failed: set[tuple[int, Value]]
    ) -> tuple[int, int, Value] | None:
        """What takes effect next, its group, and the state after it; the last of ``tried`` says how many were tried."""
        for place, (k, group) in enumerate(self._candidates()):
            if place < tried[-1]:
                continue
            tried[-1] += 1
            after = self._model.step(state, self._operations[k])
            if after is REFUSED or (after == state and group >= 0):
                continue
            if not failed or (done ^ self._tokens[k], after) not in failed:
                return k, group, after
        return None

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """What may take effect next, and its group: nothing that began after another one had returned."""
        first_end, known = EVER, []
        end = len(self._operations)
        k = self._after[end]
        while k != end and self._operations[k].invoked <= first_end:
            known.append(k)
            first_end = min(first_end, self._ends[k])
            k = self._after[k]
        self._work += len(known)
        for k in sorted(known, key=self._ends.__getitem__):
            yield k, -1
        self._work += len(self._groups)
        for group, members in enumerate(self._groups):
            used = self._used[group]
            if used < len(members) and self._operations[members[used]].invoked <= first_end:
                yield members[used], group

    def _take(self, k: int, group: int) -> None:
        if group >= 0:
            self._used[group] += 1
            return
        self._left -= 1
        self._after[self._before[k]], self._before[self._after[k]] = self._after[k], self._before[k]

    def _give_back(self, k: int, group: int) -> None:
        if group >= 0:
            self._used[group] -= 1
            return
        self._left += 1
        self._after[self._before[k]] = self._before[self._after[k]] = k


def _size(state: Value) -> int:
    return len(state) if isinstance(state, tuple | frozenset | str) else 1
