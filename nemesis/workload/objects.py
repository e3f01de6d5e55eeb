"""The workloads on objects: processes that use objects of a replicated state machine, and read them all at the end.

Owns the life of processes and of objects, and how outcomes are recorded. A process is a client with its own connections
and its own session; it does one operation at a time, on an object that the dice choose. When the outcome of a change is
unknown its process ends, for it cannot know what it would do next, and a new one takes its place. ``keys`` objects are
in use at a time; each is retired after so many operations, and another takes its place, so that the history of none
grows beyond what can be judged. What is done with an object, and how it is judged, each workload says.

Source: Jepsen's processes, and its ``independent`` keys.
"""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, ClassVar

from nemesis.cluster.store import Answer, StoreClient
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.needs import Need
from nemesis.history.events import READ, EventType
from nemesis.history.recorder import Recorder
from nemesis.linearizability.model import Model
from nemesis.workload.encoding import Detail, Encoding
from nemesis.workload.workload import Pace, Setup, Workload

READ_OBJECTS = "read-objects"
OPERATIONS_PER_OBJECT = 100
RETRY_S = 0.1


class Process:
    """A number, a client, and the recording of what it does."""

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


class ObjectWorkload(Workload):
    """Uses objects, each of which is judged for linearizability.

    One that remembers what was seen of an object remembers it for all processes.
    """

    model: ClassVar[Model]
    """The specification of one object."""
    encodings: ClassVar[Mapping[str, Encoding]]
    """Its operations by name. Where one of them is a ``read``, others that were refused are judged as reads."""
    options = ("keys", "reads")
    refuses: ClassVar[Mapping[Need, str]] = {
        Need.OTHER_DISKS: "there are no topics that could lose records: membership replaces the disks of those who vote"
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._objects = Objects(self.name, setup.keys, setup.random)

    @classmethod
    def judged_as(cls) -> str:
        """Its model."""
        return f"`{cls.model.name}`"

    @abstractmethod
    async def act(self, process: Process, name: str) -> None:
        """Do one operation with an object."""

    @abstractmethod
    async def read(self, process: Process, name: str) -> Answer | None:
        """Read all of an object; None where that earned no answer."""

    @staticmethod
    def seen(value: int | None, detail: Detail) -> Mapping[int, int]:
        """At which revisions the values that a completion tells of came to be."""
        return {value: detail["changed_at"]} if value is not None and "changed_at" in detail else {}

    async def run_slot(self, pace: Pace, stop: asyncio.Event) -> None:
        while not stop.is_set():
            process = self._new_process()
            try:
                while process.is_alive and await pace.wait_turn(stop):
                    await self.act(process, self._objects.choose())
            finally:
                await process.close()

    async def read_everything(self, *, at_most_s: float, claim_end: bool = True) -> None:
        """Read each object once; what could not be read in time is recorded as not brought about."""
        del claim_end
        recorder = self.setup.recorder
        recorder.harness_began(READ_OBJECTS, {})
        unread = await self.read_all(at_most_s=at_most_s)
        error = f"{len(unread)} objects could not be read within {at_most_s:.1f} s" if unread else None
        recorder.harness_ended(READ_OBJECTS, {"unread": list(unread)}, error=error)

    async def read_all(self, *, at_most_s: float) -> tuple[str, ...]:
        """Read every object by fresh processes; those that could not be read in time."""
        process = self._new_process()
        unread = list(self._objects.names)
        deadline = asyncio.get_running_loop().time() + at_most_s
        try:
            while unread and asyncio.get_running_loop().time() <= deadline:
                if not process.is_alive:
                    await process.close()
                    process = self._new_process()
                if await self.read(process, unread[0]) is None:
                    await asyncio.sleep(RETRY_S)
                else:
                    del unread[0]
        finally:
            await process.close()
        return tuple(unread)

    def _new_process(self) -> Process:
        return Process(self.new_number(), self.setup.system.store(), self.setup.recorder)
