"""A model whose objects begin in another state: it judges a part of a history, cut where the state was known."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

from nemesis.linearizability.forms import Form
from nemesis.linearizability.model import Model, Refusal
from nemesis.linearizability.operations import Operation, Value


class Beginning(Model):
    """``model``, but for the first state."""

    name: ClassVar[str] = "beginning"

    def __init__(self, model: Model, first: Value) -> None:
        self._model, self._first = model, first

    def initial(self) -> Value:
        """The state at the cut."""
        return self._first

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """As of the model."""
        return self._model.step(state, operation)

    def reads_only(self, operation: Operation) -> bool:
        """As of the model."""
        return self._model.reads_only(operation)

    def evidence(self, operation: Operation) -> Operation | None:
        """As of the model."""
        return self._model.evidence(operation)

    def form(self, operation: Operation) -> Form | None:
        """As of the model."""
        return self._model.form(operation)

    def partition(self, operations: Iterable[Operation]) -> Mapping[Hashable, Sequence[Operation]]:
        """As of the model."""
        return self._model.partition(operations)

    def describe_state(self, state: Value) -> str:
        """As of the model."""
        return self._model.describe_state(state)

    def describe_operation(self, operation: Operation) -> str:
        """As of the model."""
        return self._model.describe_operation(operation)
