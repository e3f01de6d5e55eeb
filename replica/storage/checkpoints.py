"""Kafka's checkpoint files: small text files that are replaced whole.

Owns their format: line 1 a version (``0``), line 2 the number of entries, then one entry a line. A file with another
version, another count or a malformed line is refused by name, never half believed: a recovery point read too low cuts
flushed data, an epoch missed lets logs diverge. Source: Kafka's ``CheckpointFile``, ``OffsetCheckpointFile``,
``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Generic, Self, TypeVar

from replica.ids import Epoch, EpochEntry, Offset, TopicPartition
from replica.storage.errors import CorruptCheckpointError, StorageError
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


_ValueT = TypeVar("_ValueT")


def _read_values(
    files: Files, path: Path, what: str, value_of: Callable[[Path, int, str], _ValueT]
) -> dict[TopicPartition, _ValueT]:
    values: dict[TopicPartition, _ValueT] = {}
    for line, text in enumerate(read_lines(files, path), start=3):
        topic, partition, value = _fields(path, line, text, ("topic", "partition", what))
        topic_partition = TopicPartition(topic, _number(path, line, partition))
        if not topic or topic_partition in values:
            raise CorruptCheckpointError(path, f"log {topic_partition} is unnamed or named twice", line=line)
        values[topic_partition] = value_of(path, line, value)
    return values


class LogCheckpoint(Generic[_ValueT]):
    """One value per log of a data directory, kept in one file. Safe to share between the threads of several logs.

    Whatever is stored brings to the file what was only noted before: so a change that must be durable at once never
    waits for the others, and one write serves any number of notes. Whatever stores may raise StorageError: the file
    is in the data directory, wherever the log is that it is about.
    """

    def __init__(self, files: Files, path: Path, values: Mapping[TopicPartition, _ValueT]) -> None:
        self._files = files
        self._values = dict(values)
        self._stored = dict(values)
        self._lock = threading.Lock()
        self.path = path

    def get(self, topic_partition: TopicPartition) -> _ValueT | None:
        """The value of one log, absent if none was ever stored."""
        with self._lock:
            return self._values.get(topic_partition)

    def topic_partitions(self) -> frozenset[TopicPartition]:
        """The logs that the file names."""
        with self._lock:
            return frozenset(self._values)

    def note(self, topic_partition: TopicPartition, value: _ValueT | None) -> None:
        """Take the value of one log, absent to forget it; durable once anything is stored, or ``store`` returns."""
        with self._lock:
            self._note(topic_partition, value)

    def store(self) -> None:
        """Bring what was noted to the file, durable on return; nothing new costs nothing."""
        with self._lock:
            self._store()

    def put(self, topic_partition: TopicPartition, value: _ValueT) -> None:
        """Store the value of one log, durable on return."""
        with self._lock:
            self._note(topic_partition, value)
            self._store()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Forget one log, durable on return; one that is not known costs nothing."""
        with self._lock:
            if topic_partition in self._values or topic_partition in self._stored:
                self._note(topic_partition, None)
                self._store()

    def put_all(self, values: Mapping[TopicPartition, _ValueT]) -> None:
        """Store the values of these logs, durable on return."""
        with self._lock:
            self._values |= values
            self._store()

    def _note(self, topic_partition: TopicPartition, value: _ValueT | None) -> None:
        if value is None:
            self._values.pop(topic_partition, None)
        else:
            self._values[topic_partition] = value

    def _store(self) -> None:
        if self._values == self._stored:
            return
        lines = (f"{log.topic} {log.partition} {value}" for log, value in sorted(self._values.items()))
        try:
            write_lines(self._files, self.path, lines)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error
        self._stored = dict(self._values)


class OffsetCheckpoint(LogCheckpoint[Offset]):
    """One offset per log."""

    @classmethod
    def load(cls, files: Files, path: Path) -> Self:
        """Read the file; CorruptCheckpointError if it is missing or malformed."""
        return cls(files, path, _read_values(files, path, "offset", _offset))

    def lower(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Store ``offset`` where a larger one is known, durable on return."""
        with self._lock:
            if self._values.get(topic_partition, offset) > offset:
                self._note(topic_partition, offset)
                self._store()


def _offset(path: Path, line: int, text: str) -> Offset:
    return Offset(_number(path, line, text))


class PlacesCheckpoint(LogCheckpoint[str]):
    """In which log directory each log lies, by the directory's id; those of the data directory are not named."""

    @classmethod
    def load(cls, files: Files, path: Path) -> Self:
        """Read the file, which is there once a log lies elsewhere. CorruptCheckpointError if it is malformed."""
        if not files.exists(path):
            return cls(files, path, {})
        return cls(files, path, _read_values(files, path, "directoryId", lambda _path, _line, text: text))
