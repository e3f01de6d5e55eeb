"""The workload ``append``: processes append unique values to logs and read them.

Owns what a process does, and how its outcomes are recorded. A process is a client with its own connections, its own
producer id and its own position in each log; it does one operation at a time, in a log that the dice choose. When the
outcome of an append is unknown its process ends, for it cannot know what it would do next, and a new one takes its
place and its positions. An append that asks for less than all replicas is recorded with its ``acks``: its success
promises nothing. Source: Jepsen's processes; the values are unique so that every read names its write.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from nemesis.cluster.system import LogClient, Polled, System
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.history import APPEND, POLL, EventType, PolledRecord
from nemesis.workload.pace import Load, Pace
from nemesis.workload.recorder import Recorder

APPEND_SHARE = 0.5


class AppendWorkload:
    """``concurrency`` processes at a time. ``random`` decides between appending and polling, and where.

    ``acks`` is what appends ask for where that is less than all, ``load`` how many times the rate is wanted.
    """

    def __init__(
        self,
        system: System,
        recorder: Recorder,
        *,
        concurrency: int,
        random: Random,
        acks: int | None = None,
        load: Load | None = None,
    ) -> None:
        self._system = system
        self._recorder = recorder
        self._concurrency = concurrency
        self._random = random
        self._acks = acks
        self._load = load or Load()
        self._next_value = 1
        self._next_process = 0

    async def run(self, *, rate: float, stop: asyncio.Event) -> None:
        """Append and poll until ``stop`` is set; operations that have begun are waited for."""
        pace = Pace(rate, load=self._load)
        async with asyncio.TaskGroup() as slots:
            for _ in range(self._concurrency):
                slots.create_task(self._run_slot(pace, stop))

    def new_process(self) -> int:
        """A process number that nobody had before."""
        process, self._next_process = self._next_process, self._next_process + 1
        return process

    async def _run_slot(self, pace: Pace, stop: asyncio.Event) -> None:
        """One process after the other, each reading on where the one before it came to."""
        positions = dict.fromkeys(self._system.topic_partitions, 0)
        while not stop.is_set():
            process = _Process(self.new_process(), self._system.client(), self._recorder, positions)
            try:
                while process.is_alive and await pace.wait_turn(stop):
                    name = self._random.choice(self._system.topic_partitions)
                    if self._random.random() < APPEND_SHARE:
                        await process.append(name, self._new_value(), self._acks)
                    else:
                        await process.poll(name)
            finally:
                await process.close()
            positions = process.positions

    def _new_value(self) -> int:
        value, self._next_value = self._next_value, self._next_value + 1
        return value


class _Process:
    """One process of the workload: a number, a client, positions."""

    def __init__(self, number: int, client: LogClient, recorder: Recorder, positions: dict[str, int]) -> None:
        self._number = number
        self._client = client
        self._recorder = recorder
        self._has_polled: set[str] = set()
        self.positions = positions
        self.is_alive = True

    async def append(self, name: str, value: int, acks: int | None) -> None:
        """Append, and record what came of it."""
        self._record(EventType.INVOKE, APPEND, name, value=value, acks=acks)
        try:
            done = await self._client.append(name, value)
        except NotDoneError as error:
            self._record(EventType.FAIL, APPEND, name, value=value, error=str(error))
        except UnknownOutcomeError as error:
            self._record(EventType.INFO, APPEND, name, value=value, error=str(error))
            self.is_alive = False
        else:
            placed = {"offset": done.offset, "leader_epoch": done.leader_epoch}
            self._record(EventType.OK, APPEND, name, value=value, **placed)

    async def poll(self, name: str) -> None:
        """Read on, and record what came of it."""
        position = self.positions[name]
        self._record(EventType.INVOKE, POLL, name, offset=position, seek=name not in self._has_polled)
        self._has_polled.add(name)
        try:
            done = await self._client.poll(name, position)
        except (NotDoneError, UnknownOutcomeError) as error:
            self._record(EventType.FAIL, POLL, name, offset=position, error=str(error))
        else:
            self._record(EventType.OK, POLL, name, offset=position, **polled_fields(done))
            self.positions[name] = done.next_offset

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()

    def _record(self, kind: EventType, f: str, topic_partition: str, **fields: Any) -> None:
        self._recorder.client(self._number, kind, f, topic_partition=topic_partition, **fields)


def polled_fields(done: Polled) -> dict[str, Any]:
    """The columns of the history that an ok poll fills."""
    return {
        "records": tuple(PolledRecord(offset=offset, value=value) for offset, value in done.records),
        "high_watermark": done.high_watermark,
        "node": done.node,
        "limited": not done.reached_end,
    }
