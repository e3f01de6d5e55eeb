"""The clients of a simulated world: the workload ``append`` without an event loop.

Owns what a simulated process does next, in the way of ``nemesis.workload``: a process does one operation at a time and
reads on from its own positions; an append whose outcome is unknown ends its process, and a new one takes its place.
Each process has its own opinion of who leads, so that some still ask an old leader. In a cluster it uses one partition
or several.

``Roll`` has what all clients of a simulated world have in common, whatever they do: numbers, pace, and when to stop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from nemesis.history import EventType
from nemesis.simulator.climate import Climate
from nemesis.simulator.producer import Producer
from nemesis.simulator.queue import US_PER_S, Action
from nemesis.simulator.record import Record
from nemesis.simulator.session import ACKS_ALL, Session
from nemesis.simulator.world import World
from replica.ids import TopicPartition


class Roll:
    """``climate.concurrency`` processes at a time, ``climate.rate`` operations a second together.

    With ``values_max``, no process writes any more once so many values were given out.
    """

    def __init__(
        self, world: World, record: Record, climate: Climate, dice: Random, *, values_max: int | None = None
    ) -> None:
        self.world = world
        self.record = record
        self.climate = climate
        self.dice = dice
        self.acknowledged: Counter[TopicPartition] = Counter()
        """How many writes were, log by log."""
        self.is_stopped = False
        self.values_max = values_max
        self._next_value = 1
        self._next_process = 0

    @property
    def has_values(self) -> bool:
        """Whether there are values left to write."""
        return self.values_max is None or self._next_value <= self.values_max

    def new_value(self) -> int:
        """A value that nobody had before."""
        value, self._next_value = self._next_value, self._next_value + 1
        return value

    def new_process(self) -> int:
        """A process number that nobody had before."""
        process, self._next_process = self._next_process, self._next_process + 1
        return process

    def after_pause(self, action: Action) -> None:
        """Do something after a pause such as one process makes between two operations."""
        mean_s = self.climate.concurrency / self.climate.rate
        self.world.queue.after(int(self.dice.expovariate(1 / mean_s) * US_PER_S), action)


class Clients(Roll):
    """The processes that append and poll."""

    def start(self) -> None:
        """Let the processes begin."""
        logs = self.world.used_logs
        for _ in range(self.climate.concurrency):
            used = logs if len(logs) == 1 else sorted(self.dice.sample(logs, self.dice.randint(1, len(logs))))
            Process(self, dict.fromkeys(used, 0)).pause_then_go()

    def acknowledge(self, log: TopicPartition) -> None:
        """Count a write that was acknowledged."""
        self.acknowledged[log] += 1

    def new_values(self) -> list[int]:
        """The values of one batch, which nobody had before."""
        most = self.climate.batch_records
        return [self.new_value() for _ in range(1 if most == 1 else self.dice.randint(1, most)) if self.has_values]

    def probe(self, log: TopicPartition) -> None:
        """Append to a log, again and again until that is acknowledged or the clients are stopped."""
        session = Session(self, self.new_process(), log, position=0)

        def on_appended(kind: EventType) -> None:
            if kind is not EventType.OK and not self.is_stopped:
                self.world.queue.after(PROBE_US, lambda: self.probe(log))

        session.append([self.new_value()], on_appended, acks=ACKS_ALL)

    def read_to_the_end(self, logs: Sequence[TopicPartition]) -> list[Session]:
        """Let one process read each of these logs from its beginning to its end."""
        sessions = []
        for log in logs:
            sessions.append(Session(self, self.new_process(), log, position=0))
            sessions[-1].read_to_the_end()
        return sessions


PROBE_US = US_PER_S // 10


class Process:
    """One process: a number, a position and an opinion for each log, and at most one operation under way."""

    def __init__(self, clients: Clients, positions: Mapping[TopicPartition, int]) -> None:
        self._clients = clients
        self._world = clients.world
        self._dice = clients.dice
        number = clients.new_process()
        self._sessions = [Session(clients, number, log, position=at) for log, at in positions.items()]
        cluster = clients.climate.cluster
        is_idempotent = cluster is not None and cluster.idempotent and self._dice.random() < cluster.idempotent
        self._producer = Producer(clients) if is_idempotent else None

    def pause_then_go(self) -> None:
        """Do an operation some time, and then the next, until the clients are stopped."""
        self._clients.after_pause(self._go)

    def _go(self) -> None:
        if self._clients.is_stopped:
            return
        session = self._sessions[0] if len(self._sessions) == 1 else self._dice.choice(self._sessions)
        if self._dice.random() >= self._clients.climate.appends or not self._clients.has_values:
            session.poll(self.pause_then_go)
        elif self._producer is None:
            session.append(self._clients.new_values(), self._on_appended)
        else:
            self._append_numbered(self._producer, session)

    def _append_numbered(self, producer: Producer, session: Session) -> None:
        def append() -> None:
            if self._clients.has_values:
                producer.append(session, self._clients.new_values(), self._on_appended)
            else:
                self.pause_then_go()

        producer.prepare(append)

    def _on_appended(self, kind: EventType) -> None:
        """Go on; or, where the outcome is unknown, give way to another process, which reads on from here."""
        if kind is EventType.INFO:
            Process(self._clients, {session.log: session.position for session in self._sessions}).pause_then_go()
        else:
            self.pause_then_go()
