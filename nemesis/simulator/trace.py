"""The whole story of a run, line by line, and one hash of it: two runs are the same if their hashes are.

Owns the words of a line. Watches, and changes nothing. A line is a virtual time in seconds, who, and what: an event and
what came of it, a process that begins or ends, an operation of a client, a fault. Nothing in it depends on the process
that simulates: no addresses, no order of sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from zlib import crc32

from msgspec import Struct
from msgspec.structs import fields, replace

from nemesis.history import HARNESS_PROCESS, NEMESIS_PROCESS, HistoryEvent, PolledRecord
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.world import LOG, Observer, World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.quorum.roles import Leader
from replica.ids import ReplicaId, TopicPartition
from replica.machines import EncodedState
from replica.records import RecordBatch
from replica.storage import StorageError

WHO = {NEMESIS_PROCESS: "nemesis", HARNESS_PROCESS: "harness"}
NS_PER_S = 1_000_000_000


class Trace(Observer):
    """Tells the story of one run to ``write``, a line at a time, without line ends."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.lines = 0
        self._write = write
        self._sha256 = hashlib.sha256()
        self._told = 0
        self._states: dict[tuple[ReplicaId, TopicPartition], str] = {}

    @property
    def hash(self) -> str:
        """The SHA-256 of all lines so far, in hexadecimal."""
        return self._sha256.hexdigest()

    def on_begin(self, world: World, record: Record) -> None:
        self._world, self._record = world, record

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        for key in [key for key in self._states if key[0] == node.replica_id]:
            del self._states[key]
        ends = ", ".join(
            f"{log} holds [{store.log_start_offset}, {store.log_end_offset})" for log, store in node.stores.items()
        )
        torn = f", {torn_bytes} torn bytes cut off" if torn_bytes else ""
        self._node(node, f"starts for the {_ordinal(node.incarnation)} time: {ends}{torn}")

    def on_step(self, node: Node, step: Step) -> None:
        self._node(node, "goes on with what waited for its disk" if step.event is None else told(step.event))
        for effect in step.effects:
            self._node(node, f"  {told(effect)}")
        if step.interrupted is not None:
            self._node(node, f"  broken off: {told(step.interrupted)}")
        if not step.is_whole:
            self._node(node, "  and no more of it")
        for log, state in _states(node) if step.is_whole else ():
            if state != self._states.get((node.replica_id, log)):
                self._states[node.replica_id, log] = state
                self._node(node, f"  is {state}")

    def on_down(self, node: Node, crash: Crash) -> None:
        within = f" after {crash.performed} of {crash.effects} effects" if crash.effects else ""
        self._node(node, f"is down: {crash.cause}{within}")

    def on_disk_changed(self, node: Node) -> None:
        self._node(node, f"has another disk: {node.disk.directory_id}")

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        self._node(node, f"does not start: {error}")

    def finish(self, *ending: str) -> None:
        """Tell what has not been told yet of operations and faults, and then how it ended."""
        self._tell_record()
        for line in ending:
            self._line(f"{line}")

    def _node(self, node: Node, what: str) -> None:
        self._tell_record()
        self._line(f"{self._world.now_us / US_PER_S:12.6f} replica {node.replica_id} {what}")

    def _tell_record(self) -> None:
        """Operations and faults stand in the history already, in their order."""
        for event in self._record.history[self._told :]:
            self._line(f"{event.time_ns / NS_PER_S:12.6f} {_operation(event)}")
        self._told = len(self._record.history)

    def _line(self, line: str) -> None:
        self.lines += 1
        self._sha256.update(f"{line}\n".encode())
        self._write(line)


def told(value: object) -> str:
    """An event, an effect or anything in them, in words: the fields that say something."""
    match value:
        case ev.RequestReceived(call_id=call_id, request=request):
            return f"is asked #{call_id} {told(request)}"
        case ev.ResponseReceived(correlation_id=correlation_id, replica_id=replica_id, response=response):
            return f"hears from {replica_id} on @{correlation_id} {told(response)}"
        case fx.Send(replica_id=replica_id, correlation_id=correlation_id, request=request):
            return f"Send to {replica_id} as @{correlation_id} {told(request)}"
        case fx.Reply(call_id=call_id, response=response):
            return f"Reply to #{call_id} {told(response)}"
        case RecordBatch():
            kind = "control " if value.is_control else ""
            span = f"[{value.base_offset}, {value.end_offset})"
            return f"{kind}batch {span} of epoch {value.leader_epoch}, {told(value.data)}"
        case TopicPartition() | Enum():
            return f"{value}"
        case bytes():
            return f"{len(value)} bytes {crc32(value):08x}"
        case list() | tuple():
            return f"[{', '.join(map(told, value))}]"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(told, value)))}}}"
        case Mapping():
            return f"{{{', '.join(f'{told(key)}: {told(item)}' for key, item in value.items())}}}"
        case Struct():
            return _struct(value)
        case _:
            return repr(value)


def _struct(value: Struct) -> str:
    """Its name and its fields, without those that have their default or name the one log that there is."""
    if isinstance(value, fx.StoreSnapshot):
        value = replace(value, state=EncodedState(value.state.encode()))
    given = ((field.name, getattr(value, field.name), field.default) for field in fields(type(value)))
    parts = [f"{name}={told(part)}" for name, part, default in given if part not in (default, LOG)]
    return f"{type(value).__name__}({' '.join(parts)})"


def _states(node: Node) -> Iterator[tuple[TopicPartition, str]]:
    """What a replica is in each of its logs."""
    if node.core is None:
        return
    for name, log in node.core.logs.items():
        leader = "" if isinstance(log.role, Leader) or log.leader_id is None else f" of {log.leader_id}"
        where = "" if name == LOG else f" of {name}"
        yield name, f"{log.role.name}{leader}{where} in epoch {log.leader_epoch}, high watermark {log.high_watermark}"
    for name, partition in {} if node.core.broker is None else node.core.broker.partitions.items():
        in_sync = f", in sync {sorted(partition.maximal_isr)}" if partition.is_leader else ""
        yield (
            name,
            f"{partition.role.name} of {name} in epoch {partition.leader_epoch}{in_sync}, high watermark "
            f"{partition.high_watermark}",
        )


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _operation(event: HistoryEvent) -> str:
    """One line of the history without its index and time."""
    parts = [WHO.get(event.process, f"process {event.process}"), event.type, event.f]
    parts += [event.topic_partition] if event.topic_partition not in (None, f"{LOG}") else []
    for name in ("value", "offset", "high_watermark", "leader_epoch", "node", "limited", "strict", "seek", "error"):
        item = getattr(event, name)
        if item is not None:
            parts.append(f"{name}={item}")
    if event.records is not None:
        parts.append(f"records=[{' '.join(map(_record, event.records))}]")
    if event.detail is not None:
        parts.append(event.detail)
    return " ".join(parts)


def _record(record: PolledRecord) -> str:
    return f"{record.offset}:{record.value}"
