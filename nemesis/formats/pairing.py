"""From events to operations: each invocation with its completion.

Owns what is asked of the order of events, for all formats and for operations of any kind: a process does one thing at a
time. Knows of no format and no model. Source: ``jepsen.history``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.formats.shapes import argument_of, is_cas_without_evidence, result_of
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.packed import PackedOperations

_OUTCOMES = {EventType.OK: Outcome.OK, EventType.FAIL: Outcome.FAIL, EventType.INFO: Outcome.INFO}


def paired(events: Iterable[Event], path: Path) -> Iterator[tuple[int, Event, int | None, Event | None]]:
    """Place and event of each invocation and of its completion, as they end; last those that never did, without one.

    Raises HistoryError.
    """
    pending: dict[Hashable, tuple[int, Event]] = {}
    for place, event in enumerate(events):
        begun = pending.pop(event.process, None)
        if event.type is EventType.INVOKE:
            _check_is_free(event, begun, path)
            pending[event.process] = (place, event)
        else:
            yield *_check_is_begun(event, begun, path), place, event
    for place, event in pending.values():
        yield place, event, None, None


def operations_of(events: Sequence[Event], path: Path) -> PackedOperations:
    """The operations in the order of their invocations; what completed as *info* has no end either.

    Positions are places in ``events``. Raises HistoryError.
    """
    operations = PackedOperations()
    for invoked_at, invocation, returned_at, completion in paired(events, path):
        if completion is None or not is_cas_without_evidence(completion):
            operations.append(_operation(invoked_at, invocation, returned_at, completion, path))
    operations.sort()
    return operations


def _check_is_free(event: Event, begun: tuple[int, Event] | None, path: Path) -> None:
    if begun is not None:
        problem = f"process {event.process} invokes while its operation of line {begun[1].line} is pending"
        refuse(path, event.line, problem, "complete that one first, or give each process its own number")


def _check_is_begun(event: Event, begun: tuple[int, Event] | None, path: Path) -> tuple[int, Event]:
    if begun is None:
        problem = f"process {event.process} completes what it has not invoked, or completed before"
        refuse(path, event.line, problem, "record each invocation, and one completion of it")
    invocation = begun[1]
    if event.f != invocation.f:
        problem = f"process {event.process} completes {excerpt(event.f)} and has invoked {excerpt(invocation.f)}"
        refuse(path, event.line, f"{problem} on line {invocation.line}", "complete what was invoked")
    if event.key is not None and event.key != invocation.key:
        problem = f"key {excerpt(edn_text(event.key))} and was invoked on line {invocation.line}"
        refuse(path, event.line, f"the completion is about {problem} about another", "keep the key of the invocation")
    return begun


def _operation(
    invoked_at: int, invocation: Event, returned_at: int | None, completion: Event | None, path: Path
) -> Operation:
    outcome = Outcome.INFO if completion is None else _OUTCOMES[completion.type]
    return Operation(
        process=invocation.process,
        f=invocation.f,
        key=invocation.key,
        argument=argument_of(invocation, path),
        result=result_of(invocation, completion, path),
        outcome=outcome,
        invoked=invoked_at,
        returned=None if outcome is Outcome.INFO else returned_at,
        line=invocation.line,
    )
