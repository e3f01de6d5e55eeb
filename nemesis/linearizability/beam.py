"""A walk over the events of a history with a bounded number of configurations at a time.

Owns going forward and back, for every kind of configuration. What does not fit into the beam waits, and is taken up
when the beam dies, with a memo of what was tried since something waits: a walk that dies with nothing waiting has tried
all there is. Nothing else is kept of the events behind, so without dead ends memory does not grow with the history.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from nemesis.linearizability.forms import EVER

C = TypeVar("C", bound=Hashable)

MEMO = 8
"""How many tried configurations a beam that forgets remembers, for each that waits."""


class Answer(Enum):
    """What a walk says: there is an order that explains all returns, there is none, or the budget ran out."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


@dataclass(slots=True, kw_only=True)
class Finding(Generic[C]):
    """What a walk found.

    All before the event of index ``reached`` is linearizable. ``died`` is the index of the latest return that left no
    configuration; if the answer is NO, the history is refuted by it, and ``frontier`` are
    configurations just before; if it is YES, they are those at the end.
    """

    answer: Answer = Answer.UNDECIDED
    reached: int = 0
    died: int = -1
    visited: int = 0
    frontier: list[C] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Effort:
    """What a walk may cost, and what it has cost.

    ``visited`` counts the configurations that were looked at, of which there may be ``room``; what one return leads to
    may be ``held_max``. Once it ``is_spent`` nothing more that is found is of use. ``left_out`` says that some of what
    may have happened was left out on purpose, so that a walk that dies has proved nothing.
    """

    room: int
    held_max: int = EVER
    visited: int = 0
    is_spent: bool = False
    left_out: bool = False

    def spend(self, visited: int, held: int = 0) -> bool:
        """So many more were looked at, and so many are held: whether there may be more."""
        self.visited += visited
        self.is_spent = self.is_spent or self.visited > self.room or held > self.held_max
        return not self.is_spent


class Walker(ABC, Generic[C]):
    """One step of a walk, in either direction, and the ``effort`` that it takes."""

    effort: Effort

    @abstractmethod
    def begin(self, k: int, frontier: list[C]) -> list[C]:
        """Operation ``k`` is pending from now on: the configurations after that."""

    @abstractmethod
    def end(self, k: int, index: int, frontier: list[C]) -> list[C]:
        """Operation ``k`` returns by event ``index``: the configurations after that."""

    @abstractmethod
    def undo(self, event: int) -> None:
        """What ``event`` made pending is not, or what it ended is pending again."""

    @abstractmethod
    def promise(self, config: C) -> tuple[int, ...]:
        """The least is tried first."""


@dataclass(slots=True, kw_only=True)
class Beam(Generic[C]):
    """One walk over ``events[:stop]``, at most ``width`` configurations wide.

    It gives up when its effort is spent, or when more configurations wait than may be held. A beam that ``forgets``
    lets go of the oldest half of what waits instead, whenever that is so many, and proves nothing by dying then.
    Of those that were tried no more are remembered than may be held, or eight times what waits in a beam that forgets;
    they are forgotten all at once, and perhaps tried again.
    """

    walker: Walker[C]
    events: list[int]
    stop: int
    width: int
    forgets: int = EVER
    _index: int = 0
    _waiting: list[tuple[int, list[C]]] = field(default_factory=list)
    _waiting_count: int = 0
    _memo: dict[int, set[C]] = field(default_factory=dict)
    _memo_count: int = 0

    def walk(self, *starts: C) -> Finding[C]:
        """Forward while there is a configuration, back to those that wait when there is none."""
        found: Finding[C] = Finding()
        frontier = self._narrowed(list(starts))
        walker, effort = self.walker, self.walker.effort
        while self._index < self.stop:
            event, index = self.events[self._index], self._index
            self._index += 1
            if event >= 0:
                frontier = walker.begin(event, frontier)
                continue
            before, frontier = frontier, walker.end(~event, index, frontier)
            found.visited = effort.visited
            if effort.is_spent:
                return found
            if not frontier and index > found.died:
                found.died, found.frontier = index, before
            found.reached = max(found.reached, self._index if frontier else index)
            frontier = self._narrowed(frontier)
            if self._waiting_count > self.forgets:
                self._forget()
            if self._waiting_count > effort.held_max:
                return found
            if not frontier and not self._waiting:
                if not effort.left_out:
                    found.answer, found.reached = Answer.NO, found.died
                return found
            frontier = frontier or self._back()
        found.answer, found.reached, found.frontier = Answer.YES, self.stop, frontier
        return found

    def _narrowed(self, frontier: list[C]) -> list[C]:
        """The most promising of ``frontier`` that were not here before; the others wait."""
        if self._waiting:
            if self._memo_count > min(self.walker.effort.held_max, MEMO * self.forgets):
                self._memo.clear()
                self._memo_count = 0
            memo = self._memo.setdefault(self._index, set())
            frontier = [config for config in frontier if config not in memo]
            memo.update(frontier)
            self._memo_count += len(frontier)
        if len(frontier) <= self.width:
            return frontier
        frontier.sort(key=self.walker.promise)
        for first in range(len(frontier) - self.width, 0, -self.width):
            rest = frontier[max(first, self.width) : first + self.width]
            self._waiting.append((self._index, rest))
            self._waiting_count += len(rest)
        return frontier[: self.width]

    def _back(self) -> list[C]:
        """What waited last; pending is what was then."""
        index, frontier = self._waiting.pop()
        self._waiting_count -= len(frontier)
        while self._index > index:
            self._index -= 1
            self.walker.undo(self.events[self._index])
        if not self._waiting:
            self._memo.clear()
            self._memo_count = 0
        return frontier

    def _forget(self) -> None:
        """Let go of the oldest half of what waits."""
        half = (len(self._waiting) + 1) // 2
        self._waiting_count -= sum(len(group) for _, group in self._waiting[:half])
        del self._waiting[:half]
        self.walker.effort.left_out = True
