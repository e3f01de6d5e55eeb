"""Where a stream is: what Spark keeps in a query's checkpoint, as JSON.

    {"topics": {"orders": {"topic_id": 7, "partitions": {"0": {"offset": 12, "leader_epoch": 3}}}}}

The epoch is that of the record below the offset, and the id tells one topic from a later one of the same name: by both
a query finds out that the log is not the one it has read.

``begun_at``, in the same form as ``partitions``, is there in the first offset of a query and in the end of its first
batch. Spark does not keep where a query has begun; if the first batch is to be repeated, it asks the source again,
which would say something else by then where the query began at the end of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replica.ids import Epoch, Offset, TopicId, TopicPartition
from replica.spark.errors import TopicTableError
from replica.spark.values import Position

Positions = Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Where a stream is in each partition."""

    topic_ids: Mapping[str, TopicId]
    positions: Positions
    begun_at: Positions | None = None

    @property
    def is_beginning(self) -> bool:
        """Whether nothing has been read yet."""
        return self.begun_at == self.positions

    def to_json(self) -> dict[str, Any]:
        """Write it as Spark keeps it; equal offsets in the same order always."""
        by_topic = _to_json(self.positions)
        topics = {
            topic: {"topic_id": topic_id, "partitions": by_topic.get(topic, {})}
            for topic, topic_id in sorted(self.topic_ids.items())
        }
        begun = {} if self.begun_at is None else {"begun_at": _to_json(self.begun_at)}
        return {"topics": topics, **begun}


def offset_from_json(kept: dict[str, Any]) -> StreamOffset:
    """Read what a checkpoint keeps. Raises TopicTableError for anything else."""
    try:
        topics = kept["topics"]
        begun = kept.get("begun_at")
        return StreamOffset(
            topic_ids={topic: TopicId(int(of["topic_id"])) for topic, of in topics.items()},
            positions=_from_json({topic: of["partitions"] for topic, of in topics.items()}),
            begun_at=None if begun is None else _from_json(begun),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TopicTableError(f"the checkpoint holds {kept!r}, which is no offset of this source") from error


def _to_json(positions: Positions) -> dict[str, dict[str, dict[str, int]]]:
    topics: dict[str, dict[str, dict[str, int]]] = {}
    for name, position in sorted(positions.items()):
        fields = {"offset": int(position.offset)}
        if position.leader_epoch is not None:
            fields["leader_epoch"] = int(position.leader_epoch)
        topics.setdefault(name.topic, {})[str(name.partition)] = fields
    return topics


def _from_json(topics: dict[str, dict[str, dict[str, int]]]) -> Positions:
    return {
        TopicPartition(topic, int(number)): Position(
            offset=Offset(int(fields["offset"])),
            leader_epoch=None if "leader_epoch" not in fields else Epoch(int(fields["leader_epoch"])),
        )
        for topic, partitions in topics.items()
        for number, fields in partitions.items()
    }
