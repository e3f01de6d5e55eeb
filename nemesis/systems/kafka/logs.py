"""What a broker has on its disk: its logs, how far it knows them to be committed, and whom it follows in the quorum.

Owns the reading of Kafka's files. A broker that runs may be writing: what is not yet a whole batch at the end of a log
is not there yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nemesis.cluster.control import dumped_batch
from nemesis.cluster.system import Dump
from nemesis.history.record_batches import DamagedError, RecordBatch, batches_in

HIGH_WATERMARKS = "replication-offset-checkpoint"
QUORUM_STATE = Path("__cluster_metadata-0") / "quorum-state"
HEADER_LINES = 2
"""A checkpoint begins with its version and the number of its entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumWord:
    """Whom a node takes for the active controller, and in which epoch."""

    leader: int
    epoch: int


def read_dump(data: Path, node: int, topic_partition: str) -> Dump:
    """A whole log. ``complete`` says that nothing but whole batches is in its files."""
    batches, damage = _read_batches(data / topic_partition)
    start = _first_offset(data / topic_partition)
    end = batches[-1].last_offset + 1 if batches else start
    return Dump(
        node=node,
        topic_partition=topic_partition,
        batches=tuple(dumped_batch(batch, has_values=True) for batch in batches),
        high_watermark=high_watermarks(data).get(topic_partition),
        log_start_offset=start,
        log_end_offset=end,
        complete=damage is None,
    )


class LogEnds:
    """Where logs end, asked again and again while they grow: of each only what is new is read.

    A log may be cut back and grow again: what was the last batch must still stand where it stood, or all is read.
    """

    def __init__(self) -> None:
        self._last: dict[Path, tuple[int, bytes]] = {}

    def of(self, data: Path, topic_partition: str) -> int:
        """The end of one log."""
        segments = _segments(data / topic_partition)
        if not segments:
            return 0
        path = segments[-1]
        with path.open("rb") as segment:
            position, known = self._last.get(path, (0, b""))
            segment.seek(position)
            if not (fresh := segment.read()).startswith(known):
                position, _ = 0, segment.seek(0)
                fresh = segment.read()
        end = int(path.stem)
        with suppress(DamagedError):
            for batch in batches_in(fresh):
                end = batch.last_offset + 1
                self._last[path] = position, batch.data
                position += len(batch.data)
        return end


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def _first_offset(folder: Path) -> int:
    segments = _segments(folder)
    return int(segments[0].stem) if segments else 0


def _read_batches(folder: Path) -> tuple[list[RecordBatch], str | None]:
    """The batches up to the first that is none, and why that is none."""
    batches: list[RecordBatch] = []
    try:
        for batch in _scan(folder):
            batches.append(batch)
    except DamagedError as error:
        return batches, str(error)
    return batches, None


def _scan(folder: Path) -> Iterator[RecordBatch]:
    for segment in _segments(folder):
        yield from batches_in(segment.read_bytes())


def high_watermarks(data: Path) -> dict[str, int]:
    """By topic-partition, as the broker has last written them down."""
    try:
        lines = (data / HIGH_WATERMARKS).read_text(encoding="utf-8").splitlines()[HEADER_LINES:]
        entries = [line.split() for line in lines]
        return {f"{topic}-{partition}": int(offset) for topic, partition, offset in entries}
    except (OSError, ValueError):
        return {}


def quorum_word(data: Path) -> QuorumWord | None:
    """What a node has last written down about the quorum; absent where it knows no leader."""
    try:
        told = json.loads((data / QUORUM_STATE).read_text(encoding="utf-8"))
        word = QuorumWord(leader=int(told["leaderId"]), epoch=int(told["leaderEpoch"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return word if word.leader >= 0 else None
