"""Kafka's checkpoint files: small text files that are replaced whole.

Owns their format: line 1 a version (``0``), line 2 the number of entries, then one entry a line. A file with another
version, another count or a malformed line is refused by name, never half believed: a recovery point read too low cuts
flushed data, an epoch missed lets logs diverge. Source: Kafka's ``CheckpointFile``, ``OffsetCheckpointFile``,
``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from replica.ids import Epoch, EpochEntry, Offset, TopicPartition
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file

_VERSION = "0"
DIGITS_MAX = 19
"""So many has the largest number of 64 bits. Python refuses to read thousands of them, by an error of its own."""


def write_lines(files: Files, path: Path, lines: Iterable[str]) -> None:
    """Replace a checkpoint file, durably."""
    entries = list(lines)
    atomic_write(files, path, "".join(f"{line}\n" for line in [_VERSION, str(len(entries)), *entries]).encode())


def read_lines(files: Files, path: Path) -> list[str]:
    """The entries of a checkpoint file, in order; the first stands in line 3. CorruptCheckpointError if malformed."""
    try:
        lines = read_file(files, path).decode("ascii").split("\n")
    except FileNotFoundError:
        raise CorruptCheckpointError(path, "the file is missing") from None
    except UnicodeDecodeError:
        raise CorruptCheckpointError(path, "the file is not text") from None
    if lines.pop() != "":
        raise CorruptCheckpointError(path, "the last line does not end", line=len(lines) + 1)
    if len(lines) < 2:
        raise CorruptCheckpointError(path, "the version and the number of entries are missing", line=len(lines) + 1)
    if lines[0] != _VERSION:
        raise CorruptCheckpointError(path, f"version {lines[0]!r} is not {_VERSION}", line=1)
    expected = _number(path, 2, lines[1])
    entries = lines[2:]
    if len(entries) != expected:
        raise CorruptCheckpointError(path, f"expected {expected} entries but found {len(entries)}", line=2)
    return entries


def _number(path: Path, line: int, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX:
        raise CorruptCheckpointError(path, f"{text[:40]!r} is not a number of 0 or more", line=line)
    return int(text)


def _fields(path: Path, line: int, text: str, names: tuple[str, ...]) -> list[str]:
    fields = text.split(" ")
    if len(fields) != len(names):
        raise CorruptCheckpointError(path, f"{text!r} is not {' '.join(repr(name) for name in names)}", line=line)
    return fields


def write_epochs(files: Files, path: Path, entries: Iterable[EpochEntry]) -> None:
    """Replace ``leader-epoch-checkpoint``, durably."""
    write_lines(files, path, (f"{entry.epoch} {entry.start_offset}" for entry in entries))


def read_epochs(files: Files, path: Path) -> tuple[EpochEntry, ...]:
    """The entries of ``leader-epoch-checkpoint``; epochs and offsets must both grow from line to line."""
    entries: list[EpochEntry] = []
    for line, text in enumerate(read_lines(files, path), start=3):
        epoch, start_offset = _fields(path, line, text, ("epoch", "startOffset"))
        entries.append(EpochEntry(Epoch(_number(path, line, epoch)), Offset(_number(path, line, start_offset))))
    for line, (before, after) in enumerate(pairwise(entries), start=4):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            raise CorruptCheckpointError(path, f"{after} does not come after {before}", line=line)
    return tuple(entries)


def _read_offsets(files: Files, path: Path) -> dict[TopicPartition, Offset]:
    offsets: dict[TopicPartition, Offset] = {}
    for line, text in enumerate(read_lines(files, path), start=3):
        topic, partition, offset = _fields(path, line, text, ("topic", "partition", "offset"))
        topic_partition = TopicPartition(topic, _number(path, line, partition))
        if not topic or topic_partition in offsets:
            raise CorruptCheckpointError(path, f"log {topic_partition} is unnamed or named twice", line=line)
        offsets[topic_partition] = Offset(_number(path, line, offset))
    return offsets


class OffsetCheckpoint:
    """One offset per log of a data directory, kept in one file. Safe to share between the threads of several logs.

    Whatever is stored brings to the file what was only noted before: so a change that must be durable at once never
    waits for the others, and one write serves any number of notes.
    """

    def __init__(self, files: Files, path: Path, offsets: Mapping[TopicPartition, Offset]) -> None:
        self._files = files
        self._offsets = dict(offsets)
        self._stored = dict(offsets)
        self._lock = threading.Lock()
        self.path = path

    @classmethod
    def load(cls, files: Files, path: Path) -> OffsetCheckpoint:
        """Read the file; CorruptCheckpointError if it is missing or malformed."""
        return cls(files, path, _read_offsets(files, path))

    def get(self, topic_partition: TopicPartition) -> Offset | None:
        """The offset of one log, absent if none was ever stored."""
        with self._lock:
            return self._offsets.get(topic_partition)

    def topic_partitions(self) -> frozenset[TopicPartition]:
        """The logs that the file names."""
        with self._lock:
            return frozenset(self._offsets)

    def note(self, topic_partition: TopicPartition, offset: Offset | None) -> None:
        """Take the offset of one log, absent to forget it; durable once anything is stored, or ``store`` returns."""
        with self._lock:
            self._note(topic_partition, offset)

    def store(self) -> None:
        """Bring what was noted to the file, durable on return; nothing new costs nothing. May raise OSError."""
        with self._lock:
            self._store()

    def put(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Store the offset of one log, durable on return. May raise OSError."""
        with self._lock:
            self._note(topic_partition, offset)
            self._store()

    def lower(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Store ``offset`` where a larger one is known, durable on return. May raise OSError."""
        with self._lock:
            if self._offsets.get(topic_partition, offset) > offset:
                self._note(topic_partition, offset)
                self._store()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Forget one log, durable on return; one that is not known costs nothing. May raise OSError."""
        with self._lock:
            if topic_partition in self._offsets or topic_partition in self._stored:
                self._note(topic_partition, None)
                self._store()

    def put_all(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Store the offsets of these logs, durable on return. May raise OSError."""
        with self._lock:
            self._offsets |= offsets
            self._store()

    def _note(self, topic_partition: TopicPartition, offset: Offset | None) -> None:
        if offset is None:
            self._offsets.pop(topic_partition, None)
        else:
            self._offsets[topic_partition] = offset

    def _store(self) -> None:
        if self._offsets == self._stored:
            return
        lines = (f"{log.topic} {log.partition} {offset}" for log, offset in sorted(self._offsets.items()))
        write_lines(self._files, self.path, lines)
        self._stored = dict(self._offsets)
