"""What a replica writes to its log, read back as reports of the run.

Owns the names of the lines that matter and what they become: ``role_changed`` -> became-leader and so on,
``log_truncated`` -> truncated, ``isr_shrunk`` -> isr-shrunk, ``partition_offline`` -> offline. Each is about one log: a
topic-partition, or that of the metadata, where whoever becomes the leader is the controller. The lines are JSON, one
object each; whatever is none (an interpreter's last words) is passed over. Reads files only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemesis.cluster.system import Report
from nemesis.history import LAST_KNOWN_LEADER_ELECTED, OFFLINE, UNCLEAN_ELECTION

LIFE = {"started": "started", "stopping": "stopped", "halted": "halted", "start_refused": "halted"}
SNAPSHOTS = {"snapshot_installed": "snapshot-installed", "snapshot_stored": "snapshot-stored"}
"""What a replica tells of the snapshots of a state machine: it began anew at one, or it has kept one."""
ELECTIONS = {
    "partition_offline": OFFLINE,
    "unclean_election": UNCLEAN_ELECTION,
    "last_known_leader_elected": LAST_KNOWN_LEADER_ELECTED,
}
"""What the active controller tells of partitions that lost their leader."""


def read_reports(path: Path, node: int) -> Iterator[Report]:
    """The reports in one node's log file, in the order of its lines; none when there is no such file."""
    for line in log_lines(path):
        report = report_of(line, node)
        if report is not None:
            yield report


def log_lines(path: Path, *, skip_bytes: int = 0) -> Iterator[dict[str, Any]]:
    """The lines of a log file, behind its first ``skip_bytes``, that are JSON objects."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        lines.seek(skip_bytes)
        for text in lines:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def report_of(line: dict[str, Any], node: int) -> Report | None:
    """What a line reports; nothing for one that does not matter to a run."""
    wall_ns, event = line.get("time_ns"), line.get("event")
    if not isinstance(wall_ns, int):
        return None
    match event:
        case "role_changed":
            return Report(
                node=node,
                wall_ns=wall_ns,
                event=f"became-{line['role']}",
                epoch=line.get("epoch"),
                topic_partition=line.get("log"),
                detail=_detail(line, "leader_id", "log_end_offset"),
            )
        case "log_truncated":
            return Report(
                node=node,
                wall_ns=wall_ns,
                event="truncated",
                offset=line.get("end_offset"),
                topic_partition=line.get("log"),
                detail=_detail(line, "from_offset", "end_offset"),
            )
        case "isr_shrunk" | "isr_expanded":
            return Report(
                node=node,
                wall_ns=wall_ns,
                event=event.replace("_", "-"),
                epoch=line.get("epoch"),
                topic_partition=line.get("log"),
                detail=_detail(line, "isr", "left", "joined"),
            )
        case str() if event in SNAPSHOTS:
            return Report(
                node=node,
                wall_ns=wall_ns,
                event=SNAPSHOTS[event],
                offset=line.get("end_offset"),
                topic_partition=line.get("log"),
                detail=_detail(line, "end_offset", "epoch", "size_bytes"),
            )
        case str() if event in ELECTIONS:
            return Report(
                node=node,
                wall_ns=wall_ns,
                event=ELECTIONS[event],
                epoch=line.get("epoch"),
                topic_partition=line.get("log"),
                detail=_detail(line, "leader_id", "replicas", "isr", "elr", "last_known_leader"),
            )
        case str() if event in LIFE:
            return Report(node=node, wall_ns=wall_ns, event=LIFE[event], detail=_detail(line, "reason", "address"))
        case _:
            return None


def _detail(line: dict[str, Any], *names: str) -> str | None:
    found = {name: line[name] for name in names if line.get(name) is not None}
    return json.dumps(found) if found else None
