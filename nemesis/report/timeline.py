"""What befell the cluster and when: faults, leaderships, elections and truncations.

Owns the reading of the nemesis's rows of the history and of the replicas' events into intervals and marks. Does not
know the client's operations or how anything is drawn.

Partitions that nobody led, and leaders that were not known to hold everything, as the controller told of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.replica_events import replica_ids
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.look import KILLED, Look
from nemesis.faults.rolling import RESTART
from nemesis.history.events import (
    BECAME_LEADER,
    FINAL_ISR,
    HIGH_WATERMARK,
    KILLED_FROM_OUTSIDE,
    LAST_KNOWN_LEADER_ELECTED,
    METADATA_LOG,
    NEMESIS_PROCESS,
    OFFLINE,
    UNCLEAN_ELECTION,
)
from nemesis.report.evidence import worded
from nemesis.report.operations import NS_PER_SECOND
from nemesis.report.values import Fault, Leadership, Mark, MarkKind, Offline, Refusal, Timeline, UncleanElection

FAULTS_MAX = 400
MARKS_MAX = 400
"""So many faults and marks are drawn; the page says when there were more."""


def _first(name: str) -> str:
    return name.replace("_", "-").split("-")[0]


BEGINS: Mapping[str, Look] = {_first(name): fault.look for fault in FAULTS.values() for name in fault.names()}
"""By the first word of what is done, how it looks."""
ENDS: Mapping[str, Look] = {_first(fault.healer): fault.look for fault in FAULTS.values()} | {_first(RESTART): KILLED}
"""The same of what undoes it."""
TRUNCATED = "truncated"
MARKED: Mapping[str, MarkKind] = {
    BECAME_LEADER: MarkKind.ELECTION,
    TRUNCATED: MarkKind.TRUNCATION,
    "isr-shrunk": MarkKind.ISR_SHRINK,
}
"""The events that are drawn as marks."""
ROLE_PREFIX = "became-"
LIFE_EVENTS = frozenset({"started", "stopped", "halted", "halted-by-disk", "killed-by-memory", KILLED_FROM_OUTSIDE})
TARGET_KEYS = ("replica_id", "replica_ids", "replicas", "targets", "target", "nodes", "node")
"""Where the detail of a nemesis operation names the replicas it acted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    time_s: float
    type: str
    f: str
    node: int | None
    detail: Any
    error: str | None

    @property
    def fault_id(self) -> int | None:
        """The fault that it is about, where the history numbers them."""
        return self.detail.get("fault_id") if isinstance(self.detail, dict) else None


def read_timeline(history: pa.Table, events: pa.Table, origin_ns: int) -> Timeline:
    """Faults from the history, leaderships and marks from the events, both in order of time."""
    faults, refusals = _faults(_nemesis_rows(history, origin_ns))
    looks = pa.array([HIGH_WATERMARK, FINAL_ISR])
    happened = event_rows(events.filter(pc.invert(pc.is_in(events.column("event"), looks))), origin_ns)
    unclean = unclean_elections(happened)
    marked = {(election.log, election.epoch) for election in unclean if election.kind == KINDS[UNCLEAN_ELECTION]}
    marks = tuple(mark for event in happened if (mark := _mark(event, marked)) is not None)
    leaderships = _leaderships(happened, faults)
    seen = {replica for fault in faults for replica in fault.replicas}
    seen.update(event["replica_id"] for event in happened if event["replica_id"] is not None)
    return Timeline(
        replicas=tuple(sorted(seen)),
        faults=faults,
        refusals=refusals,
        leaderships=leaderships,
        marks=marks,
        offline=offline_partitions(happened),
        unclean_elections=unclean,
    )


def _nemesis_rows(history: pa.Table, origin_ns: int) -> list[_Row]:
    columns = history.select(["process", "time_ns", "type", "f", "node", "detail", "error"])
    rows = columns.filter(pc.equal(columns.column("process"), NEMESIS_PROCESS)).to_pylist()
    return [
        _Row(
            time_s=(row["time_ns"] - origin_ns) / NS_PER_SECOND,
            type=row["type"],
            f=row["f"],
            node=row["node"],
            detail=parsed(row["detail"]),
            error=row["error"],
        )
        for row in rows
    ]


