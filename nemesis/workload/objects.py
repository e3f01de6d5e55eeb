"""The workloads on objects: processes that use objects of a replicated state machine, and read them all at the end.

Owns the life of processes and of objects, and how outcomes are recorded. A process is a client with its own connections
and its own session; it does one operation at a time, on an object that the dice choose. When the outcome of a change is
unknown its process ends, for it cannot know what it would do next, and a new one takes its place. ``keys`` objects are
in use at a time; each is retired after so many operations, and another takes its place, so that the history of none
grows beyond what can be judged. What is done with an object, each workload says (``Use``).

Source: Jepsen's processes, and its ``independent`` keys.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Protocol

from nemesis.cluster.store import Answer, StoreClient
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.history import READ, EventType
from nemesis.workload.pace import Load, Pace
from nemesis.workload.recorder import Recorder

KEYS_DEFAULT = 10
OPERATIONS_PER_OBJECT = 100
RETRY_S = 0.1


class Process:
    """One process of a workload: a number, a client, and the recording of what it does."""

    def __init__(self, number: int, client: StoreClient, recorder: Recorder) -> None:
        self.number = number
        self.client = client
        self._recorder = recorder
        self.is_alive = True

    async def do(
        self,
        f: str,
        name: str,
        call: Awaitable[Answer],
        *,
        told: Callable[[Answer], Mapping[str, Any]] = lambda _: {},
        value: int | None = None,
        **asked: Any,
    ) -> Answer | None:
        """Do one operation on an object and record what came of it; None where it earned no answer.

        ``value`` and ``asked`` are recorded with the invocation, what ``told`` makes of the answer with the completion:
        ``value``, and everything else as detail.
        """
        self._record(EventType.INVOKE, f, name, value=value, detail=_json(asked))
        try:
            answer = await call
        except NotDoneError as error:
            self._record(EventType.FAIL, f, name, error=str(error))
            return None
        except UnknownOutcomeError as error:
            self._record(EventType.INFO, f, name, error=str(error))
            self.is_alive = f == READ
            return None
        seen = dict(told(answer))
        kind = EventType.OK if answer.done else EventType.FAIL
        self._record(kind, f, name, value=seen.pop("value", None), offset=answer.revision, detail=_json(seen))
        return answer

    async def close(self) -> None:
        """Give session and connections back."""
        await self.client.close()

    def _record(self, kind: EventType, f: str, name: str, **fields: Any) -> None:
        self._recorder.client(self.number, kind, f, topic_partition=name, **fields)


def _json(detail: Mapping[str, Any]) -> str | None:
    return json.dumps(detail) if detail else None


class Use(Protocol):
    """What a workload does with an object; it may remember what was seen of each. One for all processes."""

    async def act(self, process: Process, name: str) -> None:
        """Do one operation."""

    async def read(self, process: Process, name: str) -> Answer | None:
        """Read all of the object; None where that earned no answer."""


def one_key(name: str) -> Callable[[Answer], Mapping[str, Any]]:
    """What is told of an answer about one key: its value, and at which revision it came to be, if that is known."""

    def told(answer: Answer) -> Mapping[str, Any]:
        found = answer.found.get(name)
        if found is None:
            return {}
        known = {} if found.changed_at is None else {"changed_at": found.changed_at}
        return {"value": found.value, **known}

    return told


class Objects:
    """The objects of a run by name: ``register-0`` and so on. ``keys`` of them are in use at a time."""

    def __init__(self, prefix: str, keys: int, random: Random, operations: int = OPERATIONS_PER_OBJECT) -> None:
        self._prefix = prefix
        self._random = random
        self._operations = operations
        self._left = dict.fromkeys(range(keys), operations)
        self._next = keys

    def choose(self) -> str:
        """One of those in use, for one operation."""
        number = self._random.choice(list(self._left))
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]
            self._left[self._next] = self._operations
            self._next += 1
        return self._name(number)

    @property
    def names(self) -> tuple[str, ...]:
        """All that there were so far."""
        return tuple(map(self._name, range(self._next)))

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number}"


class ObjectWorkload:
    """``concurrency`` processes at a time, each with a client of its own from ``clients``.

    ``load`` is how many times the rate is wanted.
    """

    def __init__(
        self,
        use: Use,
        objects: Objects,
        clients: Callable[[], StoreClient],
        recorder: Recorder,
        *,
        concurrency: int,
        load: Load | None = None,
    ) -> None:
        self._use = use
        self._objects = objects
        self._clients = clients
        self._recorder = recorder
        self._concurrency = concurrency
        self._load = load or Load()
        self._next_process = 0

    async def run(self, *, rate: float, stop: asyncio.Event) -> None:
        """Use the objects until ``stop`` is set; operations that have begun are waited for."""
        pace = Pace(rate, load=self._load)
        async with asyncio.TaskGroup() as slots:
            for _ in range(self._concurrency):
                slots.create_task(self._run_slot(pace, stop))

    async def _run_slot(self, pace: Pace, stop: asyncio.Event) -> None:
        while not stop.is_set():
            process = self._new_process()
            try:
                while process.is_alive and await pace.wait_turn(stop):
                    await self._use.act(process, self._objects.choose())
            finally:
                await process.close()

    def _new_process(self) -> Process:
        number, self._next_process = self._next_process, self._next_process + 1
        return Process(number, self._clients(), self._recorder)

    async def read_all(self, *, at_most_s: float) -> tuple[str, ...]:
        """Read every object by a fresh process; those that could not be read in time."""
        process = self._new_process()
        unread = list(self._objects.names)
        deadline = asyncio.get_running_loop().time() + at_most_s
        try:
            while unread and asyncio.get_running_loop().time() <= deadline:
                if await self._use.read(process, unread[0]) is None:
                    await asyncio.sleep(RETRY_S)
                else:
                    del unread[0]
        finally:
            await process.close()
        return tuple(unread)
