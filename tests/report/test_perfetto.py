"""A run's trace keeps to the Trace Event Format, and what it shows is what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemesis.history import EventType
from nemesis.report.perfetto import CLIENTS, ELECTIONS, FAULTS, FIRST_REPLICA, export_trace
from tests.report.conftest import RunFolder

Event = dict[str, Any]
NEEDED = {
    "M": {"name", "pid", "args"},
    "X": {"name", "pid", "tid", "ts", "dur", "args"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "b": {"name", "pid", "tid", "ts", "id", "cat"},
    "e": {"name", "pid", "tid", "ts", "id", "cat"},
    "C": {"name", "pid", "ts", "args"},
}
"""What the format asks of each kind of event."""


def traced(run: RunFolder, tmp_path: Path) -> list[Event]:
    """The events of a run's trace, read back."""
    count = export_trace(run.write(), tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["displayTimeUnit"] == "ms"
    events: list[Event] = document["traceEvents"]
    assert len(events) == count
    return events


def problems(events: list[Event]) -> list[str]:
    """What the format forbids: missing fields, slices of a thread that overlap, what begins and does not end."""
    found = [f"{event} has not what {event['ph']} needs" for event in events if NEEDED[event["ph"]] - event.keys()]
    busy_until: dict[tuple[int, int], float] = {}
    for event in sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"]):
        thread = (event["pid"], event["tid"])
        # A billionth of a second may be lost to rounding.
        if event["dur"] < 0 or event["ts"] < busy_until.get(thread, 0) - 0.002:
            found.append(f"{event} overlaps what goes on in {thread}")
        busy_until[thread] = event["ts"] + event["dur"]
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    ended = {event["id"]: event for event in events if event["ph"] == "e"}
    if begun.keys() != ended.keys() or any(ended[key]["ts"] < begun[key]["ts"] for key in begun):
        found.append("a fault does not end after it begins")
    named = {(event["pid"], event.get("tid")) for event in events if event["ph"] == "M"}
    found += [f"{event} has no named thread" for event in events if event["ph"] in "Xi" and not named >= {place(event)}]
    return found


def place(event: Event) -> tuple[int, int]:
    """The process and thread of an event."""
    return event["pid"], event["tid"]


def named(events: list[Event], pid: int) -> set[str]:
    """The names of all that is shown of one process of the trace."""
    return {event["name"] for event in events if event["pid"] == pid and event["ph"] != "M"}


@pytest.fixture
def events(busy_run: Callable[[], RunFolder], tmp_path: Path) -> list[Event]:
    """A run in which leaders fall, and one operation begins before the last of its process has returned."""
    run = busy_run()
    run.replica_event(9.0, 2, "high-watermark", epoch=2, offset=400, topic_partition="log-0")
    run.operation(0.6, 2.0, process=77, value=-1, offset=900)
    run.operation(0.7, None, process=77, value=-2)
    return traced(run, tmp_path)


def test_a_trace_keeps_to_the_format(events: list[Event]) -> None:
    """Every event has what its kind needs, the slices of a thread do not overlap, and every fault ends."""
    assert problems(events) == []


def test_a_trace_shows_clients_faults_leaders_and_replicas(events: list[Event]) -> None:
    """Operations by outcome, faults with all they struck, each reign, and what a replica has told."""
    assert {"append", "append (info)", "append (fail)", "poll", "final-read"} <= named(events, CLIENTS)
    assert named(events, FAULTS) == {"partition", "kill", "pause"}
    assert named(events, ELECTIONS) == set()
    first = named(events, FIRST_REPLICA + 1)
    assert {"partition", "leader, epoch 1", "follower, epoch 2", "truncated at 412", "leader, epoch 4"} <= first
    assert {"high watermark log-0", "runs", "kill"} <= named(events, FIRST_REPLICA + 2)
    dead = next(event for event in events if event["name"] == "leader, epoch 2")
    assert dead["ts"] + dead["dur"] == pytest.approx(13.6e6), "it was killed at 14.0 s, 13.6 s after the first event"


def test_times_are_microseconds_since_the_first_thing_known(events: list[Event]) -> None:
    """The first leader was told of at 0.4 s, which is the origin; a poll that lasted 0.2 s lasts 200,000."""
    read = next(event for event in events if event["name"] == "final-read")
    assert (read["ts"], read["dur"]) == (pytest.approx(28.6e6), pytest.approx(0.8e6))
    assert read["args"]["records"] == 1
    never = next(event for event in events if event["args"].get("value") == -2)
    assert never["ts"] + never["dur"] == pytest.approx(29.4e6), "what never returned lasts to the end"


def test_leaders_are_told_by_log(run_folder: RunFolder, tmp_path: Path) -> None:
    """Each log has a track of who led it last; while it was offline, nobody did."""
    log = {"topic_partition": "log-0"}
    run_folder.replica_event(1.0, 1, "became-leader", epoch=1, **log)
    run_folder.replica_event(3.0, 2, "offline", epoch=2, **log)
    run_folder.replica_event(4.0, 3, "became-leader", epoch=3, **log)
    run_folder.operation(0.0, 5.0, process=0, outcome=EventType.OK, value=1)
    slices = [event for event in traced(run_folder, tmp_path) if event["pid"] == ELECTIONS and event["ph"] == "X"]
    assert [(one["name"], one["ts"], one["dur"]) for one in slices] == [
        ("replica 1, epoch 1", 1e6, 2e6),
        ("no leader", 3e6, 1e6),
        ("replica 3, epoch 3", 4e6, 1e6),
    ]


def test_what_overlaps_is_found() -> None:
    """The measure of these tests sees a thread of which two slices overlap, and an event that lacks its time."""
    thread = {"pid": 1, "tid": 1, "name": "x", "args": {}}
    slices = [thread | {"ph": "X", "ts": 0, "dur": 5}, thread | {"ph": "X", "ts": 4, "dur": 5}]
    assert len(problems([thread | {"ph": "M"}, *slices])) == 1
    assert len(problems([thread | {"ph": "M"}, {"ph": "C", "name": "x", "pid": 1, "args": {}}])) == 1
