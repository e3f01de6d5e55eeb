"""A run as a trace that Perfetto shows: clients, faults, leaderships, and a process for each replica.

Owns what becomes a track. Clients and what a replica is to a log are slices of threads, which never overlap; faults,
which may, are asynchronous; a high watermark is a counter; whatever else a replica has told is an instant.
Source: the Trace Event Format, which Perfetto and ``chrome://tracing`` read. Its times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nemesis.faults.look import KILLED
from nemesis.history.events import (
    BECAME_LEADER,
    FINAL_ISR,
    HARNESS_PROCESS,
    HIGH_WATERMARK,
    NEMESIS_PROCESS,
    OFFLINE,
    STARTED,
)
from nemesis.history.operations import extent_ns, operations_of
from nemesis.report.folder import read_run_files
from nemesis.report.operations import NS_PER_SECOND
from nemesis.report.timeline import LIFE_EVENTS, ROLE_PREFIX, parsed, read_timeline
from nemesis.report.values import Fault, Timeline

Event = dict[str, Any]

US_PER_SECOND = 1_000_000
CLIENTS, FAULTS, ELECTIONS, FIRST_REPLICA = 1, 2, 3, 100
"""The process ids of the trace; a replica's is its own id above the last of them."""
ROWS_AT_ONCE = 10_000
PROCESS, LOG = "process", "log"
"""The threads of a replica for what is of no log, and for its role in a log that has no name."""


