"""What storage hands to the core when a log has been opened: the log as it stands on disk, in a few facts."""

from __future__ import annotations

from msgspec import Struct

from replica.core.effects import QuorumState
from replica.ids import EpochEntry, Offset, SnapshotId, TopicId
from replica.voters import VoterEntry

PRODUCER_BATCHES_KEPT = 5
"""How many of a producer's newest batches are remembered: as many as it may have in flight (Kafka)."""


class ProducerBatch(Struct, frozen=True, kw_only=True):
    """One batch of an idempotent producer, where it stands. ``last_sequence`` is inclusive."""

    base_sequence: int
    last_sequence: int
    base_offset: Offset
    end_offset: Offset
    max_timestamp_ms: int


class ProducerEntry(Struct, frozen=True, kw_only=True):
    """One idempotent producer as a log knows it: its newest epoch and its newest batches in it, oldest first."""

    producer_id: int
    producer_epoch: int
    batches: tuple[ProducerBatch, ...]


class StoredSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot that is on stable storage."""

    id: SnapshotId
    size_bytes: int


class RecoveredLog(Struct, frozen=True, kw_only=True):
    """A log after recovery: everything below ``log_end_offset`` is verified and on stable storage.

    ``epochs`` are cut to ``[log_start_offset, log_end_offset]`` and agree with the batches. ``quorum_state`` is absent
    on a freshly formatted disk, and for a partition. ``topic_id`` is absent for a quorum log. ``high_watermark`` is
    the checkpointed one, between log start and log end; absent if none was ever stored.

    ``snapshots`` are those on disk, oldest first, none beyond the log's end; ``snapshot`` is the content of the newest.
    Where a quorum log does not begin at 0, the oldest ends at the log start. ``voters`` are the stored entries, oldest
    first, all below the log's end.
    """

    log_start_offset: Offset
    log_end_offset: Offset
    epochs: tuple[EpochEntry, ...]
    quorum_state: QuorumState | None = None
    topic_id: TopicId | None = None
    high_watermark: Offset | None = None
    producers: tuple[ProducerEntry, ...] = ()
    snapshots: tuple[StoredSnapshot, ...] = ()
    snapshot: bytes = b""
    voters: tuple[VoterEntry, ...] = ()
    damage: str | None = None
    """Why a partition's log cannot be used, absent where it can: all else but the topic is unknown then, and that
    may be, too."""

    @property
    def is_of_partition(self) -> bool:
        """Whether it is a partition's log, and not one that is kept by a quorum."""
        return self.topic_id is not None or self.damage is not None
