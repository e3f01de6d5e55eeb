"""The workload ``append``: processes append unique values to logs and read them.

Owns what a process does, and how its outcomes are recorded. A process is a client with its own connections, its own
producer id and its own position in each log; it does one operation at a time, in a log that the dice choose. When the
outcome of an append is unknown its process ends, for it cannot know what it would do next, and a new one takes its
place and its positions. An append that asks for less than all replicas is recorded with its ``acks``: its success
promises nothing. Source: Jepsen's processes; the values are unique so that every read names its write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from nemesis.cluster.store import Verb
from nemesis.cluster.system import LogClient, Polled
from nemesis.errors import DeletedError, NotDoneError, UnknownOutcomeError
from nemesis.faults.needs import Need
from nemesis.history.events import APPEND, FINAL_READ, POLL, EventType, PolledRecord
from nemesis.history.recorder import Recorder
from nemesis.workload.workload import HasClients, Pace, Setup, Workload

APPEND_SHARE = 0.5
FINAL_POLLS_MAX = 1_000_000
RETRY_S = 0.1


class AppendWorkload(Workload):
    """Appends and polls, of the logs of all topics. The dice decide between them, and where."""

    name = "append"
    an_object = "a partition of a topic"
    operations = "append of a unique value, poll"
    verbs = frozenset({Verb.APPEND})
    options = ("topics", "partitions", "replication_factor", "min_insync_replicas", "retention_bytes", "strict_acks")
    refuses: ClassVar[Mapping[Need, str]] = {
        Need.VOTERS: "who has the partitions is not voted on, and a disk that is wiped takes their records with it"
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._next_value = 1

    @classmethod
    def judged_as(cls) -> str:
        """The checks of logs."""
        return "[logs](checks.md)"

    async def run_slot(self, pace: Pace, stop: asyncio.Event) -> None:
        """One process after the other, each reading on where the one before it came to."""
        setup, names = self.setup, self.setup.system.topic_partitions
        positions = dict.fromkeys(names, 0)
        while not stop.is_set():
            process = _Process(self.new_number(), setup.system.client(), setup.recorder, positions)
            try:
                while process.is_alive and await pace.wait_turn(stop):
                    name = setup.random.choice(names)
                    if setup.random.random() < APPEND_SHARE:
                        await process.append(name, self._new_value(), setup.acks)
                    else:
                        await process.poll(name)
            finally:
                await process.close()
            positions = process.positions

    async def read_everything(self, *, at_most_s: float, claim_end: bool) -> None:
        """Read each log by a fresh process, for so long at most."""
        system, recorder, process = self.setup.system, self.setup.recorder, self.new_number()
        for name in system.topic_partitions:
            await final_read(system, recorder, process, name, at_most_s=at_most_s, claim_end=claim_end)

    def _new_value(self) -> int:
        value, self._next_value = self._next_value, self._next_value + 1
        return value


class _Process:
    """A number, a client, positions."""

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
            if isinstance(error, DeletedError):
                self.positions[name] = error.log_start_offset
                self._has_polled.discard(name)
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


async def final_read(
    system: HasClients, recorder: Recorder, process: int, topic_partition: str, *, at_most_s: float, claim_end: bool
) -> bool:
    """Read a log from offset 0, or where it begins, to its end by a fresh process; whether the end was seen.

    With ``claim_end`` the last poll is recorded as one that saw the end of the log, else as one that may have been
    too early.
    """
    client = system.client()
    position = 0
    deadline = asyncio.get_running_loop().time() + at_most_s

    def record(kind: EventType, **fields: Any) -> None:
        recorder.client(process, kind, FINAL_READ, topic_partition=topic_partition, **fields)

    try:
        for _ in range(FINAL_POLLS_MAX):
            record(EventType.INVOKE, offset=position, seek=True)
            try:
                done = await client.poll(topic_partition, position)
            except (NotDoneError, UnknownOutcomeError) as error:
                record(EventType.FAIL, offset=position, error=str(error))
                if isinstance(error, DeletedError):
                    position = error.log_start_offset
                else:
                    await asyncio.sleep(RETRY_S)
            else:
                fields = polled_fields(done)
                record(EventType.OK, offset=position, **fields | {"limited": fields["limited"] or not claim_end})
                if done.reached_end:
                    return True
                position = done.next_offset
            if asyncio.get_running_loop().time() > deadline:
                return False
    finally:
        await client.close()
    return False
