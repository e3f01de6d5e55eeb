"""Committed batches as a fold takes them.

Owns the value that a log hands to a machine. Knows nothing of machines, nor of how a log is kept.
"""

from __future__ import annotations

from msgspec import Struct

from replica.ids import Epoch, Offset
from replica.records import RecordBatch, decode_records


class CommittedBatch(Struct, frozen=True, kw_only=True):
    """A batch that is committed: below the high watermark, and never to be taken back.

    ``end_offset`` is exclusive. ``timestamp_ms`` is the leader's stamp, below 0 for none. There is one entry for each
    offset; none at all where the records are the log's own (a leader change) and mean nothing to the machine.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    entries: tuple[bytes, ...]

    def __post_init__(self) -> None:
        assert self.base_offset < self.end_offset, (self.base_offset, self.end_offset)
        assert len(self.entries) in (0, self.end_offset - self.base_offset), (len(self.entries), self.base_offset)


def committed_batch(batch: RecordBatch) -> CommittedBatch:
    """Take the entries out of a record batch: a record's value is one entry, and keys and headers mean nothing.

    Raises CorruptRecordError where the records are malformed.
    """
    entries = () if batch.is_control else tuple(record.value or b"" for record in decode_records(batch))
    return CommittedBatch(
        base_offset=batch.base_offset,
        end_offset=batch.end_offset,
        epoch=batch.leader_epoch,
        timestamp_ms=batch.max_timestamp_ms,
        entries=entries,
    )
