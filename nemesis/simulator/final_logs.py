"""What the logs of one machine hold in the end, as rows of the table that judges read.

Owns the translation from batches to rows. A log may begin above 0, and its first batch below its start.
"""

from __future__ import annotations

from nemesis.history import ReplicaLogBatch
from nemesis.simulator.node import Node
from replica.ids import Offset, TopicPartition
from replica.records import RecordBatch, decode_records, parse_batches
from replica.records.batch import CRC_AT

READ_BYTES_MAX = 1 << 30


def log_rows(node: Node, log: TopicPartition, *, has_values: bool) -> list[ReplicaLogBatch]:
    """One row for each batch of the log, read from the machine's disk; one without a batch where it is empty.

    ``has_values`` says that its records are values; they are not where a state machine is on the log.
    Raises StorageError where the disk cannot be read, CorruptRecordError where it is damaged and does not say so.
    """
    store = node.stores[log]
    high_watermark = _high_watermark(node, log)
    start, end = store.log_start_offset, store.log_end_offset
    batches = parse_batches(store.read(start, end, READ_BYTES_MAX)) if start < end else ()

    def row(batch: RecordBatch | None) -> ReplicaLogBatch:
        return ReplicaLogBatch(
            replica_id=node.replica_id,
            topic_partition=f"{log}",
            base_offset=None if batch is None else batch.base_offset,
            last_offset=None if batch is None else batch.end_offset - 1,
            leader_epoch=None if batch is None else batch.leader_epoch,
            crc=None if batch is None else int.from_bytes(batch.data[CRC_AT : CRC_AT + 4]),
            is_control=batch is not None and batch.is_control,
            values=_values(batch) if batch is not None and has_values and not batch.is_control else None,
            high_watermark=high_watermark,
            log_end_offset=end,
            log_start_offset=start,
            complete=True,
        )

    return [row(batch) for batch in batches] or [row(None)]


def _values(batch: RecordBatch) -> tuple[int, ...]:
    return tuple(int(record.value or b"-1") for record in decode_records(batch))


def _high_watermark(node: Node, log: TopicPartition) -> Offset | None:
    assert node.core is not None, node.replica_id
    if log in node.core.logs:
        return node.core.logs[log].high_watermark
    assert node.core.broker is not None, node.replica_id
    return node.core.broker.partitions[log].high_watermark
