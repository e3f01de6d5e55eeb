"""The search for any model: is there an order that explains every return?

Owns the steps of a walk (see ``beam``) for objects of which nothing is known but ``Model.step``. A configuration is
``(state, done, used)``: the state, the pending operations that took effect, and the unknown ones that did. Linearizing
just in time: only a return forces operations to take effect, and only in sequences that end with the one that returns.
Source: Lowe, "Testing for linearizability" (2017).

What keeps configurations few: reads take effect as soon as they can; of pending operations that ask and are answered
the same, the one that returns first is as good as any; a configuration is dropped if another one, with the same state,
has done the same, read more, and used fewer unknown operations. The first runs leave things out: one follows a single
configuration and looks at the first few explanations of a return, by the fewest steps; thrifty ones use as few unknown
operations as explain it, or a few more. What such a run explains is explained; what it does not proves nothing, and the
beams that leave nothing out come after them.

A search may begin in several configurations, and may stop within the history to tell those it can be in by then: so a
history is searched part by part. First it looks for all of them; where these are too many it goes on with some. What
some explain is explained, and what they do not proves nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from nemesis.linearizability.beam import Answer, Beam, Effort, Finding, Walker
from nemesis.linearizability.forms import EVER
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.model import REFUSED, Model
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.slots import ends_of, ordered_events, slot_bits

Config = tuple[Value, int, int]

ENOUGH = 8
"""How many explanations of a return the first run looks at."""
FORGETS = 4096
"""How many configurations wait for it; see ``beam.Beam``."""
FIRST_TRIES = 32
"""How many configurations it may visit for each event."""
SPARE = (0, 1)
"""How many unknown operations more than it must each thrifty run may use at a return."""
THRIFTY_WIDTH = 64
THRIFTY_TRIES = 64
"""How many configurations a thrifty run may visit for each event."""
WIDTHS = (4, 64, 1024)
TRIES_PER_EVENT = 4
"""How many configurations all but the widest beam may visit, for each event and each configuration of their width."""
SHARE = 2
"""Which part of the budget the run may take that looks for all configurations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What an object may be in when a part of its history begins.

    ``configs`` are states, each with the positions (``invoked``) of the pending operations that have taken effect in
    it. Unless ``is_all``, it may be in others as well.
    """

    configs: tuple[tuple[Value, frozenset[int]], ...]
    is_all: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How one walk goes: ``tries`` for each event, None for as many as there are; and see ``ModelWalker``."""

    width: int
    tries: int | None
    spare: int | None = None
    enough: int = EVER