def export_trace(folder: Path, target: Path) -> int:
    """Write the run in ``folder`` as a trace to the file ``target``; returns the number of its events."""
    files = read_run_files(folder)
    origin_ns, end_ns = extent_ns(files.history, files.events)
    timeline = read_timeline(files.history, files.events, origin_ns)
    end_s = (end_ns - origin_ns) / NS_PER_SECOND
    count = 0
    with target.open("w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit":"ms","traceEvents":[')
        for event in trace_events(operations_of(files.history, origin_ns), files.events, timeline, origin_ns, end_s):
            out.write(("\n" if count == 0 else ",\n") + json.dumps(event, separators=(",", ":")))
            count += 1
        out.write("\n]}\n")
    return count


def trace_events(
    operations: pa.Table, events: pa.Table, timeline: Timeline, origin_ns: int, end_s: float
) -> Iterator[Event]:
    """All events: ``operations`` has the columns of ``OPERATIONS_SCHEMA``, ``events`` of ``REPLICA_EVENT_SCHEMA``."""
    told = [
        row | {"time_s": (row["time_ns"] - origin_ns) / NS_PER_SECOND, "told": parsed(row["detail"])}
        for row in events.sort_by("time_ns").to_pylist()
        if row["replica_id"] >= 0
    ]
    replicas = sorted({row["replica_id"] for row in told} | set(timeline.replicas))
    named = {CLIENTS: "clients", FAULTS: "faults", ELECTIONS: "leaders"}
    named |= {FIRST_REPLICA + replica_id: f"replica {replica_id}" for replica_id in replicas}
    for pid, name in named.items():
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    yield from _clients(operations, end_s)
    yield from _faults(timeline, end_s)
    yield from _elections(told, end_s)
    for replica_id in replicas:
        own = [row for row in told if row["replica_id"] == replica_id]
        yield from _Replica(replica_id, timeline.faults, end_s).events(own)


@dataclass(slots=True)
class _Threads:
    """The threads of one process of the trace by name, each told of when it is first used."""

    pid: int
    ids: dict[str, int] = field(default_factory=dict)

    def named(self, name: str) -> tuple[int, list[Event]]:
        """The id of a thread, and what tells of it if nothing has yet."""
        if name in self.ids:
            return self.ids[name], []
        tid = self.ids[name] = len(self.ids) + 1
        place: Event = {"ph": "M", "pid": self.pid, "tid": tid}
        return tid, [
            place | {"name": "thread_name", "args": {"name": name}},
            place | {"name": "thread_sort_index", "args": {"sort_index": tid}},
        ]

    def slice(self, thread: str, name: str, start_s: float, end_s: float, args: Mapping[str, Any]) -> Iterator[Event]:
        """Something that lasted."""
        tid, told = self.named(thread)
        yield from told
        times = {"ts": _us(start_s), "dur": max(_us(end_s) - _us(start_s), 0)}
        yield {"ph": "X", "pid": self.pid, "tid": tid, "name": name, **times, "args": dict(args)}

    def instant(self, thread: str, name: str, time_s: float, args: Mapping[str, Any]) -> Iterator[Event]:
        """Something that happened."""
        tid, told = self.named(thread)
        yield from told
        yield {"ph": "i", "pid": self.pid, "tid": tid, "name": name, "s": "t", "ts": _us(time_s), "args": dict(args)}


def _us(time_s: float) -> float:
    return round(time_s * US_PER_SECOND, 3)


# --- clients ----------------------------------------------------------------------------------------------------------


def _clients(operations: pa.Table, end_s: float) -> Iterator[Event]:
    """A thread for each process; a second one where something begins before the last thing has returned."""
    threads = _Threads(CLIENTS)
    busy_until: dict[int, list[float]] = {}
    for batch in operations.to_batches(max_chunksize=ROWS_AT_ONCE):
        for row in batch.to_pylist():
            if row["process"] == NEMESIS_PROCESS:
                continue
            start_s = row["time"]
            until_s = end_s if row["duration_ms"] is None else start_s + row["duration_ms"] / 1000
            lanes = busy_until.setdefault(row["process"], [])
            lane = next((k for k, busy_s in enumerate(lanes) if busy_s <= start_s), len(lanes))
            lanes[lane:] = [until_s, *lanes[lane + 1 :]]
            name = row["function"] if row["outcome"] == "ok" else f"{row['function']} ({row['outcome']})"
            yield from threads.slice(_thread_name(row["process"], lane), name, start_s, until_s, _shown(row))


def _thread_name(process: int, lane: int) -> str:
    who = "harness" if process == HARNESS_PROCESS else f"process {process}"
    return who if lane == 0 else f"{who}, beside it ({lane})"


def _shown(row: Mapping[str, Any]) -> Event:
    names = ("index", "key", "value", "offset", "outcome", "epoch", "node", "error", "detail")
    shown: Event = {name: row[name] for name in names if row[name] is not None}
    if row["records"] is not None:
        shown["records"] = len(row["records"])
        if row["records"]:
            shown |= {"first_offset": row["records"][0]["offset"], "last_offset": row["records"][-1]["offset"]}
    return shown


# --- faults and leaders -----------------------------------------------------------------------------------------------


def _faults(timeline: Timeline, end_s: float) -> Iterator[Event]:
    """Each fault among all faults, and with each replica that it struck."""
    number = 0
    for fault in timeline.faults:
        args = {"target": fault.target, "replicas": list(fault.replicas)}
        for pid in (FAULTS, *(FIRST_REPLICA + replica_id for replica_id in fault.replicas)):
            number += 1
            common: Event = {"pid": pid, "tid": 0, "cat": "fault", "id": number, "name": fault.name}
            yield {"ph": "b", "ts": _us(fault.start_s), **common, "args": args}
            yield {"ph": "e", "ts": _us(end_s if fault.end_s is None else fault.end_s), **common}
    threads = _Threads(FAULTS)
    for refusal in timeline.refusals:
        args = {"reason": refusal.reason}
        yield from threads.instant("did not strike", refusal.name, refusal.time_s, args)


def _elections(told: list[Event], end_s: float) -> Iterator[Event]:
    """Who led each log last, from one election to the next; an elder leader that goes on shows with its replica."""
    threads = _Threads(ELECTIONS)
    logs = sorted({row["topic_partition"] for row in told if row["event"] == BECAME_LEADER and row["topic_partition"]})
    for log in logs:
        own = [row for row in told if row["topic_partition"] == log and row["event"] in (BECAME_LEADER, OFFLINE)]
        for row, until_s in zip(own, [*(later["time_s"] for later in own[1:]), end_s], strict=True):
            name = "no leader" if row["event"] == OFFLINE else f"replica {row['replica_id']}, epoch {row['epoch']}"
            yield from threads.slice(log, name, row["time_s"], until_s, _args(row))


# --- replicas ---------------------------------------------------------------------------------------------------------


class _Replica:
    """The tracks of one replica: its process, its role in each log, and how far it knew each to be committed."""

    def __init__(self, replica_id: int, faults: tuple[Fault, ...], end_s: float) -> None:
        self._threads = _Threads(FIRST_REPLICA + replica_id)
        self._deaths_s = [fault.start_s for fault in faults if fault.look is KILLED and replica_id in fault.replicas]
        self._end_s = end_s

    def events(self, told: list[Event]) -> Iterator[Event]:
        """All that it has told, in order of time."""
        for position, row in enumerate(told):
            log = row["topic_partition"] or (LOG if _is_role(row) else PROCESS)
            if row["event"] == HIGH_WATERMARK:
                name, args = f"high watermark {log}", {"offset": row["offset"]}
                yield {"ph": "C", "pid": self._threads.pid, "name": name, "ts": _us(row["time_s"]), "args": args}
            elif row["event"] == STARTED:
                until_s = self._until(row, told[position + 1 :])
                yield from self._threads.slice(PROCESS, "runs", row["time_s"], until_s, _args(row))
            elif _is_role(row):
                until_s = self._until(row, told[position + 1 :])
                yield from self._threads.slice(log, _role(row), row["time_s"], until_s, _args(row))
            elif row["event"] != FINAL_ISR:
                at = "" if row["offset"] is None else f" at {row['offset']}"
                yield from self._threads.instant(log, f"{row['event']}{at}", row["time_s"], _args(row))

    def _until(self, row: Event, later: list[Event]) -> float:
        """The end of what began with ``row``: of the process, of the role where it has another one, or of the run."""
        found = [self._end_s, *(death_s for death_s in self._deaths_s if death_s >= row["time_s"])]
        for one in later:
            is_role = _is_role(row) and _is_role(one) and one["topic_partition"] == row["topic_partition"]
            if is_role or one["event"] in LIFE_EVENTS:
                found.append(one["time_s"])
                break
        return float(min(found))


def _is_role(row: Mapping[str, Any]) -> bool:
    return bool(row["event"].startswith(ROLE_PREFIX))


def _role(row: Mapping[str, Any]) -> str:
    leader_id = row["told"].get("leader_id") if isinstance(row["told"], dict) else None
    role = row["event"].removeprefix(ROLE_PREFIX)
    of = f" of {leader_id}" if role == "follower" and leader_id is not None else ""
    return f"{role}{of}" if row["epoch"] is None else f"{role}{of}, epoch {row['epoch']}"


def _args(row: Mapping[str, Any]) -> Event:
    shown: Event = {name: row[name] for name in ("epoch", "offset") if row[name] is not None}
    return shown | (row["told"] if isinstance(row["told"], dict) else {})
