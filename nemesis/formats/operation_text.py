"""One operation in a few words, for people: what was asked, and what came back."""

from __future__ import annotations

from nemesis.formats.edn_text import edn_text
from nemesis.linearizability.operations import Operation, Outcome, Value

VALUE_CHARS_SHOWN = 100


def shown(value: Value) -> str:
    """A value as EDN, cut where it is too long."""
    return cut(edn_text(value))


def cut(text: str) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= VALUE_CHARS_SHOWN else f"{text[:VALUE_CHARS_SHOWN]}..."


def described(operation: Operation) -> str:
    """``write 1 -> ok``, ``read -> 1``, ``cas [1 2] -> failed`` or ``write 1 -> unknown``."""
    asked = operation.f if operation.argument is None else f"{operation.f} {shown(operation.argument)}"
    match operation.outcome:
        case Outcome.INFO:
            return f"{asked} -> unknown"
        case Outcome.FAIL:
            return f"{asked} -> failed"
        case Outcome.OK if operation.result is None and operation.argument is not None:
            return f"{asked} -> ok"
        case Outcome.OK:
            return f"{asked} -> {shown(operation.result)}"
