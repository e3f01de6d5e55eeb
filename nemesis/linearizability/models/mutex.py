"""Mutual exclusion: ``acquire`` and ``release``, with an owner or without.

A mutex asks only that acquisitions and releases alternate. A lock also asks that who releases is who acquired: its
owner is the process. An attempt that failed proves nothing. Source: the models ``mutex`` and ``owner-aware-mutex`` of
Knossos and of Jepsen's tests of Hazelcast.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.model import REFUSED, Model, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Value


class Mutex(Model):
    """A mutex: the state tells whether it is held."""

    name: ClassVar[str] = "mutex"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Free."""
        return False

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """Only what is free is acquired, and only what is held is released."""
        match operation.f:
            case "acquire":
                return REFUSED if state is True else True
            case "release":
                return False if state is True else REFUSED
            case _:
                raise unknown_operation(self, operation)

    def describe_state(self, state: Value) -> str:
        """Held or free."""
        return "held" if state is True else "free"


class Lock(Model):
    """A lock that its owner alone may release: the state is () while free, else (owner,)."""

    name: ClassVar[str] = "lock"

    def initial(self) -> Value:
        """Free."""
        return ()

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """Only what is free is acquired, and only by its owner is it released."""
        match operation.f:
            case "acquire":
                return REFUSED if state != () else (operation.process,)
            case "release":
                return () if state == (operation.process,) else REFUSED
            case _:
                raise unknown_operation(self, operation)

    def describe_state(self, state: Value) -> str:
        """Free, or by whom it is held."""
        return f"held by {state[0]!r}" if isinstance(state, tuple) and state else "free"
