"""The operations of a Kafka workload: each invocation with its completion, whatever they are of.

Owns what is asked of processes and of the order of events there. Unlike ``pairing`` it keeps what an operation of
unknown outcome came back with: a transaction may have polled before it was lost. Source: ``jepsen.history``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.history.events import EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One operation; ``completion`` and ``returned_at`` are None where it never ended."""

    process: int
    invocation: Event
    invoked_at: int
    completion: Event | None
    returned_at: int | None

    @property
    def type(self) -> EventType:
        """How it ended; what did not is of unknown outcome."""
        return EventType.INFO if self.completion is None else self.completion.type


def pairs_of(events: Sequence[Event], path: Path) -> list[Pair]:
    """The operations in the order of their invocations. Raises HistoryError."""
    is_indexed = all(event.index is not None for event in events)
    pending: dict[int, tuple[int, Event]] = {}
    pairs: list[Pair] = []
    for place, event in enumerate(events):
        at = event.index if is_indexed and event.index is not None else place
        process = _process(event, path)
        begun = pending.pop(process, None)
        if event.type is EventType.INVOKE:
            if begun is not None:
                problem = f"process {process} invokes while its operation of line {begun[1].line} is pending"
                refuse(path, event.line, problem, "complete that one first, or give each process its own number")
            pending[process] = (at, event)
            continue
        if begun is None or begun[1].f != event.f:
            problem = f"process {process} completes {excerpt(event.f)}, which it has not invoked, or completed before"
            refuse(path, event.line, problem, "record each invocation, and one completion of it")
        pairs.append(_pair(process, begun, (at, event)))
    pairs += [_pair(process, begun, None) for process, begun in pending.items()]
    return sorted(pairs, key=lambda pair: pair.invoked_at)


def _pair(process: int, begun: tuple[int, Event], ended: tuple[int, Event] | None) -> Pair:
    at, completion = (None, None) if ended is None else ended
    return Pair(process=process, invocation=begun[1], invoked_at=begun[0], completion=completion, returned_at=at)


def _process(event: Event, path: Path) -> int:
    if not isinstance(event.process, int):
        problem = f"process {excerpt(edn_text(event.process))} has no number"
        refuse(path, event.line, problem, "number the clients from 0")
    return event.process
