"""Registers: ``read``, ``write`` and, in the second one, ``cas`` of (expected, new).

A compare-and-set that failed and returned the present value is a read. One that returned nothing proves nothing, since
many systems answer so for other reasons as well, unless ``failed_cas_is_read`` says that it proves that the value
differed. Source: the models ``register`` and ``cas-register`` of Knossos.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.forms import Form, RegisterForm, RegisterKind
from nemesis.linearizability.model import REFUSED, Model, Refusal, as_ok, check_swapped, pair, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value

CAS_MISS = "cas-miss"
"""A compare-and-set that failed because the value differed."""


class Register(Model):
    """A value that is read and written."""

    name: ClassVar[str] = "register"
    process_matters: ClassVar[bool] = False

    def __init__(self, initial: Value = None) -> None:
        self._initial = initial

    def initial(self) -> Value:
        """The value before the first write."""
        return self._initial

    def reads_only(self, operation: Operation) -> bool:
        """True for reads, and for what a failed compare-and-set saw."""
        return operation.f in {"read", CAS_MISS}

    def form(self, operation: Operation) -> Form | None:
        """Every operation of a register is one of the register kernels."""
        match operation.f:
            case "read":
                return RegisterForm(RegisterKind.READ, operation.result)
            case "write":
                return RegisterForm(RegisterKind.WRITE, operation.argument)
            case _:
                raise unknown_operation(self, operation)

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """What the form says."""
        form = self.form(operation)
        if not isinstance(form, RegisterForm):
            raise unknown_operation(self, operation)
        return register_step(state, form, known=operation.outcome is Outcome.OK)


class CasRegister(Register):
    """A register that also compares and sets."""

    name: ClassVar[str] = "cas-register"

    def __init__(self, initial: Value = None, *, failed_cas_is_read: bool = False) -> None:
        super().__init__(initial)
        self._failed_cas_is_read = failed_cas_is_read

    def evidence(self, operation: Operation) -> Operation | None:
        """What a failed compare-and-set saw."""
        if operation.f != "cas":
            return None
        if operation.result is not None:
            return as_ok(operation, f="read", argument=None, result=operation.result)
        if self._failed_cas_is_read:
            return as_ok(operation, f=CAS_MISS, argument=operation.argument, result=None)
        return None

    def form(self, operation: Operation) -> Form | None:
        """As of the plain register; a compare-and-set of a value with itself is a read."""
        match operation.f:
            case "cas":
                expected, new = pair(operation.argument, operation)
                check_swapped(operation)
                if expected == new:
                    return RegisterForm(RegisterKind.READ, expected)
                return RegisterForm(RegisterKind.CAS, expected, new)
            case "cas-miss":
                return RegisterForm(RegisterKind.MISS, pair(operation.argument, operation)[0])
            case _:
                return super().form(operation)


def register_step(state: Value, form: RegisterForm, *, known: bool) -> Value | Refusal:
    """One step of a register; what is not ``known`` to have succeeded may have read anything."""
    match form.kind:
        case RegisterKind.READ:
            return state if state == form.value or not known else REFUSED
        case RegisterKind.WRITE:
            return form.value
        case RegisterKind.CAS:
            return form.new if state == form.value else REFUSED
        case RegisterKind.MISS:
            return state if state != form.value else REFUSED
