"""The operations of a Kafka workload: each invocation with its completion, whatever they are of.

Owns what is asked of processes there, and the order of operations. What one of unknown outcome came back with is kept:
a transaction may have polled before it was lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.formats.pairing import paired
from nemesis.history.events import EventType

_NEVER = -1


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


def pairs_of(events: Sequence[Event], path: Path) -> Iterator[Pair]:
    """The operations in the order of their invocations, each made when it is asked for.

    Raises HistoryError before the first of them.
    """
    is_indexed = all(event.index is not None for event in events)
    moments = array("q", (event.index or 0 if is_indexed else place for place, event in enumerate(events)))
    begins, ends = array("q"), array("q")
    for invoked_at, _, completed_at, _ in paired(_numbered(events, path), path):
        begins.append(invoked_at)
        ends.append(_NEVER if completed_at is None else completed_at)
    for k in sorted(range(len(begins)), key=lambda k: moments[begins[k]]):
        invocation, has_end = events[begins[k]], ends[k] != _NEVER
        yield Pair(
            process=_process(invocation, path),
            invocation=invocation,
            invoked_at=moments[begins[k]],
            completion=events[ends[k]] if has_end else None,
            returned_at=moments[ends[k]] if has_end else None,
        )


def _numbered(events: Iterable[Event], path: Path) -> Iterator[Event]:
    for event in events:
        _process(event, path)
        yield event


def _process(event: Event, path: Path) -> int:
    if not isinstance(event.process, int):
        problem = f"process {excerpt(edn_text(event.process))} has no number"
        refuse(path, event.line, problem, "number the clients from 0")
    return event.process
