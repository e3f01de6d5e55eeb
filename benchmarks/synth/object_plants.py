"""What no object can have done: a few operations one after the other, on a key that nobody else touches meanwhile.

Owns one script for each kind of anomaly. Every value in a script is new, so that no operation of unknown outcome, which
may yet take effect, explains it: each script says in one line why nothing else can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.synth.manifest import Planted
from benchmarks.synth.objects import List, Log, ObjectWorld, Register, Script
from benchmarks.synth.plan import Placing, SynthModel

REGISTER = ("stale-read", "lost-write", "phantom-read", "aborted-read")
CAS = (*REGISTER, "double-cas")
LOG = ("stale-read", "lost-write", "phantom-read", "aborted-read", "duplicate-offset", "realtime-reorder")
LIST = ("lost-write", "phantom-read", "aborted-read", "duplicate", "realtime-reorder")

KINDS: Mapping[SynthModel, tuple[str, ...]] = {
    SynthModel.REGISTER: REGISTER,
    SynthModel.CAS_REGISTER: CAS,
    SynthModel.KV: CAS,
    SynthModel.LOG: LOG,
    SynthModel.LIST: LIST,
}
"""The anomalies that each model can be planted with."""


def object_scripts(planted: list[Planted]) -> dict[str, Script]:
    """The script of each kind; what it has planted is added to ``planted``."""

    def scripted(world: ObjectWorld, placing: Placing) -> None:
        tape = _Tape(world, placing.keys[0])
        target = world.object_of(placing.keys[0])
        if isinstance(target, Register):
            _register(tape, target, placing.name)
        elif isinstance(target, Log):
            _log(tape, target, placing.name)
        else:
            _list(tape, target, placing.name)
        planted.append(Planted(anomaly=placing.name, keys=placing.keys, op_indexes=tuple(tape.indexes)))

    return dict.fromkeys({name for names in KINDS.values() for name in names}, scripted)


class _Tape:
    """Operations of one new process on one key, each ended before the next begins."""

    def __init__(self, world: ObjectWorld, key: int) -> None:
        self.fresh = world.fresh
        self.indexes: list[int] = []
        self._world = world
        self._key = key
        self._process = world.new_process()

    def did(self, f: str, argument: Any, result: Any, type: str = "ok") -> None:
        """One operation, whatever the object would have said to it."""
        self.indexes.append(self._world.tell(self._process, "invoke", f, self._key, argument))
        self._world.tell(self._process, type, f, self._key, result)


def _register(tape: _Tape, register: Register, name: str) -> None:
    read, write, cas = register.names
    a, b, c = tape.fresh(), tape.fresh(), tape.fresh()
    match name:
        case "stale-read":  # a was overwritten before the read began, and is written by nobody else
            tape.did(write, a, a)
            tape.did(write, b, b)
            tape.did(read, None, a)
            register.value = b
        case "lost-write":  # a was read, so that it stood there before b, which took its place
            tape.did(write, a, a)
            tape.did(read, None, a)
            tape.did(write, b, b)
            tape.did(read, None, a)
            register.value = b
        case "phantom-read":  # nobody writes a
            tape.did(read, None, a)
        case "aborted-read":  # the only write of a had no effect
            tape.did(write, a, a, "fail")
            tape.did(read, None, a)
        case _:  # both found a, which was written once, and each took its place
            tape.did(write, a, a)
            tape.did(cas or "", [a, b], [a, b])
            tape.did(cas or "", [a, c], [a, c])
            register.value = c


def _log(tape: _Tape, log: Log, name: str) -> None:
    a, b = tape.fresh(), tape.fresh()
    end = len(log.records)
    match name:
        case "stale-read":  # the log was longer before the read began
            tape.did("append", a, [end, a])
            tape.did("fetch", [end, 10], [])
            log.records.append(a)
        case "lost-write":  # b stands where a was acknowledged
            tape.did("append", a, [end, a])
            tape.did("append", b, [end + 1, b])
            tape.did("fetch", [end, 10], [b])
            log.records += [a, b]
        case "phantom-read":  # nobody appends b
            tape.did("append", a, [end, a])
            tape.did("fetch", [end, 10], [a, b])
            log.records.append(a)
        case "aborted-read":  # the only append of b had no effect
            tape.did("append", a, [end, a])
            tape.did("append", b, b, "fail")
            tape.did("fetch", [end, 10], [a, b])
            log.records.append(a)
        case "duplicate-offset":  # one offset was given away twice
            tape.did("append", a, [end, a])
            tape.did("append", b, [end, b])
            log.records.append(a)
        case _:  # b was appended after a, and stands before it
            tape.did("append", a, [end + 1, a])
            tape.did("append", b, [end, b])
            log.records += [b, a]


def _list(tape: _Tape, target: List, name: str) -> None:
    a, b = tape.fresh(), tape.fresh()
    before = list(target.elements)
    match name:
        case "lost-write":  # a was appended before the read began
            tape.did("append", a, a)
            tape.did("read", None, before)
            target.elements.append(a)
        case "phantom-read":  # nobody appends b
            tape.did("read", None, [*before, b])
        case "aborted-read":  # the only append of a had no effect
            tape.did("append", a, a, "fail")
            tape.did("read", None, [*before, a])
        case "duplicate":  # a was appended once
            tape.did("append", a, a)
            tape.did("read", None, [*before, a, a])
            target.elements.append(a)
        case _:  # b was appended after a, and stands before it
            tape.did("append", a, a)
            tape.did("append", b, b)
            tape.did("read", None, [*before, b, a])
            target.elements += [a, b]
