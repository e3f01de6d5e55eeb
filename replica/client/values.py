"""What the client's calls return, one frozen class each. End offsets are exclusive."""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import Epoch, Offset, TopicPartition
from replica.records import Header


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
