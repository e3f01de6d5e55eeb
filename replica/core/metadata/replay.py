"""Applying the committed metadata log, record by record, to the image.

Owns how far the log has been applied and the image that follows from it. Reads only what is committed, hence never
takes anything back. One read is out at a time; it is performed by the driver and comes back as an event.

Source: Kafka ``MetadataLoader``; KIP-595 ``handleCommit``.
"""

from __future__ import annotations

from replica.core.effects import LogRange, ReadLog
from replica.core.events import LogRead
from replica.core.metadata.encoding import records_of
from replica.core.metadata.image import MetadataImage
from replica.ids import Offset, TopicPartition
from replica.records import parse_batches

METADATA_LOG = TopicPartition("__cluster_metadata", 0)
"""The quorum log in which the cluster's decisions stand."""


class MetadataReplay:
    """The image of the metadata log below ``applied_offset``."""

    def __init__(self, *, read_max_bytes: int) -> None:
        self.applied_offset = Offset(0)
        self.image = MetadataImage()
        self._read_max_bytes = read_max_bytes
        self._is_reading = False

    def next_read(self, high_watermark: Offset | None) -> ReadLog | None:
        """Ask for what is committed and not applied yet; None if there is nothing, or a read is out already."""
        if self._is_reading or high_watermark is None or high_watermark <= self.applied_offset:
            return None
        self._is_reading = True
        return ReadLog(
            range=LogRange(
                topic_partition=METADATA_LOG,
                start_offset=self.applied_offset,
                end_offset=high_watermark,
                max_bytes=self._read_max_bytes,
            )
        )

    def on_read(self, read: LogRead) -> None:
        """Apply what was read. Damage in it is our own mistake: storage has verified it."""
        assert self._is_reading, read.start_offset
        assert read.start_offset == self.applied_offset, (read.start_offset, self.applied_offset)
        self._is_reading = False
        for batch in parse_batches(read.records):
            assert batch.base_offset == self.applied_offset, (batch.base_offset, self.applied_offset)
            if not batch.is_control:
                self.image = self.image.apply_all(records_of(batch))
            self.applied_offset = batch.end_offset
