"""What is planned and read: positions, ranges of offsets and the pieces of them that one task reads.

Values only. End offsets are exclusive. ``leader_epoch`` of a position is that of the record just below it; a log that
holds another record there was truncated since (KIP-320).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replica.ids import Epoch, Offset, TopicId, TopicPartition


class Bound(StrEnum):
    """The two offsets that have names: where a log begins, and its high watermark."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a log. Without an epoch nothing is known of the record below it, or there is none."""

    offset: Offset
    leader_epoch: Epoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Where a log begins and up to where it is committed, as its leader said."""

    start: Offset
    end: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLayout:
    """A topic as it is: which one of its name, and its partitions."""

    topic_id: TopicId
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of one partition, from ``start`` up to ``end``."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one task reads: the records from ``start`` up to ``end``, each with what is known of the record below.

    ``topic_id`` tells the topic from a later one of its name.
    """

    topic_partition: TopicPartition
    topic_id: TopicId
    start: Position
    end: Position
