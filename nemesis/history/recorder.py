"""The run's one clock and the one order of its events.

Owns the index and the time of every event, and the counts that the progress line shows. Knows nothing of what the
operations mean. All calls come from one event loop, so that the order of indexes is the order in which things happened.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from nemesis.history.events import (
    HARNESS_PROCESS,
    MOVED,
    NEMESIS_PROCESS,
    EventType,
    HistoryEvent,
    ReplicaEvent,
)

if TYPE_CHECKING:
    from nemesis.history.writer import HistoryWriter


class Clock:
    """Nanoseconds since the run began, by the monotonic clock that all processes of the machine share."""

    def __init__(self) -> None:
        self._begin_ns = time.monotonic_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the run began."""
        return time.monotonic_ns() - self._begin_ns

    def since_begin_ns(self, monotonic_ns: int) -> int:
        """When that was, for a time of the machine's clock; never before the run began."""
        return max(0, monotonic_ns - self._begin_ns)


class Recorder:
    """Writes the events of operations into the history."""

    def __init__(self, writer: HistoryWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self.counts: Counter[tuple[str, EventType]] = Counter()

    def client(self, process: int, kind: EventType, f: str, **fields: Any) -> None:
        """Record that an operation of a client begins or ends. ``fields`` are those of ``HistoryEvent``."""
        self.counts[f, kind] += 1
        self._write(process, kind, f, **fields)

    def counted(self, reads: Collection[str]) -> tuple[Counter[EventType], Counter[EventType]]:
        """How many operations ended how: those that may change something, and those that are ``reads``."""
        changes: Counter[EventType] = Counter()
        others: Counter[EventType] = Counter()
        for (f, kind), number in self.counts.items():
            (others if f in reads else changes)[kind] += number
        return changes, others

    def nemesis(self, kind: EventType, f: str, detail: Mapping[str, Any], *, error: str | None = None) -> None:
        """Record what the nemesis begins to do (invoke), did (info) or could not do (fail)."""
        self._write(NEMESIS_PROCESS, kind, f, detail=json.dumps(detail), error=error)

    def harness(self, kind: EventType, f: str, detail: Mapping[str, Any], *, error: str | None = None) -> None:
        """Record what the harness waits for or reads when no fault is involved; outcomes as for the nemesis."""
        self._write(HARNESS_PROCESS, kind, f, detail=json.dumps(detail), error=error)

    def began(self, f: str, detail: Mapping[str, Any]) -> None:
        """Record that the nemesis begins to do something."""
        self.nemesis(EventType.INVOKE, f, detail)

    def ended(self, f: str, detail: Mapping[str, Any], *, error: str | None = None, is_known: bool = True) -> None:
        """Record that it was done, or not and why; of what nobody knows (``is_known``) there is a reason, too."""
        self.nemesis(EventType.INFO if error is None or not is_known else EventType.FAIL, f, detail, error=error)

    def harness_began(self, f: str, detail: Mapping[str, Any]) -> None:
        """Record that the harness begins to bring something about."""
        self.harness(EventType.INVOKE, f, detail)

    def harness_ended(self, f: str, detail: Mapping[str, Any], *, error: str | None = None) -> None:
        """Record that it has, or could not for this reason."""
        self.harness(EventType.INFO if error is None else EventType.FAIL, f, detail, error=error)

    def moved(self, replica_id: int, topic_partition: str, detail: Mapping[str, Any]) -> None:
        """Record that a partition was seen to have come to its target, of which this is the first replica."""
        self.replica(replica_id, MOVED, topic_partition=topic_partition, detail=json.dumps(detail))

    def replica(self, replica_id: int, event: str, **fields: Any) -> None:
        """Record what the harness has just seen of a replica. ``fields`` are those of ``ReplicaEvent``."""
        self._writer.write(ReplicaEvent(time_ns=self._clock.now_ns(), replica_id=replica_id, event=event, **fields))

    def _write(self, process: int, kind: EventType, f: str, **fields: Any) -> None:
        index = self._writer.next_index
        self._writer.write(
            HistoryEvent(index=index, time_ns=self._clock.now_ns(), process=process, type=kind, f=f, **fields)
        )
