"""The search for registers with compare-and-set: is there an order that explains every return?

Owns the sequence of runs over a history's events. A run keeps a frontier of configurations (see ``register_pending``);
at each return, a configuration is replaced by those to which the returning operation may have led. What is kept is
about pending operations only, so memory does not grow with the history.

1. The relaxed run lets unknown operations take effect again and again, and remembers for which configurations none
   had to. If it dies the history is not linearizable, found in linear time; if at its end there is a configuration
   without reuse it is. Where no operation is unknown it decides all but what is too wide for it.
2. Thrifty beams, of 1 configuration and of 16, look only at the first few explanations of a return, by the fewest
   steps: where much is pending, all of them are too many for anybody. Of those that they look at, what does not fit
   waits, and is taken up when the beam dies. What it explains is explained; if it dies for good it has proved nothing.
3. The outline refutes what was wrong at a glance, however much is pending (see ``outline_run``).
4. Beams, of 1, 2, 16 and 128 configurations, leave nothing out. What does not fit waits, and is taken up when the beam
   dies, with a memo of what was tried. A beam that dies with nothing waiting has tried all there is.

The same runs are written in C as well, in ``native``, and find the same to the last field: the order in which
configurations are made, here and in ``register_pending``, is part of what they do.

From where a run died, ``values_before`` tells the values that the register could have then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from nemesis.linearizability.beam import Answer, Beam, Effort, Finding, Walker
from nemesis.linearizability.forms import EVER
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.operations import Value
from nemesis.linearizability.register_events import RegisterEvents
from nemesis.linearizability.register_pending import (
    FORGOTTEN,
    MISS,
    READ,
    REUSED,
    WRITE,
    Config,
    Explorer,
    Pending,
    after_return,
    promise,
)

RELAXED_WIDTH = 1024
"""How wide the first run may grow before it forgets some of its configurations, and refutes no more."""
FIRST_TRIES = 1000
FIRST_TRIES_PER_EVENT = 2
"""How many configurations the first run may visit, and how many more for each event."""
RELAXED_TRIES = 32
"""How many configurations the second relaxed run may visit per event."""
THRIFTY = ((1, 16), (16, 64))
"""How wide the thrifty beams are, and how many explanations of a return they look at."""
FORGETS = 4096
"""How many configurations wait for a thrifty beam; see ``beam.Beam``."""
THRIFTY_TRIES = 32
"""How many configurations a thrifty beam may visit for each event, and for FIRST_TRIES more."""
BEAMS = (1, 2, 16, 128)
TRIES_PER_EVENT = 4
"""How many configurations the narrower beams may visit, for each event and each configuration of their width."""

START: Config = (0, 0, 0, 0)


class RegisterWalker(Walker[Config]):
    """Steps of a walk in which every unknown operation takes effect once at most; see ``Explorer`` for ``enough``."""

    def __init__(self, history: RegisterEvents, effort: Effort, enough: int = EVER) -> None:
        self.effort = effort
        self._kinds = history.kinds
        self._pending = Pending(history)
        self._explorer = Explorer(self._pending, effort, relaxed=False, enough=enough)

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
        return promise(config, self._pending.cas_mask)


class Runs(Protocol):
    """The runs over the events of one history, in whatever language: all find the same, to the last field."""

    def relaxed(self, *, room: int, held_max: int) -> Finding[Config]:
        """See ``relaxed_run``."""

    def outline(self, *, room: int) -> Finding[Config]:
        """See ``outline_run``."""

    def thrifty(self, *, stop: int, width: int, enough: int, room: int, held_max: int) -> Finding[Config]:
        """A beam that FORGETS, and whose walker takes ``enough`` for all."""

    def beam(self, *, stop: int, width: int, room: int, held_max: int) -> Finding[Config]:
        """See ``beam.Beam``, of a ``RegisterWalker``."""


class PythonRuns:
    """The runs of this module."""

    def __init__(self, history: RegisterEvents) -> None:
        self._history = history

    def relaxed(self, *, room: int, held_max: int) -> Finding[Config]:
        return relaxed_run(self._history, Effort(room=room, held_max=held_max))

    def outline(self, *, room: int) -> Finding[Config]:
        return outline_run(self._history, Effort(room=room))

    def thrifty(self, *, stop: int, width: int, enough: int, room: int, held_max: int) -> Finding[Config]:
        walker = RegisterWalker(self._history, Effort(room=room, held_max=held_max), enough)
        return Beam(walker=walker, events=self._history.events, stop=stop, width=width, forgets=FORGETS).walk(START)

    def beam(self, *, stop: int, width: int, room: int, held_max: int) -> Finding[Config]:
        walker = RegisterWalker(self._history, Effort(room=room, held_max=held_max))
        return Beam(walker=walker, events=self._history.events, stop=stop, width=width).walk(START)


def search(count: int, budget: Budget, runs: Runs) -> Finding[Config]:
    """The answer for the register whose ``count`` events ``runs`` go over.

    ``died`` equals ``reached`` but for a budget that ran out after a refutation.
    """
    budget = budget.of(count)
    found = first_runs(count, budget, runs)
    if found.answer is Answer.UNDECIDED:
        found = _added(found, runs.outline(room=budget.limit(0) - found.visited))
    if found.answer is Answer.UNDECIDED:
        found = _then_thrifty(runs, budget, found, count, THRIFTY[1:])
    if found.answer is Answer.UNDECIDED:
        found = _then_relaxed(runs, budget, found, RELAXED_TRIES * (FIRST_TRIES + count))
    if found.answer is Answer.NO and found.reached < found.died:
        return _first_refuted(runs, budget, found)
    if found.answer is Answer.UNDECIDED:
        found = beams(runs, budget, found, count, BEAMS)
    return found


def first_runs(count: int, budget: Budget, runs: Runs) -> Finding[Config]:
    """What a short relaxed run and a thrifty beam find: for most histories the answer, and the first refuted return."""
    budget = budget.of(count)
    found = _then_relaxed(runs, budget, Finding(), FIRST_TRIES + FIRST_TRIES_PER_EVENT * count)
    if found.answer is Answer.UNDECIDED:
        return _then_thrifty(runs, budget, found, count, THRIFTY[:1])
    if found.answer is Answer.NO and found.reached < found.died:
        return _earlier(found, _then_thrifty(runs, budget, found, found.died, THRIFTY[:1]))
    return found


def _first_refuted(runs: Runs, budget: Budget, refuted: Finding[Config]) -> Finding[Config]:
    """``refuted``, perhaps too late: an earlier return may be the first that cannot be explained."""
    found = _then_thrifty(runs, budget, refuted, refuted.died, THRIFTY)
    if found.answer is Answer.UNDECIDED:
        found = beams(runs, budget, found, refuted.died, BEAMS)
    return _earlier(refuted, found)


def _earlier(refuted: Finding[Config], found: Finding[Config]) -> Finding[Config]:
    """``refuted``, with what was ``found`` of the events before its return."""
    if found.answer is Answer.NO:
        return found
    return replace(refuted, reached=found.reached, visited=found.visited)


def _then_relaxed(runs: Runs, budget: Budget, before: Finding[Config], tries: int) -> Finding[Config]:
    """What a relaxed run of so many tries finds, after ``before``."""
    room = min(tries, budget.limit(0) - before.visited)
    return _added(before, runs.relaxed(room=room, held_max=budget.frontier))


def _then_thrifty(
    runs: Runs, budget: Budget, before: Finding[Config], stop: int, beams: Sequence[tuple[int, int]]
) -> Finding[Config]:
    """What thrifty beams find in the events before ``stop``, after ``before``."""
    found = before
    for width, enough in beams:
        room = min(THRIFTY_TRIES * (FIRST_TRIES + stop), budget.limit(0) - found.visited)
        beam = runs.thrifty(stop=stop, width=width, enough=enough, room=room, held_max=budget.frontier)
        found = _added(found, beam)
        if found.answer is not Answer.UNDECIDED:
            break
    return found


def beams(runs: Runs, budget: Budget, before: Finding[Config], stop: int, widths: Sequence[int]) -> Finding[Config]:
    """The answer for the events before ``stop``, by wider and wider beams; ``before`` is what was found so far."""
    found = before
    for width in widths:
        room = budget.limit(0) - found.visited
        if width != BEAMS[-1]:
            room = min(room, TRIES_PER_EVENT * width * stop)
        found = _added(found, runs.beam(stop=stop, width=width, room=room, held_max=budget.frontier))
        if found.answer is not Answer.UNDECIDED or found.visited >= budget.limit(0):
            break
    return found


def _added(before: Finding[Config], found: Finding[Config]) -> Finding[Config]:
    """``found``, with what was visited and reached ``before``."""
    found.visited += before.visited
    found.reached = max(found.reached, before.reached)
    return found


def relaxed_run(history: RegisterEvents, effort: Effort) -> Finding[Config]:
    """One walk in which unknown operations may take effect more than once."""
    events, kinds = history.events, history.kinds
    pending = Pending(history)
    explorer = Explorer(pending, effort, relaxed=True)
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
        found.visited = effort.visited
        if exact:
            found.reached = index
        if effort.is_spent:
            return found
        if not frontier:
            found.died, found.frontier = index, before
            found.answer = Answer.UNDECIDED if lossy else Answer.NO
            return found
        if len(frontier) > RELAXED_WIDTH:
            frontier = sorted(frontier, key=partial(promise, cas=pending.cas_mask))[:RELAXED_WIDTH]
            lossy = True
        exact = exact and (frontier[0][3] != REUSED or any(config[3] != REUSED for config in frontier))
    if exact:
        found.answer, found.reached = Answer.YES, len(events)
    return found


def outline_run(history: RegisterEvents, effort: Effort) -> Finding[Config]:
    """NO at the first return that has no explanation even so; UNDECIDED if there is none."""
    pending = Pending(history)
    found: Finding[Config] = Finding()
    ways = {0: 0}
    for index, event in enumerate(history.events):
        if event >= 0:
            pending.enter(event)
            _begin(history, event, ways)
            continue
        k = ~event
        before = dict(ways)
        _close(pending, ways)
        bit = history.bits[k]
        ways = {value: done ^ bit for value, done in ways.items() if done & bit}
        pending.leave(k)
        effort.spend(max(1, len(ways)))
        found.visited = effort.visited
        if effort.is_spent:
            return found
        if not ways:
            found.answer, found.died = Answer.NO, index
            found.frontier = [(value, done, 0, 0) for value, done in sorted(before.items())]
            return found
    return found


def _begin(history: RegisterEvents, k: int, ways: dict[int, int]) -> None:
    """A read or a miss takes effect where it can."""
    value, bit = history.values[k], history.bits[k]
    if history.kinds[k] == READ and value in ways:
        ways[value] |= bit
    elif history.kinds[k] == MISS:
        for other in ways:
            if other != value:
                ways[other] |= bit


def _close(pending: Pending, ways: dict[int, int]) -> None:
    """Add to ``ways`` all that pending operations can make of them."""
    targets = {value: pending.seen(value) | pending.write_mask for value in (*pending.writes, *pending.unknown_writes)}
    size = -1
    while size != (size := sum(done.bit_count() + 1 for done in ways.values())):
        anyhow = 0
        for done in ways.values():
            anyhow |= done
        for value, done in targets.items():
            ways[value] = ways.get(value, 0) | anyhow | done
        for value, done in list(ways.items()):
            hidden = sum(bit for _, bit in pending.writes.get(value, ()))
            for _, bit, new in pending.cas.get(value, ()):
                ways[new] = ways.get(new, 0) | done | bit | hidden | pending.seen(new)
            for new in pending.unknown_from.get(value, {}):
                ways[new] = ways.get(new, 0) | done | hidden | pending.seen(new)


def values_before(history: RegisterEvents, begun: int, died: int, frontier: list[Config], most: int) -> list[Value]:
    """Values that the register could have just before the return of event index ``died``, at most ``most`` of them.

    ``frontier`` are the configurations there: their values come first, then those that what was pending could make of
    them, and what of the ``begun`` operations the search left out because nobody asks for it.
    """
    pending = Pending(history)
    for event in history.events[:died]:
        if event >= 0:
            pending.enter(event)
        else:
            pending.leave(~event)
    values = dict.fromkeys(config[0] for config in frontier if config[0] != FORGOTTEN)
    for config in frontier:
        values |= dict.fromkeys(_next_values(pending, config))
    for k in range(begun):
        if not history.bits[k] and history.kinds[k] == WRITE:
            values.setdefault(history.values[k])
        elif not history.bits[k] and history.values[k] in values:
            values.setdefault(history.news[k])
    return [history.names[value] for value in values][:most]


def _next_values(pending: Pending, config: Config) -> Iterator[int]:
    """What one pending operation could make of the register."""
    value, done, _, used = config
    for new, writes in pending.writes.items():
        if any(not done & bit for _, bit in writes):
            yield new
    yield from (new for new, mask in pending.unknown_writes.items() if mask & ~used)
    yield from (new for _, bit, new in pending.cas.get(value, ()) if not done & bit)
    yield from (new for new, mask in pending.unknown_from.get(value, {}).items() if mask & ~used)
