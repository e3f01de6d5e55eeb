"""Objects that serve one operation at a time, and processes that use them: histories that are linearizable.

Owns the interleaving: each operation begins, takes effect and ends, at three moments that the dice choose, so that its
effect lies between its two events. One of unknown outcome takes effect or does not, before anybody else is told of it;
its process is not heard of again, and another takes its place. Source: Herlihy and Wing (1990).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.synth.plan import Newcomers, Placing, Plan, SynthModel

READ_SHARE = 0.5
FETCH_MAX = 10
LIST_MAX = 50
"""A list that is so long is not appended to any more: each read of it is written out whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event of a history of objects."""

    index: int
    process: int
    type: str
    f: str
    key: int
    value: Any


@dataclass(slots=True)
class Register:
    """One value, None at first; every written value is another."""

    names: tuple[str, str, str | None]
    value: int | None = None

    def ask(self, rng: random.Random, numbers: Newcomers) -> tuple[str, Any]:
        """What a client may want now."""
        read, write, cas = self.names
        if rng.random() < READ_SHARE:
            return read, None
        if cas is not None and rng.random() < 0.5:
            return cas, [self.value if rng.random() < 0.7 else numbers.fresh(), numbers.fresh()]
        return write, numbers.fresh()

    def serve(self, f: str, argument: Any) -> tuple[str, Any]:
        """Do it; how it ends, and the value of the completion."""
        if f == self.names[0]:
            return "ok", self.value
        if f == self.names[1]:
            self.value = argument
            return "ok", argument
        if argument[0] != self.value:
            return "fail", argument
        self.value = argument[1]
        return "ok", argument


@dataclass(slots=True)
class Log:
    """Records at the offsets 0, 1, 2 ..."""

    records: list[int]

    def ask(self, rng: random.Random, numbers: Newcomers) -> tuple[str, Any]:
        """Append one record, or fetch some."""
        if rng.random() < READ_SHARE:
            end = len(self.records)
            return "fetch", [rng.randrange(max(end - FETCH_MAX, 0), end + 1), rng.choice([2, FETCH_MAX])]
        return "append", numbers.fresh()

    def serve(self, f: str, argument: Any) -> tuple[str, Any]:
        """Do it."""
        if f == "append":
            self.records.append(argument)
            return "ok", [len(self.records) - 1, argument]
        return "ok", self.records[argument[0] : argument[0] + argument[1]]


@dataclass(slots=True)
class List:
    """Elements in the order in which they were appended, read as a whole."""

    elements: list[int]

    def ask(self, rng: random.Random, numbers: Newcomers) -> tuple[str, Any]:
        """Append one, or read all."""
        if rng.random() < READ_SHARE or len(self.elements) >= LIST_MAX:
            return "read", None
        return "append", numbers.fresh()

    def serve(self, f: str, argument: Any) -> tuple[str, Any]:
        """Do it."""
        if f == "append":
            self.elements.append(argument)
            return "ok", argument
        return "ok", list(self.elements)


Object = Register | Log | List


def new_object(model: SynthModel) -> Object:
    """An object as it is at first."""
    match model:
        case SynthModel.REGISTER:
            return Register(("read", "write", None))
        case SynthModel.CAS_REGISTER:
            return Register(("read", "write", "cas"))
        case SynthModel.KV:
            return Register(("get", "put", "cas"))
        case SynthModel.LOG:
            return Log([])
        case SynthModel.LIST:
            return List([])
        case _:
            raise AssertionError(f"{model} is no object")


@dataclass(slots=True)
class _Running:
    """An operation that has begun. ``end`` is how it will end, None until it has taken effect."""

    process: int
    f: str
    key: int
    argument: Any
    end: tuple[str, Any] | None = None


Script = Callable[["ObjectWorld", Placing], None]


class ObjectWorld(Newcomers):
    """All objects and all processes of one history; ``events`` are told since they were last taken.

    ``scripts`` plant: each is called when nothing is pending on its key.
    """

    def __init__(self, plan: Plan, scripts: dict[str, Script], placed: list[Placing]) -> None:
        super().__init__(plan.processes)
        self.rng = random.Random(f"objects {plan.seed}")
        self.events: list[Told] = []
        self.objects: dict[int, Object] = {}
        self._plan = plan
        self._scripts = scripts
        self._waiting = {placing.keys[0]: placing for placing in placed}
        self._served: dict[int, int] = {}
        self._pending: dict[int, int] = {}
        self._running: list[_Running | None] = [None] * plan.processes
        self._names = list(range(plan.processes))
        self.index = 0

    def object_of(self, key: int) -> Object:
        """The object of a key; it comes into being when it is first used."""
        if key not in self.objects:
            self.objects[key] = new_object(self._plan.model)
        return self.objects[key]

    def tell(self, process: int, type: str, f: str, key: int, value: Any) -> int:
        """Record one event; returns its index."""
        self.events.append(Told(index=self.index, process=process, type=type, f=f, key=key, value=value))
        self.index += 1
        return self.index - 1

    def run(self) -> Iterator[list[Told]]:
        """The history, piece by piece."""
        begun = 0
        busy = 0
        while begun < self._plan.operations or busy:
            slot = self.rng.randrange(self._plan.processes)
            running = self._running[slot]
            if running is None:
                if begun < self._plan.operations and self._begin(slot):
                    begun, busy = begun + 1, busy + 1
            elif running.end is None:
                running.end = self._effect(running)
            else:
                self._end(slot, running)
                busy -= 1
            if len(self.events) >= 1000:
                yield self._taken()
        for placing in sorted(self._waiting.values(), key=lambda one: one.keys):
            self._scripts[placing.name](self, placing)
        yield self._taken()

    def _taken(self) -> list[Told]:
        taken, self.events = self.events, []
        return taken

    def _begin(self, slot: int) -> bool:
        key = self.rng.randrange(self._plan.keys)
        placing = self._waiting.get(key)
        if placing is not None and self._served.get(key, 0) >= placing.after:
            # Nobody else is let in before those who are in have left.
            if self._pending.get(key, 0):
                return False
            del self._waiting[key]
            self._scripts[placing.name](self, placing)
        f, argument = self.object_of(key).ask(self.rng, self)
        self._running[slot] = _Running(process=self._names[slot], f=f, key=key, argument=argument)
        self._pending[key] = self._pending.get(key, 0) + 1
        self.tell(self._names[slot], "invoke", f, key, argument)
        return True

    def _effect(self, running: _Running) -> tuple[str, Any]:
        if self.rng.random() >= self._plan.unknown_rate:
            return self.object_of(running.key).serve(running.f, running.argument)
        if self.rng.random() < 0.5:
            self.object_of(running.key).serve(running.f, running.argument)
        return "info", running.argument

    def _end(self, slot: int, running: _Running) -> None:
        assert running.end is not None, f"{running} has not taken effect"
        self._running[slot] = None
        self._pending[running.key] -= 1
        self._served[running.key] = self._served.get(running.key, 0) + 1
        if running.end[0] == "info":
            self._names[slot] = self.new_process()
            if self.rng.random() < 0.5:
                return
        self.tell(running.process, running.end[0], running.f, running.key, running.end[1])
