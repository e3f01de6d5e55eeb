"""What replicas reported, and were seen to say, of one topic-partition: rows as values, each in order of time.

Owns the reading of the events' table. What is not of its shape is passed over: it must not take the verdict away. What
is needed for one is missing then, and said to be. A row's ``time_ns`` is when it happened; of what
the harness saw (high watermarks and ISRs), when it had the answer, so that what it tells was true before. Knows no
rule.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import pyarrow as pa

from nemesis.history.events import (
    BECAME_LEADER,
    DUE,
    DUMPED,
    FINAL_ISR,
    GAPLESS,
    HIGH_WATERMARK,
    KILLED_FROM_OUTSIDE,
    LAST_KNOWN_LEADER_ELECTED,
    STARTED,
    TRIMMED,
    UNCLEAN_ELECTION,
)

ANY = -1
"""The replica of a log that somebody has, whoever that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermark:
    """A replica said that it knew this high watermark, in this role and leader epoch."""

    time_ns: int
    replica_id: int
    epoch: int
    offset: int
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A replica cut its log back to ``offset``, which is its end then."""

    time_ns: int
    replica_id: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderStart:
    """A replica began to lead in this epoch, and its log ended at ``log_end_offset`` then."""

    epoch: int
    replica_id: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """The controller elected a leader that was not known to hold all that is committed.

    ``isr`` were in sync before, ``elr`` eligible beside them. ``led_last`` says that it is the one that led last, and
    that nobody was known to hold more.
    """

    epoch: int
    leader_id: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    led_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrClaim:
    """What the metadata said in the end: who has the log, and who of them is in sync.

    ``committed_end_offset`` is the leader's high watermark as it was before, 0 where it did not say. ``restored`` is
    whether all replicas were in sync within ``after_s``, the time that they had.
    """

    leader_id: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    committed_end_offset: int
    restored: bool
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEvents:
    """All of it.

    ``started`` are those that told of a start. ``leaders`` has (epoch, replica id) of each became-leader, each once,
    ascending; ``stops`` (replica id, event, detail, time) of each time that a replica ended and nobody of the run had
    ended it. ``isr_claim`` is absent for a log without an ISR. ``dumped`` has the number of batches of each replica's
    log that was dumped, by its id, as the history counts them, ``due`` those who have it by what the run was given
    (``ANY``: somebody), ``gapless`` that every offset of the log holds a client's record by what is known of the
    system, and ``trimmed`` that retention may delete its beginning. ``leader_starts`` and ``unclean_elections`` ascend
    by epoch; a leader that did not say where its log ended has none, and an election that two controllers have told of
    is there once.
    """

    started: frozenset[int] = frozenset()
    leaders: tuple[tuple[int, int], ...] = ()
    stops: tuple[tuple[int, str, str, int], ...] = ()
    high_watermarks: tuple[HighWatermark, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    isr_claim: IsrClaim | None = None
    dumped: Mapping[int, int] = field(default_factory=dict)
    due: frozenset[int] = frozenset()
    gapless: bool = False
    trimmed: bool = False
    leader_starts: tuple[LeaderStart, ...] = ()
    unclean_elections: tuple[UncleanElection, ...] = ()


def replica_events_of(events: pa.Table) -> ReplicaEvents:
    """The events of one topic-partition. ``events`` is ``RUN_EVENT_SCHEMA``, in any order."""
    rows = sorted(events.to_pylist(), key=lambda row: (row["time_ns"], row["replica_id"], row["event"]))
    told = {(row["epoch"], row["replica_id"]) for row in rows if row["event"] == BECAME_LEADER}
    claims = [claim for row in rows if row["event"] == FINAL_ISR and (claim := _isr_claim(row)) is not None]
    return ReplicaEvents(
        started=frozenset(row["replica_id"] for row in rows if row["event"] == STARTED),
        leaders=tuple(sorted(pair for pair in told if pair[0] is not None)),
        stops=tuple(
            (row["replica_id"], row["event"], row["detail"] or "", row["time_ns"])
            for row in rows
            if row["event"] in ("halted", "died", KILLED_FROM_OUTSIDE)
        ),
        high_watermarks=tuple(_high_watermarks(rows)),
        truncations=tuple(
            Truncation(time_ns=row["time_ns"], replica_id=row["replica_id"], offset=row["offset"])
            for row in rows
            if row["event"] == "truncated" and row["offset"] is not None
        ),
        isr_claim=claims[-1] if claims else None,
        dumped={
            row["replica_id"]: row["offset"] for row in rows if row["event"] == DUMPED and row["offset"] is not None
        },
        due=frozenset(row["replica_id"] for row in rows if row["event"] == DUE),
        gapless=any(row["event"] == GAPLESS for row in rows),
        trimmed=any(row["event"] == TRIMMED for row in rows),
        leader_starts=tuple(sorted(_leader_starts(rows), key=lambda start: (start.epoch, start.replica_id))),
        unclean_elections=tuple(sorted(_unclean_elections(rows), key=lambda election: election.epoch)),
    )


def _high_watermarks(rows: list[dict[str, Any]]) -> Iterator[HighWatermark]:
    for row in rows:
        if row["event"] == HIGH_WATERMARK and row["offset"] is not None and row["epoch"] is not None:
            yield HighWatermark(
                time_ns=row["time_ns"],
                replica_id=row["replica_id"],
                epoch=row["epoch"],
                offset=row["offset"],
                role=row["detail"] or "",
            )


def _leader_starts(rows: list[dict[str, Any]]) -> Iterator[LeaderStart]:
    for row in rows:
        if row["event"] == BECAME_LEADER and row["epoch"] is not None:
            end = _told(row).get("log_end_offset")
            if _is_number(end):
                yield LeaderStart(epoch=row["epoch"], replica_id=row["replica_id"], log_end_offset=end)


def _unclean_elections(rows: list[dict[str, Any]]) -> Iterator[UncleanElection]:
    seen: set[int] = set()
    for row in rows:
        if row["event"] not in (UNCLEAN_ELECTION, LAST_KNOWN_LEADER_ELECTED) or row["epoch"] in (None, *seen):
            continue
        told = _told(row)
        leader_id, isr, elr = told.get("leader_id"), replica_ids(told.get("isr")), replica_ids(told.get("elr"))
        if not _is_number(leader_id) or isr is None or elr is None:
            continue
        seen.add(row["epoch"])
        yield UncleanElection(
            epoch=row["epoch"],
            leader_id=leader_id,
            isr=isr,
            elr=elr,
            led_last=row["event"] == LAST_KNOWN_LEADER_ELECTED,
        )


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """The detail as an object; an empty one where it is none."""
    try:
        told = json.loads(row["detail"] or "{}")
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def replica_ids(told: object) -> tuple[int, ...] | None:
    """Replicas as a detail lists them; None if it is no such list."""
    if not isinstance(told, list) or not all(map(_is_number, told)):
        return None
    return tuple(told)


def _is_number(told: object) -> TypeGuard[int]:
    """Whether it is a number as the tables have it, of 64 bits."""
    return isinstance(told, int) and -(1 << 63) <= told < 1 << 63


def _isr_claim(row: dict[str, Any]) -> IsrClaim | None:
    told = _told(row)
    isr, replicas, after_s = replica_ids(told.get("isr")), replica_ids(told.get("replicas")), told.get("after_s")
    if isr is None or replicas is None or not (isinstance(after_s, int | float) and abs(after_s) < math.inf):
        return None
    return IsrClaim(
        leader_id=row["replica_id"],
        isr=isr,
        replicas=replicas,
        committed_end_offset=row["offset"] or 0,
        restored=told.get("restored") is True and set(isr) == set(replicas),
        after_s=after_s,
    )
