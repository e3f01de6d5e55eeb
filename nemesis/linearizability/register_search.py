"""The search for registers with compare-and-set: is there an order that explains every return?

Owns the sequence of runs over a history's events. A run keeps a frontier of configurations (see ``register_pending``);
at each return, a configuration is replaced by all to which the returning operation may have led. What is kept is about
pending operations only, so memory does not grow with the history.

1. The relaxed run lets unknown operations take effect again and again, and remembers for which configurations none
   had to. If it dies the history is not linearizable, found in linear time; if at its end there is a configuration
   without reuse it is. Where no operation is unknown it decides all but what is too wide for it.
2. Beams, of 1, 2, 16 and 128 configurations, reuse nothing. What does not fit waits, and is taken up when the beam
   dies, with a memo of what was tried. A beam that dies with nothing waiting has tried all there is.

The same runs are written in C as well, in ``native``, and find the same to the last field: the order in which
configurations are made, here and in ``register_frontier`` and ``register_pending``, is part of what they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nemesis.linearizability.beam import Answer, Beam, Finding, Walker
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.register_events import RegisterEvents
from nemesis.linearizability.register_frontier import after_return, promise
from nemesis.linearizability.register_pending import MISS, READ, REUSED, Config, Explorer, Pending

RELAXED_WIDTH = 1024
"""How wide the first run may grow before it forgets some of its configurations, and refutes no more."""
FIRST_TRIES = 1000
"""How many configurations the first run may visit, and one more for every second event."""
RELAXED_TRIES = 32
"""How many configurations the second relaxed run may visit per event."""
BEAMS = (1, 2, 16, 128)
TRIES_PER_EVENT = 4
"""How many configurations the narrower beams may visit, for each event and each configuration of their width."""

START: Config = (0, 0, 0, 0)


class RegisterWalker(Walker[Config]):
    """Steps of a walk in which every unknown operation takes effect once at most."""

    def __init__(self, history: RegisterEvents, room: int) -> None:
        self._kinds = history.kinds
        self._pending = Pending(history)
        self._explorer = Explorer(self._pending, relaxed=False, room=room)

    @property
    def visited(self) -> int:  # type: ignore[override]  # a walker's field; here the explorer counts
        return self._explorer.visited

    def begin(self, k: int, frontier: list[Config]) -> list[Config]:
        """Reads that can take effect do."""
        self._pending.enter(k)
        return self._pending.eager(k, frontier) if self._kinds[k] in {READ, MISS} else frontier

    def end(self, k: int, index: int, frontier: list[Config]) -> list[Config]:
        """All to which the return may have led."""
        return after_return(k, index, frontier, self._explorer)

    def undo(self, event: int) -> None:
        """Pending is what was before ``event``."""
        if event >= 0:
            self._pending.leave(event)
        else:
            self._pending.enter(~event)

    def promise(self, config: Config) -> tuple[int, ...]:
        """Few unknown operations used."""
        return promise(config)


class Runs(Protocol):
    """The runs over the events of one history, in whatever language: all find the same, to the last field."""

    def relaxed(self, room: int) -> Finding[Config]:
        """See ``relaxed_run``."""

    def beam(self, *, stop: int, width: int, room: int, waiting_max: int) -> Finding[Config]:
        """See ``beam.Beam``, of a ``RegisterWalker``."""


class PythonRuns:
    """The runs of this module."""

    def __init__(self, history: RegisterEvents) -> None:
        self._history = history

    def relaxed(self, room: int) -> Finding[Config]:
        """See ``relaxed_run``."""
        return relaxed_run(self._history, room)

    def beam(self, *, stop: int, width: int, room: int, waiting_max: int) -> Finding[Config]:
        """See ``beam.Beam``."""
        walker, events = RegisterWalker(self._history, room), self._history.events
        beam = Beam(walker=walker, events=events, stop=stop, width=width, room=room, waiting_max=waiting_max)
        return beam.walk(START)


def search(count: int, budget: Budget, runs: Runs) -> Finding[Config]:
    """The answer for the register whose ``count`` events ``runs`` go over.

    ``died`` equals ``reached`` but for a budget that ran out after a refutation.
    """
    found = _then_relaxed(runs, budget, Finding(), FIRST_TRIES + count // 2)
    if found.answer is Answer.UNDECIDED:
        found = beams(runs, budget, found, count, BEAMS[:1])
    if found.answer is Answer.UNDECIDED:
        found = _then_relaxed(runs, budget, found, RELAXED_TRIES * (FIRST_TRIES + count))
    if found.answer is Answer.NO and found.reached < found.died:
        # The relaxed run refutes, perhaps too late: an earlier return may be the first that cannot be explained.
        exact = beams(runs, budget, found, found.died, BEAMS)
        if exact.answer is Answer.NO:
            return exact
        found.reached, found.visited = exact.reached, exact.visited
    elif found.answer is Answer.UNDECIDED:
        found = beams(runs, budget, found, count, BEAMS)
    return found


def _then_relaxed(runs: Runs, budget: Budget, before: Finding[Config], tries: int) -> Finding[Config]:
    """What a relaxed run of so many tries finds, after ``before``."""
    found = runs.relaxed(min(tries, budget.configurations - before.visited))
    found.visited += before.visited
    found.reached = max(found.reached, before.reached)
    return found


def beams(runs: Runs, budget: Budget, before: Finding[Config], stop: int, widths: Sequence[int]) -> Finding[Config]:
    """The answer for the events before ``stop``, by wider and wider beams; ``before`` is what was found so far."""
    reached, visited = before.reached, before.visited
    found = before
    for width in widths:
        room = budget.configurations - visited
        if width != BEAMS[-1]:
            room = min(room, TRIES_PER_EVENT * width * stop)
        found = runs.beam(stop=stop, width=width, room=room, waiting_max=budget.frontier)
        visited += found.visited
        reached = max(reached, found.reached)
        if found.answer is not Answer.UNDECIDED or visited >= budget.configurations:
            break
    found.reached, found.visited = reached, visited
    return found


def relaxed_run(history: RegisterEvents, room: int) -> Finding[Config]:
    """One walk in which unknown operations may take effect more than once."""
    events, kinds = history.events, history.kinds
    pending = Pending(history)
    explorer = Explorer(pending, relaxed=True, room=room)
    found: Finding[Config] = Finding()
    frontier: list[Config] = [START]
    lossy, exact = False, True
    for index, event in enumerate(events):
        if event >= 0:
            pending.enter(event)
            if kinds[event] == READ or kinds[event] == MISS:
                frontier = pending.eager(event, frontier)
            continue
        before, frontier = frontier, after_return(~event, index, frontier, explorer)
        found.visited = explorer.visited
        if exact:
            found.reached = index
        if explorer.visited > room:
            return found
        if not frontier:
            found.died, found.frontier = index, before
            found.answer = Answer.UNDECIDED if lossy else Answer.NO
            return found
        if len(frontier) > RELAXED_WIDTH:
            frontier = sorted(frontier, key=promise)[:RELAXED_WIDTH]
            lossy = True
        exact = exact and (frontier[0][3] != REUSED or any(config[3] != REUSED for config in frontier))
    if exact:
        found.answer, found.reached = Answer.YES, len(events)
    return found
