"""The clients of a simulated world of state machines: processes that command and ask, one operation at a time.

Owns the life of processes and how outcomes are recorded. Some processes have a session in each group and send a command
again until they know what became of it; the others send each once. A command whose outcome is unknown ends its process,
and a new one takes its place. Answers that may be old are not recorded: no register would have them; whether they are
the state of some time, the judges see (``group_invariants``).

What clients do with the machines of a simulated world: the commands, the questions, and what answers say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nemesis.history import READ, EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.clients import Roll
from nemesis.simulator.climate import Climate
from nemesis.simulator.group_climate import COUNTER, STORE, GroupClimate
from nemesis.simulator.group_errand import Ended, Errand, ask, reply_of
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import World
from nemesis.workload.counter import INCREMENT
from nemesis.workload.register import CAS, WRITE
from replica.core.messages import Consistency
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.machines import (
    ClientSession,
    KeepSessionAlive,
    OpenSession,
    PlainCommand,
    Refusal,
    SessionCommand,
    SessionOpened,
)
from replica.machines.key_value import KeyValue, decode_response, encode_command, encode_request
from replica.machines.key_value.commands import Compact, CompareAndSetValue, DescribeStore, Get, Put
from replica.machines.key_value.results import CompareAndSetResult, GetResult, PutResult

KEPT_REVISIONS = 5
"""How much of its past a store keeps that is compacted."""
PROBE_MS = 100
FOLLOWED = 0.5
"""The share of questions that take old answers, and yet wait for one that is newer than the last."""
KEPT_ALIVE = 0.3
"""The share of commands that come with a sign of life of their session, in one batch."""


class GroupClients(Roll):
    """The processes that use state machines. With ``values_max``, nobody changes anything after so many values."""

    def __init__(
        self, world: World, record: Record, climate: Climate, dice: Random, *, values_max: int | None = None
    ) -> None:
        super().__init__(world, record, climate, dice, values_max=values_max)
        assert climate.group is not None, climate
        self.group = climate.group
        self.uses = Uses(self.group, dice)

    def start(self) -> None:
        """Let the processes begin."""
        for _ in range(self.climate.concurrency):
            Process(self).pause_then_go()

    def probe(self, log: TopicPartition) -> None:
        """Change an object of this group, again and again until that is acknowledged or the clients are stopped."""
        name = self.group.registers[0] if log == STORE else f"{log}"

        def on_end(kind: EventType) -> None:
            if kind is not EventType.OK and not self.is_stopped:
                self.world.queue.after(PROBE_MS * US_PER_MS, lambda: self.probe(log))

        Process(self).change(self.uses.change(name, self.new_value()), on_end)

    def read_to_the_end(self, logs: tuple[TopicPartition, ...]) -> list[FinalReader]:
        """Let a process read each object of these groups until it has an answer."""
        readers = [FinalReader(self, use) for use in map(self.uses.read, self.uses.names) if use.log in logs]
        for reader in readers:
            reader.read()
        return readers


class FinalReader:
    """Reads one object until it has an answer."""

    def __init__(self, clients: GroupClients, use: Use) -> None:
        self.log = use.log
        self.has_read_to_the_end = False
        self._clients = clients
        self._use = use
        self._process = Process(clients)

    def read(self) -> None:
        """Read it, again."""
        self._process.read(self._use, self._on_end)

    def _on_end(self, kind: EventType) -> None:
        if kind is EventType.OK:
            self.has_read_to_the_end = True
        else:
            self._clients.world.queue.after(PROBE_MS * US_PER_MS, self.read)


class Process:
    """One process: a number, an opinion of who leads each group, perhaps sessions, at most one operation under way."""

    def __init__(self, clients: GroupClients) -> None:
        self._clients = clients
        self._number = clients.new_process()
        self._callers = {log: Caller(clients.world, clients.dice) for log in clients.group.logs}
        share = clients.group.sessions
        self._has_sessions = share > 0 and clients.dice.random() < share
        self._sessions: dict[TopicPartition, ClientSession] = {}
        self._seen: dict[TopicPartition, Offset] = {}

    def pause_then_go(self) -> None:
        """Do an operation some time, and then the next, until the clients are stopped."""
        self._clients.after_pause(self._go)

    def _go(self) -> None:
        clients = self._clients
        if clients.is_stopped:
            return
        if clients.dice.random() >= clients.climate.appends or not clients.has_values:
            self._ask()
        elif clients.dice.random() < clients.group.compactions:
            self._compact()
        else:
            self._change_in_session(clients.uses.choose())

    def _go_on(self, kind: EventType) -> None:
        """Go on; or, where the outcome is unknown, give way to another process."""
        (Process(self._clients) if kind is EventType.INFO else self).pause_then_go()

    # --- commands ---------------------------------------------------------------------------------------------------

    def _change_in_session(self, name: str) -> None:
        log = self._clients.uses.read(name).log
        if not self._has_sessions or log in self._sessions:
            self._change(name)
            return

        def on_opened(ended: Ended) -> None:
            if isinstance(ended.outcome, SessionOpened):
                self._sessions[log] = ClientSession(ended.outcome.session_id)
                self._change(name)
            else:
                self.pause_then_go()

        entry = OpenSession(ttl_ms=self._clients.group.session_ttl_ms)
        Errand(self._clients, self._callers[log], log, entry, on_opened, tries_again=False).send()

    def _change(self, name: str) -> None:
        if self._clients.has_values and not self._clients.is_stopped:
            self.change(self._clients.uses.change(name, self._clients.new_value()), self._go_on)
        else:
            self.pause_then_go()

    def change(self, use: Use, then: Callable[[EventType], None]) -> None:
        """Change an object, and tell ``then`` what is known of it."""
        self._record(EventType.INVOKE, use, value=use.value, detail=use.detail)
        session = self._sessions.get(use.log)
        entry: PlainCommand | SessionCommand = PlainCommand(command=use.said)
        ahead: tuple[KeepSessionAlive, ...] = ()
        if session is not None:
            entry = session.entry(session.begin(use.said))
            ahead = (session.keep_alive(),) if self._clients.dice.random() < KEPT_ALIVE else ()

        def on_end(ended: Ended) -> None:
            if session is not None and isinstance(entry, SessionCommand):
                session.settle(entry.sequence)
            if ended.error in (Refusal.UNKNOWN_SESSION, Refusal.SEQUENCE_FORGOTTEN):
                self._sessions.pop(use.log, None)
            self._on_changed(use, ended)
            then(ended.kind)

        caller = self._callers[use.log]
        Errand(self._clients, caller, use.log, entry, on_end, tries_again=session is not None, ahead=ahead).send()

    def _on_changed(self, use: Use, ended: Ended) -> None:
        if ended.kind is not EventType.OK:
            self._record(ended.kind, use, error=ended.error)
            return
        self._clients.acknowledged[use.log] += 1
        told = self._clients.uses.told(use, reply_of(ended))
        kind = EventType.OK if told.done else EventType.FAIL
        self._record(kind, use, value=told.value, offset=told.offset, detail=told.detail)

    def _compact(self) -> None:
        """Let the store forget all but its last revisions."""

        def on_described(ended: Ended) -> None:
            if ended.kind is not EventType.OK:
                self.pause_then_go()
                return
            revision = decode_response(reply_of(ended)).revision - KEPT_REVISIONS
            entry = PlainCommand(command=encode_command(Compact(revision=max(1, revision))))
            Errand(
                self._clients, self._callers[STORE], STORE, entry, lambda _: self.pause_then_go(), tries_again=False
            ).send()

        question = encode_request(DescribeStore())
        ask(self._callers[STORE], STORE, question, on_described, consistency=Consistency.STALE)

    # --- questions --------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        clients, dice = self._clients, self._clients.dice
        use = clients.uses.read(clients.uses.choose())
        group = clients.group
        if group.ask_anyone and dice.random() < group.ask_anyone:
            self._callers[use.log].target = ReplicaId(dice.choice(tuple(clients.world.nodes)))
        if group.stale_reads and dice.random() < group.stale_reads:
            self._follow(use)
        elif group.lease_reads and dice.random() < group.lease_reads:
            self.read(use, self._go_on, consistency=Consistency.LEASE)
        else:
            self.read(use, self._go_on)

    def _follow(self, use: Use) -> None:
        """Take whatever answer there is, or wait for one that is newer than the last."""

        def on_end(ended: Ended) -> None:
            if ended.applied_offset is not None:
                self._seen[use.log] = ended.applied_offset
            self.pause_then_go()

        after = self._seen.get(use.log) if self._clients.dice.random() < FOLLOWED else None
        ask(self._callers[use.log], use.log, use.said, on_end, consistency=Consistency.STALE, after_offset=after)

    def read(
        self,
        use: Use,
        then: Callable[[EventType], None],
        *,
        consistency: Consistency = Consistency.LINEARIZABLE,
    ) -> None:
        """Read an object, and call ``then``, whatever came of it."""
        assert use.f == READ, use
        self._record(EventType.INVOKE, use)

        def on_end(ended: Ended) -> None:
            if ended.kind is EventType.OK:
                told = self._clients.uses.told(use, reply_of(ended))
                node = self._callers[use.log].target
                self._record(EventType.OK, use, value=told.value, offset=told.offset, detail=told.detail, node=node)
            else:
                self._record(ended.kind, use, error=ended.error)
            then(ended.kind)

        ask(self._callers[use.log], use.log, use.said, on_end, consistency=consistency)

    def _record(self, kind: EventType, use: Use, *, detail: Mapping[str, Any] | None = None, **fields: object) -> None:
        text = None if detail is None else json.dumps(detail)
        self._clients.record.object(self._number, kind, use.f, name=use.name, detail=text, **fields)


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
