"""``partition.metadata``: of which topic a log directory is, whatever its name says.

Owns the file's format, two lines of ``name: value``. A topic of the same name that is created later has another id, so
a log that its broker has missed the deletion of is known by this file. Written before anything else of a partition's
log: a directory that has it holds a log. Source: Kafka's ``PartitionMetadataFile``; KIP-516.
"""

from __future__ import annotations

from pathlib import Path

from replica.ids import TopicId
from replica.storage.checkpoints import DIGITS_MAX
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file

FILE_NAME = "partition.metadata"
_VERSION = 0
_NAMES = ("version", "topic_id")


def write_partition_metadata(files: Files, path: Path, topic_id: TopicId) -> None:
    """Replace the file, durably."""
    atomic_write(files, path, f"version: {_VERSION}\ntopic_id: {topic_id}\n".encode())


def read_partition_metadata(files: Files, path: Path) -> TopicId | None:
    """The topic's id; None if there is no file, as in a quorum log; CorruptCheckpointError if it is malformed."""
    try:
        content = read_file(files, path)
    except FileNotFoundError:
        return None
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise CorruptCheckpointError(path, "the file is not text") from None
    if lines.pop() != "":
        raise CorruptCheckpointError(path, "the last line does not end", line=len(lines) + 1)
    if len(lines) != len(_NAMES):
        raise CorruptCheckpointError(path, f"expected {len(_NAMES)} lines but found {len(lines)}")
    version, topic_id = (_value(path, line, lines[line - 1], name) for line, name in enumerate(_NAMES, start=1))
    if version != _VERSION:
        raise CorruptCheckpointError(path, f"version {version} is not {_VERSION}", line=1)
    return TopicId(topic_id)


def _value(path: Path, line: int, text: str, name: str) -> int:
    found, _, value = text.partition(": ")
    if found != name or not value.isascii() or not value.isdigit() or len(value) > DIGITS_MAX:
        raise CorruptCheckpointError(
            path, f"{text[:40]!r} is not {name!r}, a colon and a number of 0 or more", line=line
        )
    return int(value)
