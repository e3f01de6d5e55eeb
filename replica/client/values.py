"""What the client's calls return, one frozen class each. End offsets are exclusive."""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import Epoch, EpochEntry, Offset, ReplicaId, TopicPartition
from replica.records import Header, Record, RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A write that was acknowledged: the first value stands at ``base_offset``, which ``acks=0`` leaves unknown."""

    base_offset: Offset | None
    leader_epoch: Epoch | None
    leader_id: ReplicaId


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Committed records in order of offset, none below the asked offset, none of them the protocol's own.

    ``next_offset`` is where to go on: it also passes what ``records`` leaves out. ``high_watermark`` is the leader's
    when it answered, absent while it does not know it.
    """

    records: tuple[Record, ...]
    high_watermark: Offset | None
    next_offset: Offset
    leader_id: ReplicaId


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """The start or the readable end of the log, and the epoch of the leader that said so."""

    offset: Offset
    leader_epoch: Epoch | None
    leader_id: ReplicaId


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedLog:
    """One replica's own log, committed or not. ``complete`` is false if it ended before ``log_end_offset``,
    because the log changed meanwhile or was larger than asked for."""

    replica_id: ReplicaId
    batches: tuple[RecordBatch, ...]
    high_watermark: Offset | None
    log_start_offset: Offset
    log_end_offset: Offset
    epochs: tuple[EpochEntry, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMetadata:
    """A record that was acknowledged: where it stands. ``acks`` NONE leaves offset and epoch unknown."""

    topic_partition: TopicPartition
    offset: Offset | None
    leader_epoch: Epoch | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """A committed record. ``offset + 1`` and ``leader_epoch`` are what to keep in order to go on behind it."""

    topic_partition: TopicPartition
    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndEpoch:
    """The first record that is not older than a time: where it stands, and in which epoch."""

    offset: Offset
    leader_epoch: Epoch | None
