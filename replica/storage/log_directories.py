"""The log directories in a data directory: their names, which of them hold a partition's log, and making one.

Owns the name ``<topic>-<partition>``, where a topic may hold dashes itself, and the rule that ``partition.metadata``
makes a directory a log: a creation that was cut short before it was durable has left nothing. Knows nothing of
segments. Source: Kafka's ``Topic``, ``UnifiedLog.parseTopicPartitionName``, ``LogManager``.
"""

from __future__ import annotations

import re
from pathlib import Path

from replica.ids import TopicId, TopicPartition
from replica.storage.files import Files
from replica.storage.partition_metadata import FILE_NAME, write_partition_metadata
from replica.storage.trash import remove_tree

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")


def is_topic(topic: str) -> bool:
    """Tell whether a topic can be part of a directory's name, and leads out of none."""
    return _TOPIC.fullmatch(topic) is not None and topic not in {".", ".."}


def topic_partition_of(name: str) -> TopicPartition | None:
    """The log that a directory of this name would hold; None if it is no such name."""
    topic, _, partition = name.rpartition("-")
    if not is_topic(topic) or not _PARTITION.fullmatch(partition):
        return None
    return TopicPartition(topic, int(partition))


def holds_partition(files: Files, path: Path) -> bool:
    """Tell whether this is the directory of a partition whose creation was finished."""
    return files.exists(path / FILE_NAME)


def partitions_in(files: Files, path: Path) -> list[TopicPartition]:
    """The logs of topics that a data directory holds."""
    return [
        topic_partition
        for name in files.names(path)
        if (topic_partition := topic_partition_of(name)) is not None and holds_partition(files, path / name)
    ]


def make_partition(files: Files, path: Path, topic_id: TopicId) -> None:
    """Make the directory of a new log, durably; what an earlier creation has left of it is removed. May raise OSError.

    The log's own files are made when it is first opened.
    """
    if files.exists(path):
        remove_tree(files, path)
    files.mkdir(path)
    files.fsync_directory(path.parent)
    write_partition_metadata(files, path / FILE_NAME, topic_id)
