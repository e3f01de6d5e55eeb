"""The workload ``queue``: queues into which values are put at the end, and from which they are taken at the front.

Owns the mix, and the queue that is made of the store's keys: each value that was ever put in has a key of its own,
numbered from 0, and the key ``head`` counts those that were taken. Whoever puts in writes the next number, if that is
not there yet; whoever takes out adds 1 to the head, if nobody has done so since he looked. Each is one transaction,
tried again when it was refused; so an operation takes effect once, and is unknown exactly if its last transaction is.
In the end every queue is emptied: what was lost or came twice shows at the latest then. Source: Jepsen's queue
workloads, which drain theirs as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

from nemesis.cluster.store import Answer, Found, StoreClient, Verb
from nemesis.errors import NotDoneError
from nemesis.linearizability.models.fifo_queue import FifoQueue
from nemesis.workload.encoding import READS_VALUE, WRITES_VALUE, Encoding
from nemesis.workload.objects import ObjectWorkload, Process, one_key
from nemesis.workload.workload import Setup

ENQUEUE, DEQUEUE = "enqueue", "dequeue"
ENQUEUE_SHARE = 0.35
"""So few that queues stay short: in which order values were put in side by side, nobody can tell before they are taken,
and a judge must keep every order in mind until then."""
ATTEMPTS_MAX = 20
NOTHING_THERE = 0
"""The revision at which a key was changed that is not there."""


class QueueWorkload(ObjectWorkload):
    """Puts in, and takes out."""

    name = "queue"
    an_object = "the keys below a prefix"
    operations = "enqueue of a value; dequeue of the oldest one, or of nothing where there is none"
    verbs = frozenset({Verb.GET_ALL, Verb.PUT_ALL_IF})
    model = FifoQueue()
    encodings: ClassVar[Mapping[str, Encoding]] = {ENQUEUE: WRITES_VALUE, DEQUEUE: READS_VALUE}

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._values = itertools.count(1)

    async def act(self, process: Process, name: str) -> None:
        """Do what the dice say."""
        if self.setup.random.random() < ENQUEUE_SHARE:
            value = next(self._values)
            await process.do(ENQUEUE, name, _enqueue(process.client, name, value), value=value)
        else:
            await self._dequeue(process, name)

    async def read(self, process: Process, name: str) -> Answer | None:
        while (answer := await self._dequeue(process, name)) is not None and answer.found:
            pass
        return answer

    async def _dequeue(self, process: Process, name: str) -> Answer | None:
        return await process.do(DEQUEUE, name, _dequeue(process.client, name), told=one_key(name))


async def _enqueue(client: StoreClient, name: str, value: int) -> Answer:
    """Raises NotDoneError or UnknownOutcomeError."""
    seen = await client.get_all(f"{name}/")
    for _ in range(ATTEMPTS_MAX):
        _, values = _parts(name, seen)
        key = f"{name}/{len(values)}"
        seen = await client.put_all_if(f"{name}/", {key: NOTHING_THERE}, {key: value})
        if seen.done:
            return seen
    raise NotDoneError(f"others were faster {ATTEMPTS_MAX} times")


async def _dequeue(client: StoreClient, name: str) -> Answer:
    """The value under the queue's name; nothing where it is empty. Raises NotDoneError or UnknownOutcomeError."""
    seen = await client.get_all(f"{name}/")
    for _ in range(ATTEMPTS_MAX):
        head, values = _parts(name, seen)
        taken = 0 if head is None else head.value
        if taken not in values:
            return Answer(revision=seen.revision)
        unchanged = {f"{name}/head": NOTHING_THERE if head is None else head.revision}
        seen = await client.put_all_if(f"{name}/", unchanged, {f"{name}/head": taken + 1})
        if seen.done:
            return Answer(revision=seen.revision, found={name: values[taken]})
    raise NotDoneError(f"others were faster {ATTEMPTS_MAX} times")


def _parts(name: str, seen: Answer) -> tuple[Found | None, Mapping[int, Found]]:
    """The head, absent while nothing was taken, and all values that were ever put in, by number."""
    found = {key.removeprefix(f"{name}/"): held for key, held in seen.found.items()}
    head = found.pop("head", None)
    return head, {int(number): held for number, held in found.items()}
