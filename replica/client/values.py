"""What the client's calls return, one immutable class each. End offsets are exclusive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from replica.ids import Epoch, Offset, TopicPartition
from replica.records import Header


class RecordMetadata(NamedTuple):
    """A record that was acknowledged: where it stands. ``acks`` NONE leaves offset and epoch unknown.

    A tuple, as there is one for every record: it is made three times as quickly as a frozen dataclass.
    """

    topic_partition: TopicPartition
    offset: Offset | None
    leader_epoch: Epoch | None
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """A committed record. ``offset + 1`` and ``leader_epoch`` are what to keep in order to go on behind it.

    ``key`` and ``value`` are bytes or None, or what the consumer's deserializers make of them. A tuple for the same
    reason.
    """

    topic_partition: TopicPartition
    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndEpoch:
    """The first record that is not older than a time: where it stands, and in which epoch."""

    offset: Offset
    leader_epoch: Epoch | None
