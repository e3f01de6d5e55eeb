"""Where a log may begin by its retention: which of its oldest segments are too old, or too many.

Owns the arithmetic only: nothing is deleted here, and nothing of a segment is read. A segment goes as a whole, and only
when all of it is committed (KAFKA-5634); the last one never goes. Age is that of the newest record by its own
timestamp, not of the file, which a copy or a restart would make young again; a segment without timestamps has no age.
Source: Kafka's ``UnifiedLog.deleteRetentionMsBreachedSegments`` and ``deleteRetentionSizeBreachedSegments``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from replica.ids import Offset
from replica.records import NO_TIMESTAMP
from replica.storage.segment import Segment
from replica.storage.segments import Segments


class Retention(Struct, frozen=True, kw_only=True):
    """What may be kept, seen from ``now_ms``. A limit that is absent does not count; one that is reached is kept.

    Where it is not known what time it is, nothing is too old.
    """

    now_ms: int | None
    retention_ms: int | None
    retention_bytes: int | None

    def is_too_old(self, segment: Segment) -> bool:
        """Tell whether the newest record of a segment is older than the limit."""
        if self.retention_ms is None or self.now_ms is None:
            return False
        timestamp_ms = segment.max_timestamp_ms
        return timestamp_ms != NO_TIMESTAMP and self.now_ms - timestamp_ms > self.retention_ms

    def is_too_much(self, segment: Segment, held_bytes: int) -> bool:
        """Tell whether a log of ``held_bytes`` keeps enough without this segment."""
        return self.retention_bytes is not None and held_bytes - segment.size >= self.retention_bytes


def retention_start(segments: Segments, high_watermark: Offset, retention: Retention) -> Offset:
    """Name the base offset of the first segment that is kept, or where the log begins now, whichever is larger."""
    held_bytes = sum(segment.size for segment in segments)
    start_offset = segments.log_start_offset
    by_age = True
    for segment, end_offset in _finished(segments):
        # As Kafka does: first all that are too old, from the oldest on, then the size of what is left.
        by_age = by_age and retention.is_too_old(segment)
        if end_offset > high_watermark or not (by_age or retention.is_too_much(segment, held_bytes)):
            break
        held_bytes -= segment.size
        start_offset = max(start_offset, end_offset)
    return start_offset


def _finished(segments: Segments) -> Iterator[tuple[Segment, Offset]]:
    """All segments but the last, each with its end offset."""
    for segment, following in pairwise(segments):
        yield segment, following.base_offset
