"""Which record of a log is the first that is not older than a given time.

Owns the search: segments, and intervals of them, are passed over unread by their largest timestamps, batches by the one
in their header, and only over the records of the right batch one walks.
Source: Kafka's ``LogSegment.findOffsetByTimestamp``, ``FileRecords.searchForTimestamp``; KIP-32, KIP-79.
"""

from __future__ import annotations

from replica.ids import Epoch, Offset
from replica.records import SERVER_DECOMPRESSED_BYTES_MAX, CorruptRecordError, RecordBatch, Wanted, walk_records
from replica.storage.segments import Segments


def offset_for_timestamp(segments: Segments, timestamp_ms: int, end_offset: Offset) -> tuple[Offset, Epoch] | None:
    """Find offset and leader epoch of the first record in ``[log start, end_offset)`` at or after ``timestamp_ms``.

    Absent if all are older. StorageError at damage.
    """
    for batch in segments.young_batches(timestamp_ms):
        if batch.base_offset >= end_offset:
            return None
        offset = _first_in(batch, timestamp_ms, segments.log_start_offset)
        if offset is not None:
            return (offset, batch.leader_epoch) if offset < end_offset else None
    return None


def _first_in(batch: RecordBatch, timestamp_ms: int, log_start_offset: Offset) -> Offset | None:
    start_offset = max(batch.base_offset, log_start_offset)
    wanted = Wanted(timestamp_ms=timestamp_ms, from_delta=start_offset - batch.base_offset)
    try:
        times = walk_records(batch, limit_bytes=SERVER_DECOMPRESSED_BYTES_MAX, wanted=wanted)
    except CorruptRecordError:
        # The CRC is right, so this was acknowledged before leaders looked at records, or takes more than is looked at:
        # no damage, and no reason to stop. The batch's header says that there is such a record, so its first stands for
        # it.
        return Offset(start_offset)
    return None if times.first_delta is None else Offset(batch.base_offset + times.first_delta)
