"""What the logs of one machine hold in the end, as rows of the table that judges read.

Owns the translation from batches to rows. A log may begin above 0, and its first batch below its start.
"""

from __future__ import annotations

from nemesis.history import ReplicaLogBatch
from nemesis.history.record_batches import RecordBatch, batches_in, values_of
from nemesis.simulator.node import Node
from replica.ids import Offset, TopicPartition

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
