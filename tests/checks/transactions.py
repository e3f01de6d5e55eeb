"""Random histories of transactions over a few logs, clean or with lies in them, as a Kafka workload records them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nemesis.formats.events import Event
from nemesis.formats.kafka_operations import micro_operations
from nemesis.formats.values import Keyword, MapValue, Truth
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Value

KEYS, PROCESSES, STEPS = (1, 2), 3, 45
Record = tuple[int, int]


@dataclass
class Micro:
    """One send (``offset`` None where its completion does not tell it) or poll."""

    key: int = 0
    value: int = 0
    offset: int | None = None
    polled: dict[int, list[Record]] | None = None

    @property
    def is_send(self) -> bool:
        """Whether it is no poll."""
        return self.polled is None


@dataclass
class Op:
    """One operation; ``end`` is None where it never ended. ``keys`` are those of an assign or subscribe."""

    index: int
    process: int
    f: str
    micro: list[Micro] = field(default_factory=list)
    keys: tuple[int, ...] = ()
    seek: bool = False
    end: int | None = None
    type: str = "info"
    moved: tuple[int, ...] = ()
    applied: bool = False

    def reads(self, key: int) -> list[Record]:
        """What its polls returned of one log, in order."""
        return [record for micro in self.micro if micro.polled for record in micro.polled.get(key, [])]

    def sends(self, key: int) -> list[Micro]:
        """What it sent to one log, in order."""
        return [micro for micro in self.micro if micro.is_send and micro.key == key]


def send(key: int, value: int, offset: int | None = None) -> Micro:
    """A send."""
    return Micro(key=key, value=value, offset=offset)


def polls(**logs: Sequence[Record]) -> Micro:
    """A poll; ``k1`` is log 1."""
    return Micro(polled={int(name[1:]): list(records) for name, records in logs.items()})


def txn(span: tuple[int, int], *micro: Micro, process: int = 0, type: str = "ok", moved: Sequence[int] = ()) -> Op:
    """A transaction."""
    return Op(index=span[0], process=process, f="txn", micro=list(micro), end=span[1], type=type, moved=tuple(moved))


def taking(f: str, span: tuple[int, int], *keys: int, process: int = 0, seek: bool = False, type: str = "ok") -> Op:
    """An assign or subscribe."""
    return Op(index=span[0], process=process, f=f, keys=keys, end=span[1], type=type, seek=seek)


def events_of(ops: Sequence[Op]) -> list[Event]:
    """The history as a reader would hand it out."""
    events = []
    for op in ops:
        asked: Value = op.keys or tuple(_asked(micro) for micro in op.micro)
        extra: dict[str, Value] = {"seek-to-beginning?": Truth.TRUE} if op.seek else {}
        events.append(_event(op, op.index, EventType.INVOKE, asked, extra))
        if op.end is not None:
            told: Value = op.keys or tuple(_told(micro) for micro in op.micro)
            moved = (MapValue.of([(Keyword("keys"), op.moved)]),)
            events.append(_event(op, op.end, EventType(op.type), told, {"rebalance-log": moved} if op.moved else {}))
    return sorted(events, key=lambda event: event.index or 0)


def _event(op: Op, index: int, type: EventType, value: Value, extra: dict[str, Value]) -> Event:
    return Event(line=index + 1, index=index, process=op.process, type=type, f=op.f, value=value, extra=extra)


def _asked(micro: Micro) -> Value:
    return (Keyword("send"), micro.key, micro.value) if micro.is_send else (Keyword("poll"),)


def _told(micro: Micro) -> Value:
    if micro.polled is None:
        return (Keyword("send"), micro.key, (micro.offset, micro.value))
    return (Keyword("poll"), MapValue.of((key, tuple(found)) for key, found in micro.polled.items()))


def table_of(ops: Sequence[Op]) -> pa.Table:
    """The history as the checks take it."""
    return micro_operations(events_of(ops), Path("history"))


class Transactions:
    """A clean history in the making: transactions take effect whole, at one moment between their two events."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.logs: dict[int, dict[int, int]] = {key: {} for key in KEYS}
        self.ends = dict.fromkeys(KEYS, 0)
        self.positions: dict[tuple[int, int], int] = {}
        self.subscribed: set[int] = set()
        self.pending: dict[int, Op] = {}
        self.ops: list[Op] = []
        self.value = 0
        self.clock = 0
        self.names = dict(enumerate(range(PROCESSES)))
        self.fresh = PROCESSES

    def tick(self) -> int:
        """The index of the next event."""
        self.clock += 1
        return self.clock - 1

    def history(self) -> list[Op]:
        """All operations, in order of invocation."""
        for _ in range(STEPS):
            slot = self.rng.randrange(PROCESSES)
            op = self.pending.get(slot)
            if op is None:
                self.invoke(slot)
            elif not op.applied:
                op.applied = True
                self.apply(op)
            else:
                self.complete(slot, op)
        return sorted(self.ops, key=lambda op: op.index)

    def invoke(self, slot: int) -> None:
        """Begin a transaction, or take other keys."""
        process = self.names[slot]
        if self.rng.random() < 0.15:
            keys = tuple(self.rng.sample(KEYS, self.rng.randrange(1, len(KEYS) + 1)))
            f, seek = self.rng.choice(["assign", "assign", "subscribe"]), self.rng.random() < 0.3
            op = Op(index=self.tick(), process=process, f=f, keys=keys, seek=seek)
        else:
            op = Op(index=self.tick(), process=process, f="txn")
            for _ in range(self.rng.randrange(1, 4)):
                self.value += 1
                is_send = self.rng.random() < 0.5
                op.micro.append(send(self.rng.choice(KEYS), self.value) if is_send else Micro(polled={}))
        self.pending[slot] = op
        self.ops.append(op)

    def apply(self, op: Op) -> None:
        """What the operation does; a transaction that will fail leaves gaps in the logs."""
        op.type = self.rng.choices(["ok", "info", "fail"], [8, 1, 1])[0]
        happens = op.type == "ok" or (op.type == "info" and self.rng.random() < 0.5)
        if op.keys and op.type != "fail":
            self.take(op)
        # What it polls is what was committed before, so that none sees its own sends.
        for micro in (micro for micro in op.micro if not micro.is_send):
            self.poll(op, micro)
        for micro in (micro for micro in op.micro if micro.is_send):
            offset = self.ends[micro.key]
            self.ends[micro.key] += self.rng.choice([1, 1, 2])
            if happens:
                self.logs[micro.key][offset] = micro.value
            if op.type == "ok" or self.rng.random() < 0.3:
                micro.offset = offset if self.rng.random() < 0.9 else None

    def take(self, op: Op) -> None:
        """Keys that are not kept, or sought, begin anew; so do all when a group's consumer takes its own."""
        left = op.process in self.subscribed and op.f == "assign"
        (self.subscribed.add if op.f == "subscribe" else self.subscribed.discard)(op.process)
        for key in KEYS:
            if key not in op.keys or op.seek or left:
                self.positions.pop((op.process, key), None)

    def poll(self, op: Op, micro: Micro) -> None:
        """Read on in each log; an operation that does not succeed takes nobody further."""
        assert micro.polled is not None
        for key in KEYS:
            done = [offset + 1 for offset, _ in op.reads(key)]
            at = max([self.positions.get((op.process, key), 0), *done])
            found = [(o, v) for o, v in sorted(self.logs[key].items()) if o >= at][: self.rng.choice([1, 2, 9])]
            if found and self.rng.random() < 0.8:
                micro.polled[key] = found

    def complete(self, slot: int, op: Op) -> None:
        """Tell what happened; who does not know is somebody else from then on."""
        del self.pending[slot]
        if op.type != "info" or self.rng.random() < 0.5:
            op.end = self.tick()
        if op.type == "ok":
            for key in KEYS:
                if op.reads(key):
                    self.positions[(op.process, key)] = op.reads(key)[-1][0] + 1
        elif op.type == "info":
            self.names[slot] = self.fresh
            self.fresh += 1


