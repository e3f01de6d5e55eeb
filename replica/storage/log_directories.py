"""The log directories in a data directory: their names, which of them hold a partition's log, and making one.

Owns the name ``<topic>-<partition>``, where a topic may hold dashes itself, and the rule that ``partition.metadata``
makes a directory a log: a creation that was cut short before that has left nothing. Knows nothing of segments.
Source: Kafka's ``Topic``, ``UnifiedLog.parseTopicPartitionName``, ``LogManager``.
"""

from __future__ import annotations

import re
from pathlib import Path

from replica.ids import TopicId, TopicPartition
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files
from replica.storage.partition_metadata import FILE_NAME, read_partition_metadata, write_partition_metadata

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
    """The logs of topics that a data directory holds and names, even if nothing of them was ever flushed."""
    return [
        topic_partition
        for name in files.names(path)
        if (topic_partition := topic_partition_of(name)) is not None and is_named(files, path / name)
    ]


def is_named(files: Files, path: Path) -> bool:
    """Tell whether it can be read of which topic a log is. A power loss may take that of a new one."""
    try:
        return read_partition_metadata(files, path / FILE_NAME) is not None
    except CorruptCheckpointError:
        return False


def make_partition(files: Files, path: Path, topic_id: TopicId) -> None:
    """Make the directory of a new log, durably. May raise OSError.

    The log's own files are made when it is first opened.
    """
    files.mkdir(path)
    files.fsync_directory(path.parent)
    write_partition_metadata(files, path / FILE_NAME, topic_id)
