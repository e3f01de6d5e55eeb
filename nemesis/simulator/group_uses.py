"""What clients do with the machines of a simulated world: the commands, the questions, and what answers say.

Owns the mix, and the words of the history (``nemesis.history.events``): each key of the store is a register, a counter
is an object of its own. Values are unique, so that a read names its write; what a compare-and-set expects is what was
seen last by anybody, so that many succeed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nemesis.history import READ
from nemesis.simulator.group_climate import COUNTER, STORE, GroupClimate
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.workload.counter import INCREMENT
from nemesis.workload.register import CAS, WRITE
from replica.ids import TopicPartition
from replica.machines.key_value import KeyValue, decode_response, encode_command, encode_request
from replica.machines.key_value.commands import CompareAndSetValue, Get, Put
from replica.machines.key_value.results import CompareAndSetResult, GetResult, PutResult

AMOUNT_MAX = 5
WRITES = 0.5
"""The share of commands on registers that write; the others compare and set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One thing to do: to which machine it goes and what it says there, and how its invocation is recorded."""

    log: TopicPartition
    name: str
    f: str
    said: bytes
    value: int | None = None
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What an answer says. ``done`` is false where what it was conditional on was not so."""

    done: bool = True
    value: int | None = None
    offset: int | None = None
    detail: Mapping[str, Any] | None = None


class Uses:
    """Draws what is done next, and remembers what was seen. One for all processes."""

    def __init__(self, climate: GroupClimate, dice: Random) -> None:
        self._climate = climate
        self._dice = dice
        self._seen: dict[str, int | None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All objects."""
        counters = (f"{COUNTER}",) if self._climate.counter else ()
        return (*self._climate.registers, *counters)

    def choose(self) -> str:
        """One of the objects."""
        return self._dice.choice(self.names)

    def read(self, name: str) -> Use:
        """Read an object."""
        if name == f"{COUNTER}":
            return Use(log=COUNTER, name=name, f=READ, said=b"")
        return Use(log=STORE, name=name, f=READ, said=encode_request(Get(key=name.encode())))

    def change(self, name: str, value: int) -> Use:
        """Change an object; ``value`` is one that nobody had before."""
        if name == f"{COUNTER}":
            amount = self._dice.choice((-1, 1)) * self._dice.randint(1, AMOUNT_MAX)
            return Use(log=COUNTER, name=name, f=INCREMENT, said=b"%d" % amount, value=amount)
        if self._dice.random() < WRITES:
            return self.write(name, value)
        expected = self._seen.get(name)
        command = CompareAndSetValue(
            key=name.encode(), expected=None if expected is None else b"%d" % expected, value=b"%d" % value
        )
        detail = {"expected": expected}
        return Use(log=STORE, name=name, f=CAS, said=encode_command(command), value=value, detail=detail)

    def write(self, name: str, value: int) -> Use:
        """Write a register."""
        command = encode_command(Put(key=name.encode(), value=b"%d" % value))
        return Use(log=STORE, name=name, f=WRITE, said=command, value=value)

    def told(self, use: Use, reply: bytes) -> Told:
        """What the machine has answered."""
        if use.log == COUNTER:
            return Told(value=int(reply))
        response = decode_response(reply)
        match response.result:
            case PutResult():
                self._seen[use.name] = use.value
                return Told(offset=response.revision)
            case CompareAndSetResult(succeeded=True):
                self._seen[use.name] = use.value
                return Told(offset=response.revision)
            case CompareAndSetResult(current=current):
                return self._found(use, current, response.revision, done=False)
            case GetResult(found=found):
                return self._found(use, found, response.revision, done=True)
            case _:
                raise BrokenInvariantError("not-understood", f"{use.f} of {use.name} was answered with {response}")

    def _found(self, use: Use, found: KeyValue | None, revision: int, *, done: bool) -> Told:
        value = None if found is None else int(found.value)
        self._seen[use.name] = value
        detail = None if found is None else {"changed_at": found.mod_revision}
        return Told(done=done, value=value, offset=revision, detail=detail)
