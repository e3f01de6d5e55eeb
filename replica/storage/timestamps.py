"""Which record of a log is the first that is not older than a given time.

Owns the search: whole segments are passed over by their largest timestamp, batches by the one in their header, and only
over the records of the right batch one walks. Source: Kafka's ``LogSegment.findOffsetByTimestamp``,
``FileRecords.searchForTimestamp``; KIP-32, KIP-79.
"""

from __future__ import annotations

from replica.ids import Epoch, Offset
from replica.records import SERVER_DECOMPRESSED_BYTES_MAX, CorruptRecordError, RecordBatch, Wanted, walk_records
from replica.storage.segments import Segments, naming_damage


def offset_for_timestamp(segments: Segments, timestamp_ms: int, end_offset: Offset) -> tuple[Offset, Epoch] | None:
    """Find offset and leader epoch of the first record in ``[log start, end_offset)`` at or after ``timestamp_ms``.

    Absent if all are older. StorageError at damage.
    """
    start_offset = max(segments.log_start_offset, _first_base_offset(segments, timestamp_ms))
    for batch in segments.batches_from(Offset(start_offset)):
        if batch.base_offset >= end_offset:
            return None
        if batch.max_timestamp_ms < timestamp_ms:
            continue
        offset = _first_in(batch, timestamp_ms, segments.log_start_offset)
        if offset is not None:
            return (offset, batch.leader_epoch) if offset < end_offset else None
    return None


def _first_base_offset(segments: Segments, timestamp_ms: int) -> Offset:
    """Where the first segment begins that holds a record that is young enough; the last one's if none does."""
    for segment in segments:
        with naming_damage(segment):
            if segment.max_timestamp_ms() >= timestamp_ms:
                return segment.base_offset
    return segments.last.base_offset


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
