"""How the operations of a workload on objects are read again from what was recorded of them.

Owns the form of that. The columns are those of ``HistoryEvent``: each event has a ``value`` and a detail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemesis.linearizability.operations import Value

Detail = Mapping[str, Any]
Reading = Callable[[int | None, Detail], Value]
"""From an event's value and its detail to what they mean. Raises KeyError where something was not recorded."""


def the_value(value: int | None, detail: Detail) -> Value:
    """The value itself."""
    del detail
    return value


def nothing(*_: Any) -> None:
    """Neither an argument, nor a result, nor a value of its own."""


def pairs_of(told: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Pairs as they come from JSON."""
    return tuple((first, second) for first, second in told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """One kind of operation: its argument is read from its invocation, its result from an ok completion.

    ``writes`` tells from the argument the value that the operation puts there, and which no other one of its run does.
    What it did may end by itself ``ttl_ms`` after its invocation, which is an operation called ``expires_as``.
    """

    argument: Reading = the_value
    result: Reading = nothing
    writes: Callable[[Any], int | None] = nothing
    expires_as: str | None = None


def itself(argument: Any) -> Any:
    """What is written is the argument."""
    return argument


READS_VALUE = Encoding(result=the_value)
WRITES_VALUE = Encoding(writes=itself)
