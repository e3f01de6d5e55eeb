"""Whether a history is one of a model at all: asked before it is judged, where a person named the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nemesis.linearizability.model import Model
from nemesis.linearizability.operations import Operation, Outcome


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
