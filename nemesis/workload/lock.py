"""The workload ``lock``: locks that are lent for a time, and given back by whoever holds them.

Owns the mix. Each acquisition has a number of its own, which is what the lock's key holds, attached to a lease; the
revision at which it was put there is the fencing number. A process holds one lock at a time, looks at it or gives it
back. One that ended, or lost touch, holds it until the lease is over.

Owns the model, too. ``acquire`` of a number takes what is free, ``release`` of it gives it back, ``expire`` of it does
the same without anybody asking. An expiry is an operation of unknown outcome that begins when the lease can have ended
at the earliest: before that two holders at once are a violation, and after it nothing is. So the model is a
compare-and-set register, nil while nobody holds it, and the kernels for registers judge it.

Source: Gray and Cheriton, "Leases" (1989); fencing numbers after Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

from nemesis.cluster.store import Answer, Verb
from nemesis.history.events import READ
from nemesis.linearizability.forms import Form, RegisterForm, RegisterKind
from nemesis.linearizability.model import Model, Refusal, unknown_operation
from nemesis.linearizability.models.register import register_step
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.workload.encoding import READS_VALUE, Encoding, itself
from nemesis.workload.objects import ObjectWorkload, Process, one_key
from nemesis.workload.workload import Setup

ACQUIRE, RELEASE, EXPIRE = "acquire", "release", "expire"

TTL_MS = 2000
RELEASE_SHARE = 0.5


class LeasedLock(Model):
    """The state is the number of the holder, nil while the lock is free."""

    name: ClassVar[str] = "leased-lock"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Free."""
        return None

    def reads_only(self, operation: Operation) -> bool:
        """True for who asks who holds it."""
        return operation.f == "read"

    def form(self, operation: Operation) -> Form | None:
        """Every operation is one of a register."""
        return _form(self, operation)

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """What the form says."""
        return register_step(state, _form(self, operation), known=operation.outcome is Outcome.OK)

    def describe_state(self, state: Value) -> str:
        """Free, or by whom it is held."""
        return "free" if state is None else f"held by {state}"


def _form(model: Model, operation: Operation) -> RegisterForm:
    match operation.f:
        case "read":
            return RegisterForm(RegisterKind.READ, operation.result)
        case "acquire":
            return RegisterForm(RegisterKind.CAS, None, operation.argument)
        case "release" | "expire":
            return RegisterForm(RegisterKind.CAS, operation.argument, None)
        case _:
            raise unknown_operation(model, operation)


class LockWorkload(ObjectWorkload):
    """Acquires, releases, and asks who holds it."""

    name = "lock"
    an_object = "a key with a lease"
    operations = "acquire, release, read of who holds it"
    verbs = frozenset({Verb.GET, Verb.COMPARE_AND_SET, Verb.LEND, Verb.DELETE_IF})
    model = LeasedLock()
    encodings: ClassVar[Mapping[str, Encoding]] = {
        ACQUIRE: Encoding(writes=itself, expires_as=EXPIRE),
        RELEASE: Encoding(),
        READ: READS_VALUE,
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._holders = itertools.count(1)
        self._held: dict[int, tuple[str, int]] = {}

    async def act(self, process: Process, name: str) -> None:
        """Release what this process holds, or hold it a little longer; acquire if it holds nothing."""
        held = self._held.get(process.number)
        if held is None:
            await self._acquire(process, name)
        elif self.setup.random.random() < RELEASE_SHARE:
            await self._release(process, *held)
        else:
            await self.read(process, held[0])

    async def read(self, process: Process, name: str) -> Answer | None:
        """Ask who holds it."""
        return await process.do(READ, name, process.client.get(name), told=one_key(name))

    async def _acquire(self, process: Process, name: str) -> None:
        holder = next(self._holders)
        call = process.client.compare_and_set(name, None, holder, ttl_ms=TTL_MS)
        answer = await process.do(ACQUIRE, name, call, told=one_key(name), value=holder, ttl_ms=TTL_MS)
        if answer is not None and answer.done:
            self._held[process.number] = name, holder

    async def _release(self, process: Process, name: str, holder: int) -> None:
        call = process.client.delete_if(name, holder)
        answer = await process.do(RELEASE, name, call, told=one_key(name), value=holder)
        if answer is not None or not process.is_alive:
            del self._held[process.number]
