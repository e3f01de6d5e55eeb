"""A list: ``append`` of an element at the end, ``read`` of the whole.

A read returns the tuple of all elements; nil is the empty list. Source: the list-append workload of Elle, one list.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.forms import AppendForm, Form, WholeForm
from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value


class AppendList(Model):
    """A list that only grows at its end: the state is the tuple of its elements."""

    name: ClassVar[str] = "list"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Empty."""
        return ()

    def reads_only(self, operation: Operation) -> bool:
        return operation.f == "read"

    def form(self, operation: Operation) -> Form | None:
        """Every operation of a list is one of the list kernel."""
        match operation.f:
            case "append":
                return AppendForm((operation.argument,), None)
            case "read":
                result = () if operation.result is None else operation.result
                if not isinstance(result, tuple):
                    raise ModelError(f"line {operation.line}: a list was read as {result!r}")
                return WholeForm(result)
            case _:
                raise unknown_operation(self, operation)

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """In at the end, out as a whole."""
        assert isinstance(state, tuple), f"the state of a list is a tuple, not {state!r}"
        match self.form(operation):
            case AppendForm(records, _):
                return (*state, *records)
            case WholeForm(records):
                return state if operation.outcome is not Outcome.OK or records == state else REFUSED
            case _:
                raise unknown_operation(self, operation)
