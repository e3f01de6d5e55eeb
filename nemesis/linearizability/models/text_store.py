"""Porcupine's key-value store: ``get``, ``put`` and ``append`` of texts, each key a text that begins empty.

Owns the model that histories in the format ``porcupine-kv`` were recorded for. Source: the key-value model of
Porcupine's tests.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.forms import Form, RegisterForm, RegisterKind
from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value


class TextStore(Model):
    """One key of the store: the state is its text."""

    name: ClassVar[str] = "text-kv"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """The empty text: what a key holds that was never written."""
        return ""

    def reads_only(self, operation: Operation) -> bool:
        return operation.f == "get"

    def form(self, operation: Operation) -> Form | None:
        """Gets and puts are those of a register; an append is not."""
        match operation.f:
            case "get":
                return RegisterForm(RegisterKind.READ, _got(operation))
            case "put":
                return RegisterForm(RegisterKind.WRITE, _written(operation))
            case _:
                return None

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """In at the end, or in place of all; out as a whole."""
        assert isinstance(state, str), f"the state of a key is a text, not {state!r}"
        match operation.f:
            case "get":
                return state if operation.outcome is not Outcome.OK or _got(operation) == state else REFUSED
            case "put":
                return _written(operation)
            case "append":
                return state + _written(operation)
            case _:
                raise unknown_operation(self, operation)


def _got(operation: Operation) -> Value:
    return "" if operation.result is None else operation.result


def _written(operation: Operation) -> str:
    if isinstance(operation.argument, str):
        return operation.argument
    raise ModelError(f"line {operation.line}: {operation.f} takes a text, not {operation.argument!r}")
