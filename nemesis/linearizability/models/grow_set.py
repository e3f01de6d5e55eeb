"""A set that only grows: ``add`` of an element, ``read`` of all of them.

Source: the model ``set`` of Knossos.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.forms import AddForm, Form, MembersForm
from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value


class GrowSet(Model):
    """A set: the state is the frozen set of its elements."""

    name: ClassVar[str] = "set"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Empty."""
        return frozenset()

    def reads_only(self, operation: Operation) -> bool:
        return operation.f == "read"

    def form(self, operation: Operation) -> Form | None:
        """Every operation of a set is one of the set kernel."""
        match operation.f:
            case "add":
                return AddForm(operation.argument)
            case "read":
                return MembersForm(_elements(operation))
            case _:
                raise unknown_operation(self, operation)

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """A read returns all that was added before, in any order, each element once."""
        assert isinstance(state, frozenset), f"the state of a set is a set, not {state!r}"
        match operation.f:
            case "add":
                return state | {operation.argument}
            case "read":
                return state if operation.outcome is not Outcome.OK or _are(_elements(operation), state) else REFUSED
            case _:
                raise unknown_operation(self, operation)

    def describe_state(self, state: Value) -> str:
        """The elements, in order."""
        return "{" + ", ".join(sorted(map(repr, state if isinstance(state, frozenset) else ()))) + "}"


def _elements(operation: Operation) -> tuple[Value, ...]:
    """What a read returned."""
    if operation.result is None:
        return ()
    if not isinstance(operation.result, tuple | frozenset):
        raise ModelError(f"line {operation.line}: a set was read as {operation.result!r}")
    return tuple(operation.result)


def _are(elements: tuple[Value, ...], state: frozenset[Value]) -> bool:
    """Whether these are the elements of ``state``: a set has none of them twice."""
    return len(elements) == len(state) and state.issubset(elements)
