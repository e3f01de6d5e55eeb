"""A queue, first in, first out: ``enqueue`` of a value, ``dequeue`` of the oldest one.

A dequeue that returned nil found the queue empty, and so did one that failed with the result "empty"; nil itself is
never enqueued. Source: the model ``fifo-queue`` of Knossos.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, as_ok, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value


class FifoQueue(Model):
    """A queue: the state is the tuple of what waits, the oldest first."""

    name: ClassVar[str] = "queue"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Empty."""
        return ()

    def evidence(self, operation: Operation) -> Operation | None:
        """A dequeue that failed with "empty" saw that the queue was."""
        if operation.f == "dequeue" and operation.result == "empty":
            return as_ok(operation, f="dequeue", argument=operation.argument, result=None)
        return None

    def reads_only(self, operation: Operation) -> bool:
        """True for a dequeue that found nothing."""
        return operation.f == "dequeue" and operation.outcome is Outcome.OK and operation.result is None

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """In at the end, out at the front."""
        assert isinstance(state, tuple), f"the state of a queue is a tuple, not {state!r}"
        match operation.f:
            case "enqueue":
                if operation.argument is None:
                    raise ModelError(f"line {operation.line}: nil was enqueued, which says that a queue is empty")
                return (*state, operation.argument)
            case "dequeue":
                if operation.outcome is Outcome.INFO:
                    return state[1:]
                return state[1:] if operation.result == (state[0] if state else None) else REFUSED
            case _:
                raise unknown_operation(self, operation)
