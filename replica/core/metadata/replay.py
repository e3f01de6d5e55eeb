"""Applying the committed metadata log, record by record, to the image; and the image as a snapshot, taken and restored.

Owns how far the log has been applied and the image that follows from it. Reads only what is committed, hence never
takes anything back. One read is out at a time; it is performed by the driver and comes back as an event.

Source: Kafka ``MetadataLoader``; KIP-595 ``handleCommit``; KIP-630.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.effects import LogRange, ReadLog
from replica.core.events import LogRead
from replica.core.metadata.encoding import CorruptMetadataRecordError, records_of, unknown_level
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.metadata.snapshots import ImageView, decode_image
from replica.core.rules import Rules
from replica.ids import Epoch, Offset, SnapshotId, TopicPartition
from replica.machines import ForeignSnapshotError, Snapshot, SnapshotView
from replica.records import parse_batches

METADATA_LOG = TopicPartition("__cluster_metadata", 0)
"""The quorum log in which the cluster's decisions stand."""


class MetadataReplay:
    """The image of the metadata log below ``applied_offset``. ``applied_epoch`` is absent before the first record."""

    failure = None
    """There always is an image: a snapshot is restored whole or not at all."""

    def __init__(self, *, read_max_bytes: int, rules: Rules | None = None, newest_level: int = NEWEST_LEVEL) -> None:
        self.applied_offset = Offset(0)
        self.applied_epoch: Epoch | None = None
        self.image = MetadataImage()
        self._read_max_bytes = read_max_bytes
        self._rules = rules or Rules()
        self._newest_level = newest_level
        self._reading_from: Offset | None = None

    def next_read(self, high_watermark: Offset | None) -> ReadLog | None:
        """Ask for what is committed and not applied yet; None if there is nothing, or a read is out already."""
        if self._reading_from is not None or high_watermark is None or high_watermark <= self.applied_offset:
            return None
        self._reading_from = self.applied_offset
        return ReadLog(
            range=LogRange(
                topic_partition=METADATA_LOG,
                start_offset=self.applied_offset,
                end_offset=high_watermark,
                max_bytes=self._read_max_bytes,
            )
        )

    def on_read(self, read: LogRead) -> int:
        """Apply what was read, and return how many bytes of records that were.

        What was asked for before a snapshot was restored is in that. Storage has verified it: what is not understood
        all the same, somebody has written who knows more, and CorruptMetadataRecordError is raised before it counts.
        """
        if read.start_offset != self._reading_from:
            return 0
        assert read.start_offset == self.applied_offset, (read.start_offset, self.applied_offset)
        self._reading_from = None
        size_bytes = 0
        for batch in parse_batches(read.records):
            assert batch.base_offset == self.applied_offset, (batch.base_offset, self.applied_offset)
            if not batch.is_control:
                self.image = self._understood(self.image.apply_all(records_of(batch)))
            self.applied_offset, self.applied_epoch = batch.end_offset, batch.leader_epoch
            size_bytes += batch.size_bytes
        return size_bytes

    def _understood(self, image: MetadataImage) -> MetadataImage:
        """The image, unless it is of a level that this release does not know: CorruptMetadataRecordError."""
        if image.level > self._newest_level:
            raise CorruptMetadataRecordError(unknown_level(image.level, self._newest_level))
        return image

    def view(self) -> SnapshotView:
        """The image, with the id of what it stands for. There is none of a log that nothing was applied of."""
        assert self.applied_epoch is not None, "nothing has been applied"
        image = self.image
        if not self._rules.producer_ids_are_in_snapshot():
            image = replace(image, next_producer_id=0)
        end_offset = self._rules.snapshot_end_offset(applied_offset=self.applied_offset)
        snapshot_id = SnapshotId(end_offset, self.applied_epoch)
        return SnapshotView(id=snapshot_id, state=ImageView(image=image, snapshot_id=snapshot_id))

    def restore(self, snapshot: Snapshot) -> None:
        """Let the image be that of a snapshot, which is ahead of it, as if all its records had come at once.

        Raises CorruptSnapshotError; then nothing has changed. To load one that is behind is our own mistake:
        AssertionError.
        """
        assert snapshot.id.end_offset > self.applied_offset, (snapshot.id, self.applied_offset)
        try:
            self.image = self._understood(decode_image(snapshot))
        except CorruptMetadataRecordError as error:
            raise ForeignSnapshotError(f"{snapshot.id} is not understood: {error}") from error
        self.applied_offset, self.applied_epoch = snapshot.id.end_offset, snapshot.id.epoch
        self._reading_from = None
