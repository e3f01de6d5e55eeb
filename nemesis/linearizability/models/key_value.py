"""One key of a store: ``put``, ``get``, ``cas`` by value, ``cas-version`` by version, ``delete`` and ``increment``.

The operation's ``key`` names the entry, so that every entry is judged alone. The state is (value, version). The version
is 0 while there is no value, 1 after the put that creates it, and grows by one with each change, as etcd counts.
``get`` returns the value, nil for none; ``get-versioned`` returns (value, version), nil for none as well, and so does a
``cas-version`` that failed and tells what it met. ``increment`` takes an amount and returns the new number, or nothing;
what is not there counts as 0, and what is there and no number is not incremented.
"""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from nemesis.linearizability.forms import Form, RegisterForm, RegisterKind
from nemesis.linearizability.model import (
    REFUSED,
    Model,
    ModelError,
    Refusal,
    as_ok,
    check_swapped,
    pair,
    unknown_operation,
)
from nemesis.linearizability.operations import Operation, Outcome, Value

_MISSES = {"cas": "cas-miss", "cas-version": "cas-version-miss"}


class KeyValue(Model):
    """A key-value store."""

    name: ClassVar[str] = "kv"
    process_matters: ClassVar[bool] = False

    def __init__(self, *, failed_cas_is_read: bool = False) -> None:
        self._failed_cas_is_read = failed_cas_is_read

    def initial(self) -> Value:
        """No value, version 0."""
        return (None, 0)

    def register_initial(self) -> Value:
        """Where nobody asks for versions, nothing is there."""
        return None

    def reads_only(self, operation: Operation) -> bool:
        """True for gets, and for what a failed compare-and-set saw."""
        return operation.f in {"get", "get-versioned", *_MISSES.values()}

    def evidence(self, operation: Operation) -> Operation | None:
        """What a failed compare-and-set saw: what it returned, or, by the option, another value than expected."""
        if operation.f not in _MISSES:
            return None
        if operation.result is not None:
            f = "get" if operation.f == "cas" else "get-versioned"
            return as_ok(operation, f=f, argument=None, result=operation.result)
        if self._failed_cas_is_read:
            return as_ok(operation, f=_MISSES[operation.f], argument=operation.argument, result=None)
        return None

    def form(self, operation: Operation) -> Form | None:
        """Puts, gets, deletes and compare-and-sets by value are those of a register that begins with nil."""
        match operation.f:
            case "get":
                return RegisterForm(RegisterKind.READ, operation.result)
            case "put":
                return RegisterForm(RegisterKind.WRITE, operation.argument)
            case "delete":
                return RegisterForm(RegisterKind.WRITE, None)
            case "cas":
                expected, new = pair(operation.argument, operation)
                check_swapped(operation)
                kind = RegisterKind.READ if expected == new else RegisterKind.CAS
                return RegisterForm(kind, expected, new)
            case "cas-miss":
                return RegisterForm(RegisterKind.MISS, pair(operation.argument, operation)[0])
            case _:
                return None

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """What etcd would do."""
        value, version = pair(state, operation)
        known = operation.outcome is Outcome.OK
        match operation.f:
            case "get":
                return state if operation.result == value or not known else REFUSED
            case "get-versioned":
                return state if not known or _versioned(operation) == state else REFUSED
            case "put":
                return self._changed(operation.argument, version)
            case "delete":
                return (None, 0)
            case "increment":
                return self._incremented(value, version, operation)
            case _:
                return self._compared(state, operation)

    def _compared(self, state: Value, operation: Operation) -> Value | Refusal:
        value, version = pair(state, operation)
        if operation.f not in {*_MISSES, *_MISSES.values()}:
            raise unknown_operation(self, operation)
        expected, new = pair(operation.argument, operation)
        check_swapped(operation)
        met = expected == (version if operation.f.startswith("cas-version") else value)
        if operation.f in _MISSES:
            return self._changed(new, version) if met else REFUSED
        return REFUSED if met else state

    def _incremented(self, value: Value, version: Value, operation: Operation) -> Value | Refusal:
        amount = 1 if operation.argument is None else operation.argument
        told = operation.result if operation.outcome is Outcome.OK else None
        if not isinstance(amount, int) or not (told is None or isinstance(told, int | float)):
            raise ModelError(f"line {operation.line}: increment by {amount!r} returned {told!r}")
        present = 0 if value is None else value
        if not isinstance(present, int | float | Decimal) or told not in {None, present + amount}:
            return REFUSED
        return self._changed(present + amount, version)

    def _changed(self, value: Value, version: Value) -> Value:
        assert isinstance(version, int), f"a version is a number, not {version!r}"
        return (None, 0) if value is None else (value, version + 1)


def _versioned(operation: Operation) -> Value:
    """What ``get-versioned`` returned, as a state."""
    if operation.result is None:
        return (None, 0)
    value, version = pair(operation.result, operation)
    if not isinstance(version, int):
        raise ModelError(f"line {operation.line}: the version {version!r} is no number")
    return (value, version)
