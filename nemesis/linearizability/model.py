"""What an object may answer: the small class that a user writes to have histories of it judged.

Owns the interface between the kernels and the objects. A model is a sequential specification: a first state, and what
one operation makes of a state. States are compared and hashed, so they are values: numbers, texts, None, tuples and
frozen sets. Source: the models of Knossos and Porcupine, and Herlihy and Wing on locality for ``partition``.

Whether a history is one of a model at all: asked before it is judged, where a person named the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from operator import attrgetter
from typing import ClassVar

from nemesis.linearizability.forms import Form
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.linearizability.packed import PackedOperations


class Refusal(Enum):
    """The one answer of ``Model.step`` that is no state."""

    REFUSED = "refused"


REFUSED = Refusal.REFUSED
"""This operation cannot take effect in this state with this result."""


class ModelError(ValueError):
    """An operation that the model does not know, or a value of the wrong shape: the history is not one of it."""


class Model(ABC):
    """A sequential specification of one object.

    A subclass must give ``initial`` and ``step``; all else has a default that is right, if not fast, for any object.
    Models hold options only and are never changed.
    """

    name: ClassVar[str]
    process_matters: ClassVar[bool] = True
    """Whether ``step`` looks at the process. Where not, unknown operations that ask the same are one and the same."""

    @abstractmethod
    def initial(self) -> Value:
        """The state before the first operation."""

    @abstractmethod
    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """The state after ``operation`` took effect in ``state``; REFUSED if it cannot have.

        Operations are OK or INFO. An OK one must have had its ``result``; an INFO one may have had any, so ``result``
        says nothing there. Raises ``ModelError`` for an operation that the object does not have.
        """

    def reads_only(self, operation: Operation) -> bool:  # noqa: ARG002 (for subclasses)
        """Whether ``operation`` leaves every state as it is. True for fewer operations than could be is never wrong."""
        return False

    def evidence(self, operation: Operation) -> Operation | None:  # noqa: ARG002 (for subclasses)
        """What a FAIL operation proves, as an OK operation in its place; None if it proves nothing."""
        return None

    def form(self, operation: Operation) -> Form | None:  # noqa: ARG002 (for subclasses)
        """What ``operation`` means in the language of a fast kernel; None: only ``step`` knows."""
        return None

    def register_initial(self) -> Value:
        """The value that a register begins with, where operations have the forms of a register."""
        return self.initial()

    def partition(self, operations: Iterable[Operation]) -> Mapping[Hashable, Sequence[Operation]]:
        """The operations of each object, in their order: objects that share no operation are judged one by one."""
        if isinstance(operations, PackedOperations):
            return operations.by_key()
        parts: dict[Hashable, list[Operation]] = {}
        for operation in operations:
            parts.setdefault(operation.key, []).append(operation)
        return parts

    def describe_state(self, state: Value) -> str:
        """The state, for people."""
        return "nil" if state is None else repr(state)

    def describe_operation(self, operation: Operation) -> str:
        """What was asked and what came back, for people."""
        asked = f"{operation.f}({'' if operation.argument is None else repr(operation.argument)})"
        match operation.outcome:
            case Outcome.OK:
                return f"{asked} -> {'nil' if operation.result is None else repr(operation.result)}"
            case Outcome.FAIL:
                return f"{asked} -> failed"
            case Outcome.INFO:
                return f"{asked} -> unknown"


def relevant(operations: Iterable[Operation], model: Model) -> list[Operation]:
    """The operations that say something, in the order of their invocations.

    What failed is dropped or replaced by what it proves; of what is unknown, whatever could not have changed anything
    is dropped.
    """
    kept: list[Operation] = []
    for operation in operations:
        match operation.outcome:
            case Outcome.OK:
                kept.append(operation)
            case Outcome.INFO if not model.reads_only(operation):
                kept.append(operation)
            case Outcome.FAIL if (proof := model.evidence(operation)) is not None:
                kept.append(proof)
            case _:
                pass
    kept.sort(key=attrgetter("invoked"))
    return kept


def as_ok(operation: Operation, *, f: str, argument: Value, result: Value) -> Operation:
    """``operation`` as one that succeeded: the usual way to write ``Model.evidence``."""
    return Operation(
        process=operation.process,
        f=f,
        key=operation.key,
        argument=argument,
        result=result,
        outcome=Outcome.OK,
        invoked=operation.invoked,
        returned=operation.returned,
        line=operation.line,
    )


def pair(value: Value, operation: Operation) -> tuple[Value, Value]:
    """``value`` as the two values that it must be; raises ``ModelError`` otherwise."""
    if isinstance(value, tuple) and len(value) == 2:
        return value[0], value[1]
    raise ModelError(f"line {operation.line}: {operation.f} takes two values, not {value!r}")


def check_swapped(operation: Operation) -> None:
    """Raise ``ModelError`` for a compare-and-set that is told to have succeeded and not to have."""
    if operation.outcome is Outcome.OK and operation.result is False:
        problem = f"{operation.f} succeeded and returned false; one that met another value fails"
        raise ModelError(f"line {operation.line}: {problem}")


def unknown_operation(model: Model, operation: Operation) -> ModelError:
    """The error for an operation that ``model`` does not have."""
    return ModelError(f"line {operation.line}: the model {model.name} has no operation {operation.f!r}")


def check_fits(operations: Iterable[Operation], model: Model) -> None:
    """Raise ModelError for the first operation that the model does not have, in whatever state.

    To the kernels that is a key of which nothing is known; to whoever named the model it is a mistake.
    """
    first = model.initial()
    for operation in operations:
        shown: Operation | None = operation
        if operation.outcome is Outcome.FAIL:
            model.step(first, replace(operation, outcome=Outcome.INFO, result=None))
            shown = model.evidence(operation)
        if shown is not None:
            model.step(first, shown)
