"""A counter: ``add`` of an amount, ``increment`` by an amount with the new number as its result, ``read``.

A result of nil, of either change, says nothing. Amounts may be negative; an increment of nothing is one of 1.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value


class Counter(Model):
    """A number that begins with 0."""

    name: ClassVar[str] = "counter"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Zero."""
        return 0

    def reads_only(self, operation: Operation) -> bool:
        return operation.f == "read"

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """The sum."""
        assert isinstance(state, int), f"the state of a counter is a number, not {state!r}"
        known = operation.outcome is Outcome.OK
        match operation.f:
            case "read":
                _check_number(operation)
                return state if not known or operation.result == state else REFUSED
            case "add" | "increment":
                amount = 1 if operation.argument is None else operation.argument
                if not isinstance(amount, int):
                    raise ModelError(f"line {operation.line}: {operation.f} of {amount!r}, which is no number")
                _check_number(operation)
                return REFUSED if known and operation.result not in {None, state + amount} else state + amount
            case _:
                raise unknown_operation(self, operation)


def _check_number(operation: Operation) -> None:
    result = operation.result
    if operation.outcome is Outcome.OK and not (result is None or isinstance(result, int | float)):
        raise ModelError(f"line {operation.line}: {operation.f} returned {result!r}, which is no number")
