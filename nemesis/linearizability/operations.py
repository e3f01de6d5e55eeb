"""One operation of a client on one object: what was asked, when, and what is known of its end.

Owns the value that every model and kernel works on. Knows nothing of files: ``nemesis.formats`` reads them, and pairs
invocations with completions. Source: Herlihy and Wing, "Linearizability" (1990); the three ends are those of
``jepsen.history``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

Value = Hashable
"""What is written, read or compared: a number, a text, None, or a tuple of values."""


class Outcome(StrEnum):
    """What is known of an operation's end."""

    OK = "ok"
    """It took effect, between its invocation and its return, and ``result`` is what came back."""
    FAIL = "fail"
    """It had no effect, and never will."""
    INFO = "info"
    """Nobody knows: it may have taken effect at any time after its invocation, or may yet, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    ``invoked`` and ``returned`` are positions in the one order of the history's events: all of them differ, and one
    operation came before another exactly if its ``returned`` is less than the other's ``invoked``. ``returned`` is None
    where the outcome is INFO, whatever was recorded later: the end of what nobody knows bounds nothing.
    ``argument`` is what was asked (None for a plain read), ``result`` what came back (None unless OK, or where a FAIL
    carries what was seen). ``line`` is where the invocation stands in the file, counted from 1, or the event's index
    where there is no file; ``key`` names the object.
    """

    process: Hashable
    f: str
    key: Hashable
    argument: Value
    result: Value
    outcome: Outcome
    invoked: int
    returned: int | None
    line: int
