"""The small identifiers that every part of a replica speaks in.

Owns the ``NewType``\\ s and the tiny values made of them. Knows nothing of logs, networks or disks.
Words are Kafka's: *end* offsets are exclusive, ``last_*`` are inclusive.
"""

from __future__ import annotations

from typing import NamedTuple, NewType

from msgspec import Struct

Epoch = NewType("Epoch", int)
"""A leader epoch: 0 or more. It grows with every election and never falls."""

EPOCH_MAX = Epoch((1 << 31) - 2)
"""The largest epoch that is taken from others. A batch holds an int32, and one more epoch must still fit into it."""

Offset = NewType("Offset", int)
"""A position in a log: 0 for the first record."""

OFFSET_MAX = Offset((1 << 63) - 1)
"""The largest that batches and messages can hold: an int64."""

ReplicaId = NewType("ReplicaId", int)
"""The number of a replica process, unique in its cluster: 0 or more."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""One incarnation of a broker: the metadata offset of its registration, so that a later one is larger."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Counts every change of a partition's metadata: what a change by the leader is compared and swapped against."""

TopicId = NewType("TopicId", int)
"""One topic for ever: the metadata offset of the record that created it. A topic of the same name later has another."""

CallId = NewType("CallId", int)
"""One RPC that a driver has received and that waits for its reply."""

CorrelationId = NewType("CorrelationId", int)
"""One RPC that the core has sent and whose answer it waits for."""


class TopicPartition(NamedTuple):
    """The name of one log: a topic and a partition number. A tuple, because it is the key of every table."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class EpochEntry(Struct, frozen=True, order=True):
    """One line of a leader-epoch cache: ``epoch`` begins at ``start_offset``."""

    epoch: Epoch
    start_offset: Offset


class EpochEndOffset(Struct, frozen=True, order=True):
    """The answer to "where does this epoch end?": the largest epoch not above it, and where that ends (exclusive)."""

    epoch: Epoch
    end_offset: Offset


class SnapshotId(Struct, frozen=True, order=True):
    """What a snapshot contains: all below ``end_offset`` (exclusive), whose last record is of ``epoch``."""

    end_offset: Offset
    epoch: Epoch