class Search:
    """The search for one object; ``operations`` are those that say something.

    It goes from ``start``, by default the model's first state, to the event at position ``stop``, or to the last one.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        model: Model,
        budget: Budget,
        start: Start | None = None,
        stop: int | None = None,
    ) -> None:
        self._operations, self._model, self._frontier = operations, model, budget.frontier
        self.events = ordered_events(operations)
        self._configurations = budget.limit(len(self.events))
        self._start = start or Start(configs=((model.initial(), frozenset()),))
        self._is_cut = stop is not None
        self.stop = len(self.events) if stop is None else sum(self.position(event) < stop for event in self.events)
        self._ends = ends_of(self.events, len(operations))
        self._bits, _, _ = slot_bits(self.events, self._ends)
        self._has_all = False

    def position(self, event: int) -> int:
        """Where ``event`` stands in the history."""
        returned = self._operations[~event].returned
        if event >= 0:
            return self._operations[event].invoked
        assert returned is not None, f"operation {~event} never returned"
        return returned

    def run(self) -> Finding[Config]:
        """The answer, by runs that leave things out and then by wider and wider beams."""
        found: Finding[Config] = Finding()
        reached = visited = 0
        for way in self._ways():
            room = self._configurations - visited
            if way.width == EVER:
                room //= SHARE
            if way.tries is not None:
                room = min(room, way.tries * len(self.events))
            found = self._walk(way, room)
            visited += found.visited
            reached = max(reached, found.reached)
            self._has_all = way.width == EVER
            if found.answer is not Answer.UNDECIDED or visited >= self._configurations:
                break
        if found.answer is Answer.NO and not self._start.is_all:
            return Finding(reached=reached, visited=visited)
        found.reached, found.visited = reached, visited
        return found

    def _ways(self) -> list[_Way]:
        """The runs, one after the other until one finds an answer."""
        unknown = any(operation.outcome is Outcome.INFO for operation in self._operations)
        first = [_Way(width=EVER, tries=None)] if self._is_cut and self._start.is_all else []
        first += [_Way(width=1, tries=FIRST_TRIES, enough=ENOUGH)]
        first += [_Way(width=THRIFTY_WIDTH, tries=THRIFTY_TRIES, spare=spare) for spare in SPARE if unknown]
        first += [_Way(width=width, tries=TRIES_PER_EVENT * width) for width in WIDTHS[:-1]]
        return [*first, _Way(width=WIDTHS[-1], tries=None)]

    def _walk(self, way: _Way, room: int) -> Finding[Config]:
        effort = Effort(room=room, held_max=self._frontier)
        walker = ModelWalker(self._operations, self._model, self.events, effort, way.spare, way.enough)
        beam = Beam(
            walker=walker,
            events=self.events,
            stop=self.stop,
            width=way.width,
            forgets=EVER if way.enough == EVER else FORGETS,
        )
        return beam.walk(*self._begun())

    def _begun(self) -> list[Config]:
        """The configurations to begin with. What nobody knows the end of is used, all else that took effect is done."""
        configs: list[Config] = []
        places = {operation.invoked: k for k, operation in enumerate(self._operations)}
        for state, effective in self._start.configs:
            done = used = 0
            for k in (places[position] for position in effective if position in places):
                if self._ends[k] == EVER:
                    used |= self._bits[k]
                else:
                    done |= self._bits[k]
            configs.append((state, done, used))
        return configs

    def left(self, found: Finding[Config]) -> Start:
        """What the object may be in at ``stop``, by what ``run`` found: all of that, if the budget was enough."""
        assert found.answer is Answer.YES, f"{found.answer} says of no state"
        pending = [k for k, end in enumerate(self._ends) if end >= self.stop]
        configs = (
            (
                state,
                frozenset(
                    self._operations[k].invoked
                    for k in pending
                    if (used if self._ends[k] == EVER else done) & self._bits[k]
                ),
            )
            for state, done, used in found.frontier
        )
        return Start(configs=tuple(dict.fromkeys(configs)), is_all=self._start.is_all and self._has_all)

    def states_at_end(self, most: int) -> list[Value]:
        """States that the object could be in after the last event, at most ``most``; none if there is none."""
        found = self.run()
        effort = Effort(room=self._configurations)
        walker = ModelWalker(self._operations, self._model, self.events, effort)
        for event in self.events:
            walker.do(event)
        return walker.states_of(found.frontier, most) if found.answer is Answer.YES else []


class ModelWalker(Walker[Config]):
    """Steps of a walk by ``Model.step``.

    With ``spare`` not all that a return may have led to is found, but what needs as few unknown operations as can be,
    or so many more. With ``enough`` no more is looked at than so many explanations of a return.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        model: Model,
        events: list[int],
        effort: Effort,
        spare: int | None = None,
        enough: int = EVER,
    ) -> None:
        self.effort = effort
        self._spare, self._enough = spare, enough
        self._operations, self._model = operations, model
        self._ends = ends_of(events, len(operations))
        self._bits, _, _ = slot_bits(events, self._ends)
        self._reads_only = [model.reads_only(operation) for operation in operations]
        self._alike = [self._likeness(operation) for operation in operations]
        self._reads: list[int] = []
        self._known: dict[Hashable, list[int]] = {}
        self._unknown: dict[Hashable, list[int]] = {}

    def begin(self, k: int, frontier: list[Config]) -> list[Config]:
        """Reads that can take effect do."""
        self._enter(k)
        if not self._reads_only[k]:
            return frontier
        bit = self._bits[k]
        return [(c[0], c[1] | bit, c[2]) if self._fits(c[0], k) else c for c in frontier]

    def end(self, k: int, index: int, frontier: list[Config]) -> list[Config]:  # noqa: ARG002 (for other walkers)
        """All to which sequences that end with ``k`` may have led."""
        bit = self._bits[k]
        after = [(config[0], config[1] ^ bit, config[2]) for config in frontier if config[1] & bit]
        others = [config for config in frontier if not config[1] & bit]
        if self._spare is None:
            for config in others:
                self._reach(config, bit, after)
        else:
            self._reach_thriftily(others, bit, after, self._spare)
        self._leave(k)
        return self._without_dominated(after) if len(after) > 1 else after

    def undo(self, event: int) -> None:
        """Pending is what was before ``event``."""
        self.do(~event)

    def promise(self, config: Config) -> tuple[int, ...]:
        """Few unknown operations used, few known ones done that could be done later."""
        return config[2].bit_count(), config[1].bit_count()

    def do(self, event: int) -> None:
        """Pending is what is after ``event``."""
        if event >= 0:
            self._enter(event)
        else:
            self._leave(~event)

    def states_of(self, frontier: Sequence[Config], most: int) -> list[Value]:
        """States that what is pending can make of ``frontier``, at most ``most``."""
        states = list(dict.fromkeys(config[0] for config in frontier))
        todo = list(frontier)
        for config in todo:
            if len(states) >= most or len(todo) > 100 * most:
                break
            for step in self._steps(config):
                if step[0] not in states:
                    states.append(step[0])
                    todo.append(step)
        return states[:most]

    def _likeness(self, operation: Operation) -> Hashable:
        """What tells operations apart, as far as the model can see."""
        process = operation.process if self._model.process_matters else None
        result = (operation.result,) if operation.outcome is Outcome.OK else ()
        return operation.f, operation.argument, result, process

    def _enter(self, k: int) -> None:
        if self._reads_only[k]:
            self._reads.append(k)
            return
        groups = self._unknown if self._ends[k] == EVER else self._known
        group = groups.setdefault(self._alike[k], [])
        group.append(k)
        group.sort(key=lambda other: (self._ends[other], other))

    def _leave(self, k: int) -> None:
        if self._reads_only[k]:
            self._reads.remove(k)
            return
        groups = self._unknown if self._ends[k] == EVER else self._known
        groups[self._alike[k]].remove(k)
        if not groups[self._alike[k]]:
            del groups[self._alike[k]]

    def _fits(self, state: Value, k: int) -> bool:
        return self._model.step(state, self._operations[k]) is not REFUSED

    def _seen(self, state: Value, done: int) -> int:
        """``done`` and the reads that can take effect in ``state``."""
        for k in self._reads:
            if not done & self._bits[k] and self._fits(state, k):
                done |= self._bits[k]
        return done

    def _reach(self, start: Config, bit: int, after: list[Config]) -> None:
        effort = self.effort
        room = effort.room - effort.visited
        todo = [start]
        seen = {start[:2]: [start[2]]}
        for config in todo:
            for step in self._steps(config):
                if step[1] & bit:
                    after.append((step[0], step[1] ^ bit, step[2]))
                    continue
                others = seen.setdefault(step[:2], [])
                if all(other & ~step[2] for other in others):
                    others.append(step[2])
                    todo.append(step)
            if len(after) >= self._enough:
                effort.left_out = True
                break
            if len(todo) > room or max(len(todo), len(after)) > effort.held_max:
                break
        effort.spend(len(todo), max(len(todo), len(after)))

    def _reach_thriftily(self, starts: list[Config], bit: int, after: list[Config], spare: int) -> None:
        """What ends with ``bit``, by layers of one unknown operation more each; ``spare`` after the first that does."""
        effort = self.effort
        effort.left_out = True
        layer, seen = starts, set(starts)
        while layer and spare >= 0:
            following: list[Config] = []
            for config in layer:
                if not effort.spend(1, max(len(seen), len(after))):
                    return
                for step in self._steps(config):
                    if step[1] & bit:
                        after.append((step[0], step[1] ^ bit, step[2]))
                    elif step not in seen and (step[2] == config[2] or spare > 0 or not after):
                        seen.add(step)
                        (layer if step[2] == config[2] else following).append(step)
            layer = following
            spare -= bool(after)

    def _steps(self, config: Config) -> list[Config]:
        """All that may take effect next, the reads that it allows included."""
        state, done, used = config
        steps: list[Config] = []
        for group in self._known.values():
            k = next((k for k in group if not done & self._bits[k]), None)
            if k is not None and (after := self._model.step(state, self._operations[k])) is not REFUSED:
                steps.append((after, self._seen(after, done | self._bits[k]), used))
        for group in self._unknown.values():
            k = next((k for k in group if not used & self._bits[k]), None)
            if k is None:
                continue
            after = self._model.step(state, self._operations[k])
            if after is not REFUSED and after != state:
                steps.append((after, self._seen(after, done), used | self._bits[k]))
        return steps

    def _without_dominated(self, configs: list[Config]) -> list[Config]:
        reads = sum(self._bits[k] for k in self._reads)
        alike: dict[tuple[Value, int], list[Config]] = {}
        for config in sorted(
            dict.fromkeys(configs), key=lambda config: (config[2].bit_count(), -config[1].bit_count())
        ):
            group = alike.setdefault((config[0], config[1] & ~reads), [])
            if not any(_can_all(other, config) for other in group):
                group.append(config)
        return [config for group in alike.values() for config in group]


def _can_all(strong: Config, weak: Config) -> bool:
    """Whether all that ``weak`` may still do, ``strong`` may: their states are the same, and their changes."""
    return not weak[1] & ~strong[1] and not strong[2] & ~weak[2]