def parsed(text: Any) -> Any:
    """The JSON document in ``text``, or ``text`` itself when it holds none."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _faults(rows: Iterable[_Row]) -> tuple[tuple[Fault, ...], tuple[Refusal, ...]]:
    """Pair each injection with its healing; what was never healed stays open. Beside them those that did not strike.

    They are paired by number, and without numbers by kind and replicas. An injection counts from its invocation, a
    healing to its completion: in between the fault may have bitten.
    """
    invoked: dict[str, _Row] = {}
    faults: list[Fault] = []
    refusals: list[Refusal] = []
    for row in rows:
        if row.type == "invoke":
            invoked[row.f] = row
            continue
        began = invoked.pop(row.f, row)
        if row.type != "fail":
            _apply(faults, began, row)
        elif look_of(row.f, BEGINS) is not None:
            refusals.append(Refusal(name=row.f, time_s=began.time_s, reason=row.error or ""))
    for row in invoked.values():
        if look_of(row.f, BEGINS) is not None:
            _apply(faults, row, row)
    return tuple(sorted(faults, key=lambda fault: fault.start_s)), tuple(refusals)


def _apply(faults: list[Fault], began: _Row, row: _Row) -> None:
    begins, ends = look_of(row.f, BEGINS), look_of(row.f, ENDS)
    replicas = _targets(row) or _targets(began)
    if begins is not None:
        faults.append(
            Fault(
                look=begins,
                fault_id=row.fault_id,
                name=row.f,
                target=_described(row) or _described(began),
                replicas=replicas,
                start_s=began.time_s,
                end_s=None,
            )
        )
    elif ends is not None:
        for position, fault in enumerate(faults):
            if fault.end_s is None and _ends(row, ends, replicas, fault):
                faults[position] = replace(fault, end_s=row.time_s)


def _ends(row: _Row, look: Look, replicas: tuple[int, ...], fault: Fault) -> bool:
    """Whether a healing is that of a fault: by number, or of the same kind and of all its replicas."""
    if row.fault_id is not None and fault.fault_id is not None:
        return row.fault_id == fault.fault_id
    return fault.look is look and (not replicas or not fault.replicas or set(fault.replicas) <= set(replicas))


def look_of(f: str, table: Mapping[str, Look]) -> Look | None:
    """The look of the nemesis operation ``f``: its first word decides, so ``partition-halves`` is a partition."""
    return table.get(_first(f))


def _targets(row: _Row) -> tuple[int, ...]:
    return _ids(row.detail) or _ids(row.node)


def _ids(source: Any) -> tuple[int, ...]:
    """The replica ids in a piece of detail: a number, a list, or an object with one of ``TARGET_KEYS``."""
    match source:
        case bool():
            return ()
        case int():
            return (source,)
        case str() if source.isdigit():
            return (int(source),)
        case list():
            return tuple(sorted({found for entry in source for found in _ids(entry)}))
        case dict():
            return next((_ids(source[key]) for key in TARGET_KEYS if _ids(source.get(key))), ())
        case _:
            return ()


def _described(row: _Row) -> str:
    if row.detail in (None, "", [], {}):
        return ""
    return worded(row.detail)


def event_rows(events: pa.Table, origin_ns: int) -> list[dict[str, Any]]:
    """The replicas' events in order of time, with ``time_s`` and ``told``, the detail as an object."""
    names = ["time_ns", "replica_id", "event", "epoch", "offset", "topic_partition", "detail"]
    columns = events.select(names).sort_by("time_ns")
    return [
        row | {"time_s": (row["time_ns"] - origin_ns) / NS_PER_SECOND, "told": _told(row["detail"])}
        for row in columns.to_pylist()
    ]


def _told(detail: str | None) -> Mapping[str, Any]:
    """The detail of an event as an object; an empty one where it is none."""
    told = parsed(detail)
    return told if isinstance(told, dict) else {}


def _mark(event: Mapping[str, Any], unclean: Collection[tuple[str, int]]) -> Mark | None:
    kind = MARKED.get(event["event"])
    if kind is None:
        return None
    if kind is MarkKind.ELECTION and event["topic_partition"] == METADATA_LOG:
        kind = MarkKind.CONTROLLER
    if kind is MarkKind.ELECTION and (event["topic_partition"], event["epoch"]) in unclean:
        kind = MarkKind.UNCLEAN
    return Mark(
        kind=kind,
        log=event["topic_partition"],
        time_s=event["time_s"],
        replica_id=event["replica_id"],
        epoch=event["epoch"],
        offset=event["offset"],
    )


