"""Partitions that nobody led, and leaders that were not known to hold everything, as the controller told of them.

Owns the reading of these events into intervals and rows. A controller that has just taken over may tell again what the
one before it has told: of an epoch of a log the first is taken. Does not judge: what was lost by an election is said
in ``results.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemesis.checks.replica_events import replica_ids
from nemesis.history.events import BECAME_LEADER, LAST_KNOWN_LEADER_ELECTED, OFFLINE, UNCLEAN_ELECTION
from nemesis.report.values import Offline, UncleanElection

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
