"""What a replica writes to its log, read back as reports of the run.

Owns the names of the lines that matter and what they become: ``role_changed`` -> became-leader and so on,
``log_truncated`` -> truncated, ``isr_shrunk`` -> isr-shrunk, ``voters_changed`` -> voters-changed of the leader and
voters-learned of the others, ``partition_offline`` -> offline. Each is about one log: a topic-partition, or that of the
metadata, where whoever becomes the leader is the controller. The lines are JSON, one object each; whatever is none (an
interpreter's last words) is passed over. Reads files only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemesis.cluster.system import Report
from nemesis.errors import NodeFailedError
from nemesis.history import LAST_KNOWN_LEADER_ELECTED, OFFLINE, UNCLEAN_ELECTION, VOTERS_CHANGED, VOTERS_LEARNED

LEADER = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineKind:
    """What becomes of one kind of line: an event, with the field that is its offset, and those that are its detail."""

    event: str
    detail: tuple[str, ...]
    offset: str | None = None
    has_epoch: bool = False


_ROLE = ("leader_id", "log_end_offset", "isr")
_LIFE = ("reason", "address")
_ISR = ("isr", "left", "joined")
_SNAPSHOT = ("end_offset", "epoch", "size_bytes")
_CUT = ("from_offset", "end_offset", "leader_id")
_ELECTION = ("leader_id", "replicas", "isr", "elr", "last_known_leader")

KINDS = {
    "log_truncated": LineKind(event="truncated", offset="end_offset", has_epoch=True, detail=_CUT),
    "isr_shrunk": LineKind(event="isr-shrunk", has_epoch=True, detail=_ISR),
    "isr_expanded": LineKind(event="isr-expanded", has_epoch=True, detail=_ISR),
    # A replica began anew at a snapshot of a state machine, or has kept one.
    "snapshot_installed": LineKind(event="snapshot-installed", offset="end_offset", detail=_SNAPSHOT),
    "snapshot_stored": LineKind(event="snapshot-stored", offset="end_offset", detail=_SNAPSHOT),
    # The active controller tells of partitions that lost their leader.
    "partition_offline": LineKind(event=OFFLINE, has_epoch=True, detail=_ELECTION),
    "unclean_election": LineKind(event=UNCLEAN_ELECTION, has_epoch=True, detail=_ELECTION),
    "last_known_leader_elected": LineKind(event=LAST_KNOWN_LEADER_ELECTED, has_epoch=True, detail=_ELECTION),
    "started": LineKind(event="started", detail=_LIFE),
    "stopping": LineKind(event="stopped", detail=_LIFE),
    "halted": LineKind(event="halted", detail=_LIFE),
    "start_refused": LineKind(event="halted", detail=_LIFE),
}
"""The lines that matter, but for those of which another field says what they are."""


class ReportLog:
    """The reports in one node's log file, which is read on from where reading has ended each time."""

    def __init__(self, path: Path, node: int) -> None:
        self._path = path
        self._node = node
        self._read_bytes = 0
        self._found: list[Report] = []

    def reports(self) -> Sequence[Report]:
        """All so far, in the order of their lines; none when there is no such file. A line counts when it is whole."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read_bytes)
            whole, end, _ = file.read().rpartition(b"\n")
            self._read_bytes += len(whole) + len(end)
            reports = (report_of(line, self._node) for line in _parsed(whole.splitlines()))
            self._found += [report for report in reports if report is not None]
        return self._found


def log_lines(path: Path, *, skip_bytes: int = 0) -> Iterator[dict[str, Any]]:
    """The lines of a log file, behind its first ``skip_bytes``, that are JSON objects."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        lines.seek(skip_bytes)
        yield from _parsed(lines)


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for text in lines:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def check_clock(node: int, line: Mapping[str, Any], *, since_ns: int, now_ns: int) -> None:
    """A line that was written between these times must say so. Raises NodeFailedError for another clock than ours.

    The monotonic clock is one for the processes of a machine, unless one of them is in a time namespace of its own; and
    without it nobody could say whether a replica did something before or after what the harness saw of it.
    """
    monotonic_ns = line.get("monotonic_ns")
    if not isinstance(monotonic_ns, int) or not since_ns <= monotonic_ns <= now_ns:
        raise NodeFailedError(
            f"replica {node} says that it started at {monotonic_ns} ns of the monotonic clock, and the harness saw that"
            f" between {since_ns} and {now_ns}: they must be on one machine, and in one time namespace"
        )


def report_of(line: dict[str, Any], node: int) -> Report | None:
    """What a line reports; nothing for one that does not matter to a run."""
    monotonic_ns, event = line.get("monotonic_ns"), line.get("event")
    if not isinstance(monotonic_ns, int) or not isinstance(event, str):
        return None
    kind = _kind(event, line)
    if kind is None:
        return None
    return Report(
        node=node,
        monotonic_ns=monotonic_ns,
        event=kind.event,
        epoch=line.get("epoch") if kind.has_epoch else None,
        offset=None if kind.offset is None else line.get(kind.offset),
        topic_partition=line.get("log"),
        detail=_detail(line, *kind.detail),
    )


def _kind(event: str, line: dict[str, Any]) -> LineKind | None:
    match event:
        case "role_changed":
            return LineKind(event=f"became-{line['role']}", has_epoch=True, detail=_ROLE)
        case "voters_changed":
            told = VOTERS_CHANGED if line.get("role") == LEADER else VOTERS_LEARNED
            return LineKind(event=told, has_epoch=True, offset="offset", detail=("voters",))
        case _:
            return KINDS.get(event)


def _detail(line: dict[str, Any], *names: str) -> str | None:
    found = {name: line[name] for name in names if line.get(name) is not None}
    return json.dumps(found) if found else None