def _ends_reign(event: str) -> bool:
    return event.startswith(ROLE_PREFIX) or event in LIFE_EVENTS


def _leaderships(events: Sequence[Mapping[str, Any]], faults: Sequence[Fault]) -> tuple[Leadership, ...]:
    """Each leader's reign of each log: until its own next change of role, its death, or the end of the run.

    Another leader's election does not end it: two at once, the elder one cut off, is what a partition looks like.
    """
    reigns: list[Leadership] = []
    going: dict[tuple[int, str | None], int] = {}
    for event in events:
        replica_id, log, time_s = event["replica_id"], event["topic_partition"], event["time_s"]
        if not _ends_reign(event["event"]):
            continue
        for key in [key for key in going if key[0] == replica_id and log in (None, key[1])]:
            at = going.pop(key)
            reigns[at] = replace(reigns[at], end_s=time_s)
        if event["event"] == BECAME_LEADER:
            going[replica_id, log] = len(reigns)
            reigns.append(
                Leadership(log=log, replica_id=replica_id, epoch=event["epoch"] or 0, start_s=time_s, end_s=None)
            )
    return tuple(_until_killed(reign, faults) for reign in reigns)


def _until_killed(reign: Leadership, faults: Sequence[Fault]) -> Leadership:
    kills = (fault.start_s for fault in faults if fault.look is KILLED and reign.replica_id in fault.replicas)
    ends = [*(at for at in kills if at >= reign.start_s), *(() if reign.end_s is None else (reign.end_s,))]
    return replace(reign, end_s=min(ends, default=None))


KINDS: Mapping[str, str] = {
    UNCLEAN_ELECTION: "unclean election",
    LAST_KNOWN_LEADER_ELECTED: "election of the last known leader",
}
Rows = Sequence[Mapping[str, Any]]
"""Events in order of time: the columns, ``time_s``, and ``told``, the detail as an object."""


def unclean_elections(events: Rows) -> tuple[UncleanElection, ...]:
    """The elections that may lose records."""
    ends = {
        (event["topic_partition"], event["epoch"], event["replica_id"]): event["told"].get("log_end_offset")
        for event in reversed(events)
        if event["event"] == BECAME_LEADER
    }
    found: dict[tuple[str, int], UncleanElection] = {}
    for event in events:
        if event["event"] not in KINDS:
            continue
        log, epoch, told = event["topic_partition"], event["epoch"], event["told"]
        leader_id, isr, elr = told.get("leader_id"), replica_ids(told.get("isr")), replica_ids(told.get("elr"))
        if not isinstance(epoch, int) or not isinstance(leader_id, int) or isr is None or elr is None:
            continue
        election = UncleanElection(
            kind=KINDS[event["event"]],
            log=log,
            epoch=epoch,
            leader_id=leader_id,
            isr=isr,
            elr=elr,
            time_s=event["time_s"],
            log_end_offset=ends.get((log, epoch, leader_id)),
        )
        found.setdefault((log, epoch), election)
    return tuple(found.values())


def offline_partitions(events: Rows) -> tuple[Offline, ...]:
    """The times without a leader: each until the first leader of a later epoch."""
    return tuple(_offline_partitions(events))


def _offline_partitions(events: Rows) -> Iterator[Offline]:
    unclean = [event for event in events if event["event"] in KINDS]
    kinds = {(event["topic_partition"], event["epoch"]): KINDS[event["event"]] for event in unclean}
    seen: set[tuple[str, int]] = set()
    for event in events:
        log, epoch, told = event["topic_partition"], event["epoch"], event["told"]
        if event["event"] != OFFLINE or epoch is None or (log, epoch) in seen:
            continue
        seen.add((log, epoch))
        next_leader = min(
            (
                later
                for later in events
                if later["event"] == BECAME_LEADER and later["topic_partition"] == log and (later["epoch"] or 0) > epoch
            ),
            key=lambda later: later["epoch"],
            default=None,
        )
        eligible = {*(replica_ids(told.get("isr")) or ()), *(replica_ids(told.get("elr")) or ())}
        yield Offline(
            log=log,
            epoch=epoch,
            eligible=tuple(sorted(eligible)),
            start_s=event["time_s"],
            end_s=None if next_leader is None else next_leader["time_s"],
            leader_id=None if next_leader is None else next_leader["replica_id"],
            ended="" if next_leader is None else kinds.get((log, next_leader["epoch"]), "clean election"),
        )
