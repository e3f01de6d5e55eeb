"""Partitions that nobody led, and leaders that were not known to hold everything, as the controller told of them.

Owns the reading of these events into intervals and rows. Does not judge: what was lost by an election is said in
``results.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    return tuple(
        UncleanElection(
            kind=KINDS[event["event"]],
            log=event["topic_partition"],
            epoch=event["epoch"],
            leader_id=event["told"]["leader_id"],
            isr=tuple(event["told"]["isr"]),
            elr=tuple(event["told"]["elr"]),
            time_s=event["time_s"],
            log_end_offset=ends.get((event["topic_partition"], event["epoch"], event["told"]["leader_id"])),
        )
        for event in events
        if event["event"] in KINDS
    )


def offline_partitions(events: Rows) -> tuple[Offline, ...]:
    """The times without a leader: each until the first leader of a later epoch."""
    return tuple(_offline_partitions(events))


def _offline_partitions(events: Rows) -> Iterator[Offline]:
    unclean = [event for event in events if event["event"] in KINDS]
    kinds = {(event["topic_partition"], event["epoch"]): KINDS[event["event"]] for event in unclean}
    for event in events:
        if event["event"] != OFFLINE:
            continue
        log, told = event["topic_partition"], event["told"]
        next_leader = min(
            (
                later
                for later in events
                if later["event"] == BECAME_LEADER
                and later["topic_partition"] == log
                and (later["epoch"] or 0) > event["epoch"]
            ),
            key=lambda later: later["epoch"],
            default=None,
        )
        eligible = {*told.get("isr", ()), *told.get("elr", ())}
        yield Offline(
            log=log,
            epoch=event["epoch"],
            eligible=tuple(sorted(eligible)),
            start_s=event["time_s"],
            end_s=None if next_leader is None else next_leader["time_s"],
            leader_id=None if next_leader is None else next_leader["replica_id"],
            ended="" if next_leader is None else kinds.get((log, next_leader["epoch"]), "clean election"),
        )
