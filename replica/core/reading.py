"""How the logs of one answer share its bytes: what every driver does for ``ReplyWithRecords``.

Owns the arithmetic; the driver owns the disk. Source: Kafka ``ReplicaManager.readFromLog``, KIP-74.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.core.effects import ReplyWithRecords
from replica.ids import Offset, TopicPartition

Read = Callable[[TopicPartition, Offset, Offset, int], bytes | None]
"""Takes a log, a start offset, an end offset and a limit in bytes; returns at least one whole batch, or None where the
log turns out to be damaged."""


def read_ranges(reply: ReplyWithRecords, read: Read) -> dict[TopicPartition, bytes | None]:
    """Read the ranges of ``reply`` in order, as many whole batches as its limits allow; None of a damaged log.

    A batch that does not fit is given back, unless it is the answer's first: a reader must not starve behind a large
    one.
    """
    records: dict[TopicPartition, bytes | None] = {}
    left_bytes = reply.max_bytes
    for log_range in reply.ranges:
        if left_bytes <= 0 and any(records.values()):
            break
        max_bytes = min(log_range.max_bytes, left_bytes)
        data = read(log_range.topic_partition, log_range.start_offset, log_range.end_offset, max_bytes)
        if data is None:
            records[log_range.topic_partition] = None
        elif not any(records.values()) or len(data) <= left_bytes:
            records[log_range.topic_partition] = data
            left_bytes -= len(data)
    return records