def clean(seed: int) -> list[Op]:
    """A history without a lie."""
    simulation = Transactions(seed)
    ops = simulation.history()
    for op in ops:
        if op.end is None:
            op.type = "info"
            for micro in op.micro:
                micro.offset, micro.polled = None, {} if micro.polled is not None else None
    return ops


def lying(seed: int, lies: int) -> list[Op]:
    """A history with this many lies."""
    ops, rng = clean(seed), random.Random(seed)
    for _ in range(lies):
        rng.choice(LIES)(rng, ops)
    return ops


def _read_lists(ops: Sequence[Op]) -> list[list[Record]]:
    return [found for op in ops for micro in op.micro if micro.polled for found in micro.polled.values() if found]


def _placed(ops: Sequence[Op]) -> list[Micro]:
    return [micro for op in ops for micro in op.micro if micro.is_send and micro.offset is not None]


def _lie_about_a_value(rng: random.Random, ops: Sequence[Op]) -> None:
    for found in rng.sample(_read_lists(ops), min(1, len(_read_lists(ops)))):
        at = rng.randrange(len(found))
        found[at] = (found[at][0], rng.randrange(40))


def _lie_about_an_offset(rng: random.Random, ops: Sequence[Op]) -> None:
    for found in rng.sample(_read_lists(ops), min(1, len(_read_lists(ops)))):
        at = rng.randrange(len(found))
        found[at] = (max(found[at][0] + rng.choice([-2, -1, 1, 2, 10**12]), 0), found[at][1])


