"""A lock that is lent for a time: who holds it is a number of its own for each time, and it may expire.

``acquire`` of a number takes what is free, ``release`` of it gives it back, ``expire`` of it does the same without
anybody asking. An expiry is an operation of unknown outcome that begins when the lease can have ended at the earliest:
before that two holders at once are a violation, and after it nothing is. So the model is a compare-and-set register,
nil while nobody holds it, and the kernels for registers judge it.

Source: Gray and Cheriton, "Leases" (1989); fencing numbers after Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.forms import Form, RegisterForm, RegisterKind
from nemesis.linearizability.model import Model, Refusal, unknown_operation
from nemesis.linearizability.models.register import register_step
from nemesis.linearizability.operations import Operation, Outcome, Value

EXPIRE = "expire"


class LeasedLock(Model):
    """The state is the number of the holder, nil while the lock is free."""

    name: ClassVar[str] = "leased-lock"
    process_matters: ClassVar[bool] = False
    told_by_values: ClassVar[bool] = True

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
