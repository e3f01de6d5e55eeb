"""What a simulated run leaves for its judges: the same three tables as a run against processes.

Owns the rows while the run goes on, and their Arrow tables at its end. The values are those of ``nemesis.history``, so
that one set of checks judges both kinds of run.

What the logs of one machine hold in the end, as rows of the table that judges read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nemesis.history import HARNESS_PROCESS, NEMESIS_PROCESS, EventType, HistoryEvent, ReplicaEvent, ReplicaLogBatch
from nemesis.history.pairing import Pairing
from nemesis.history.record_batches import RecordBatch, batches_in, values_of
from nemesis.simulator.node import Node
from nemesis.simulator.queue import EventQueue
from nemesis.simulator.rare import Rare
from replica.ids import Offset, TopicPartition


class Record:
    """The history of one run, the events that its replicas had, and their final logs."""

    def __init__(self, queue: EventQueue) -> None:
        self.history: list[HistoryEvent] = []
        self.events: list[ReplicaEvent] = []
        self.logs: list[ReplicaLogBatch] = []
        self.rare: Counter[Rare] = Counter()
        """What has happened seldom, and how often."""
        self._queue = queue
        self._pairing = Pairing()

    def client(self, process: int, kind: EventType, f: str, *, topic_partition: TopicPartition, **fields: Any) -> None:
        """An operation of a client begins or ends. ``fields`` are those of ``HistoryEvent``."""
        self._add(process, kind, f, topic_partition=f"{topic_partition}", **fields)

    def object(self, process: int, kind: EventType, f: str, *, name: str, **fields: Any) -> None:
        """An operation of a client on an object of a state machine begins or ends."""
        self._add(process, kind, f, topic_partition=name, **fields)

    def nemesis(self, kind: EventType, f: str, detail: Mapping[str, Any], *, error: str | None = None) -> None:
        """A fault begins (invoke), was done (info) or could not be (fail)."""
        self._add(NEMESIS_PROCESS, kind, f, detail=json.dumps(detail), error=error)

    def harness(self, kind: EventType, f: str, detail: Mapping[str, Any], *, error: str | None = None) -> None:
        """The harness waits for something or reads it."""
        self._add(HARNESS_PROCESS, kind, f, detail=json.dumps(detail), error=error)

    def replica(
        self,
        replica_id: int,
        event: str,
        *,
        topic_partition: TopicPartition,
        epoch: int | None = None,
        offset: int | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """A replica had something happen to it."""
        self.events.append(
            ReplicaEvent(
                time_ns=self._queue.now_us * 1000,
                replica_id=replica_id,
                event=event,
                epoch=epoch,
                offset=offset,
                topic_partition=f"{topic_partition}",
                detail=None if detail is None else json.dumps(detail),
            )
        )

    def _add(self, process: int, kind: EventType, f: str, **fields: Any) -> None:
        index, now_ns = len(self.history), self._queue.now_us * 1000
        invoked = self._pairing.invoked(index, process, kind, f)
        self.history.append(
            HistoryEvent(index=index, time_ns=now_ns, process=process, type=kind, f=f, invoked=invoked, **fields)
        )


READ_BYTES_MAX = 1 << 30


def log_rows(node: Node, log: TopicPartition, *, has_values: bool) -> list[ReplicaLogBatch]:
    """One row for each batch of the log, read from the machine's disk; one without a batch where it is empty.

    ``has_values`` says that its records are values; they are not where a state machine is on the log.
    Raises StorageError where the disk cannot be read, DamagedError where it is damaged and does not say so.
    """
    store = node.stores[log]
    high_watermark = _high_watermark(node, log)
    start, end = store.log_start_offset, store.log_end_offset
    batches = batches_in(store.read(start, end, READ_BYTES_MAX)) if start < end else ()

    def row(batch: RecordBatch | None) -> ReplicaLogBatch:
        return ReplicaLogBatch(
            replica_id=node.replica_id,
            topic_partition=f"{log}",
            base_offset=None if batch is None else batch.base_offset,
            last_offset=None if batch is None else batch.last_offset,
            leader_epoch=None if batch is None else batch.leader_epoch,
            crc=None if batch is None else batch.crc,
            is_control=batch is not None and batch.is_control,
            values=_values(batch) if batch is not None and has_values and not batch.is_control else None,
            high_watermark=high_watermark,
            log_end_offset=end,
            log_start_offset=start,
            complete=True,
        )

    return [row(batch) for batch in batches] or [row(None)]


def _values(batch: RecordBatch) -> tuple[int, ...]:
    return tuple(int(value or b"-1") for value in values_of(batch))


def _high_watermark(node: Node, log: TopicPartition) -> Offset | None:
    assert node.core is not None, node.replica_id
    if log in node.core.logs:
        return node.core.logs[log].high_watermark
    assert node.core.broker is not None, node.replica_id
    return node.core.broker.partitions[log].high_watermark