def _hide_a_record(rng: random.Random, ops: Sequence[Op]) -> None:
    for found in rng.sample(_read_lists(ops), min(1, len(_read_lists(ops)))):
        found.pop(rng.randrange(len(found)))


def _turn_records(rng: random.Random, ops: Sequence[Op]) -> None:
    for found in rng.sample(_read_lists(ops), min(1, len(_read_lists(ops)))):
        rng.shuffle(found)


def _hide_a_value(rng: random.Random, ops: Sequence[Op]) -> None:
    value = rng.randrange(1, 30)
    for found in _read_lists(ops):
        found[:] = [record for record in found if record[1] != value]


def _show_only_to_the_unsure(rng: random.Random, ops: Sequence[Op]) -> None:
    """No successful operation read a value whose sender does not know where it stands either."""
    unsure = {value for op in ops if op.type == "info" for key in KEYS for _, value in op.reads(key)}
    for value in unsure:
        for op in ops:
            for micro in op.micro:
                micro.offset = None if micro.is_send and micro.value == value else micro.offset
                for found in (micro.polled or {}).values() if op.type == "ok" else ():
                    found[:] = [record for record in found if record[1] != value]


def _move_a_send(rng: random.Random, ops: Sequence[Op]) -> None:
    for micro in rng.sample(_placed(ops), min(1, len(_placed(ops)))):
        micro.offset = max((micro.offset or 0) + rng.choice([-3, -2, -1, 1, 2]), 0)


def _end_otherwise(rng: random.Random, ops: Sequence[Op]) -> None:
    ended = [op for op in ops if op.end is not None]
    if ended:
        rng.choice(ended).type = rng.choice(["fail", "info", "ok"])


def _poll_ones_own(rng: random.Random, ops: Sequence[Op]) -> None:
    own = [(op, micro) for op in ops for micro in op.micro if micro.is_send and micro.offset is not None]
    for op, micro in rng.sample(own, min(1, len(own))):
        op.micro.append(Micro(polled={micro.key: [(micro.offset or 0, micro.value)]}))


def _read_another(rng: random.Random, ops: Sequence[Op]) -> None:
    """An early operation reads what a late one has sent."""
    sends, readers = _placed(ops), [op for op in ops if op.end is not None and op.f == "txn"]
    if sends and readers:
        micro = rng.choice(sends)
        rng.choice(readers).micro.append(Micro(polled={micro.key: [(micro.offset or 0, micro.value)]}))


def _rebalance(rng: random.Random, ops: Sequence[Op]) -> None:
    ended = [op for op in ops if op.end is not None and op.f == "txn"]
    if ended:
        rng.choice(ended).moved = (rng.choice(KEYS),)


def _forget_what_was_taken(rng: random.Random, ops: Sequence[Op]) -> None:
    for op in ops:
        if op.keys and rng.random() < 0.5:
            op.keys, op.seek, op.f = KEYS, False, rng.choice(["assign", "subscribe"])


LIES: tuple[Callable[[random.Random, Sequence[Op]], Any], ...] = (
    _lie_about_a_value,
    _lie_about_an_offset,
    _hide_a_record,
    _turn_records,
    _hide_a_value,
    _show_only_to_the_unsure,
    _move_a_send,
    _move_a_send,
    _end_otherwise,
    _poll_ones_own,
    _read_another,
    _read_another,
    _rebalance,
    _forget_what_was_taken,
)
