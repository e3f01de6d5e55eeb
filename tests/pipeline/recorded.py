"""Rows of made-up runs, recorded as run folders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nemesis.history import (
    APPEND,
    DUMP,
    HARNESS_PROCESS,
    METADATA_LOG,
    NEMESIS_PROCESS,
    OFFLINE,
    UNCLEAN_ELECTION,
    EventType,
    HistoryEvent,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
)
from nemesis.history.writer import HistoryWriter
from tests.checks.histories import Row, append, became_leader, final_isr, poll, replica_log, told
from tests.checks.simulation import Run

FIRST, SECOND = {"topic_partition": "orders-0"}, {"topic_partition": "orders-1"}
METADATA = {"topic_partition": METADATA_LOG}


NOT_BITTEN = "the faults did not bite: no leader was seen to change after the first of them was done"
NOT_DONE = "no fault struck: all that were tried were refused, or came to nothing"
BITES: tuple[tuple[tuple[str, ...], tuple[int, ...], str | None], ...] = (
    (("invoke kill", "info kill"), (0, 5000), None),
    (("invoke kill", "fail kill"), (0, 5000), NOT_DONE),
    (("invoke kill", "info kill"), (0, 0), NOT_BITTEN),
    # An invocation that came to something, and not an earlier one, is the beginning.
    (("invoke kill", "fail kill", "invoke kill", "info kill", "info start"), (0, 4500), NOT_BITTEN),
    (("invoke kill", "fail kill", "invoke kill", "info kill", "info start"), (0, 5500), None),
    # Who was elected while nobody asked anything has put nothing to the test.
    (("info kill", "info start", "info start"), (0, 2500), NOT_BITTEN),
    # The first leader of a log is no change.
    (("info kill",), (5000,), NOT_BITTEN),
    (("info kill",), (5000, 6000), None),
    # What is healed or waited for is no fault, and an order or a beginning is no deed.
    (("info start", "info await-leader"), (0, 5000), ""),
    (("info kill-at-before-flush",), (0, 5000), NOT_DONE),
    (("info kill-at-before-flush", "info come-to-point"), (0, 5000), None),
    (("info membership-remove", "fail remove-voter"), (0, 5000), NOT_DONE),
)
"""What the nemesis did before the first operation, when leaders were elected, and what is said if that was no bite."""


def bitten_run(folder: Path, nemesis: Sequence[str], elected_ns: Sequence[int]) -> Path:
    """One of ``BITES``, recorded; the leaders are of one log."""
    led = [became_leader(1, 1 + i, time_ns) | FIRST for i, time_ns in enumerate(elected_ns)]
    events = [*led, *(event for event in cluster_run().events if event["event"] in ("started", "final-isr"))]
    done = [(f, EventType(kind)) for kind, f in map(str.split, nemesis)]
    return record_run(folder, replace(cluster_run(), events=events), nemesis=done)


def cluster_run() -> Run:
    """A run over two partitions and the metadata, with writes that asked for less, and all kinds of events."""
    operations = [
        append((0, 1), 10, 0, leader_epoch=1) | FIRST,
        append((2, 3), 20, 0, leader_epoch=0, acks=1) | SECOND,
        append((4, 5), 21, acks=0) | SECOND,
        append((6, 7), 11, 1, leader_epoch=2) | FIRST,
        poll((8, 9), 0, (0, 10), (1, 11), f="final-read", high_watermark=2) | FIRST,
        poll((10, 11), 0, (0, 20), f="final-read", high_watermark=1) | SECOND,
    ]
    logs = [row | FIRST for replica_id in (1, 2, 3) for row in replica_log(replica_id, [(1, [10]), (2, [11])])]
    logs += [row | SECOND for replica_id in (1, 2, 3) for row in replica_log(replica_id, [(0, [20])])]
    logs += [row | METADATA | {"values": None} for row in replica_log(1, [(1, [0]), (3, [0])])]
    numbers = {"producer_id": 7, "producer_epoch": 0}
    logs = [
        row | numbers | {"base_sequence": row["base_offset"]} if row["topic_partition"] == "orders-0" else row
        for row in logs
    ]
    events = [
        *(became_leader(1, epoch, 3000 * epoch) | METADATA for epoch in (1, 3)),
        *(became_leader(1 + epoch, epoch, 1000 * epoch) | FIRST for epoch in (0, 1, 2)),
        became_leader(2, 0) | SECOND,
        told(2, "isr-shrunk", 3, epoch=1, detail="{}") | FIRST,
        told(2, "isr-expanded", 4, epoch=1, detail="{}") | FIRST,
        told(3, "truncated", 5, offset=1) | FIRST,
        told(1, "truncated", 5, offset=9) | METADATA,
        told(1, "high-watermark", 6, epoch=9, offset=2, detail="leader") | METADATA,
        told(3, "high-watermark", 6, epoch=2, offset=2, detail="leader") | FIRST,
        final_isr(3, (1, 2, 3), 2) | FIRST,
        final_isr(2, (1, 2, 3), 1) | SECOND,
        *(told(replica_id, "started", 0, topic_partition=None) for replica_id in (1, 2, 3)),
    ]
    return Run(operations=operations, logs=logs, events=events, gapless=True)


def told_twice() -> Run:
    """A run whose elections were told by one controller, and then again by the next."""
    detail = json.dumps({"leader_id": 2, "isr": [1], "elr": []})
    events = [
        told(controller, event, time_ns, epoch=epoch, detail=detail) | log
        for time_ns, controller in ((1, 1), (2, 2))
        for event, epoch, log in (
            (OFFLINE, 1, FIRST),
            (UNCLEAN_ELECTION, 2, FIRST),
            (UNCLEAN_ELECTION, 2, SECOND),
        )
    ]
    return Run(operations=[append((0, 1), 10, 0) | FIRST], logs=[], events=events, gapless=True)


def history_events(
    operations: Sequence[Row], faults: int = 0, harness_failures: int = 0, nemesis: Sequence[tuple[str, EventType]] = ()
) -> list[HistoryEvent]:
    """The invocations and completions of the operations in order, after these events of nemesis and harness."""
    ends = [event for row in operations for event in _told(row)]
    done = [*nemesis, *[("kill", EventType.INFO)] * faults]
    kills: list[Row] = [{"process": NEMESIS_PROCESS, "type": kind, "f": f} for f, kind in done]
    kills += [{"process": HARNESS_PROCESS, "type": EventType.FAIL, "f": "converge"}] * harness_failures
    rows = kills + [fields for _, fields in sorted(ends, key=lambda pair: pair[0])]
    return [HistoryEvent(index=index, time_ns=index * 1000, **fields) for index, fields in enumerate(rows)]


def _told(row: Row) -> list[tuple[int, Row]]:
    about = {"process": row["process"], "f": row["f"], "topic_partition": row["topic_partition"]}
    asked = {"value": row["value"], "offset": row["position"], "strict": row["strict"], "seek": row["seek"]}
    asked["acks"] = row["acks"]
    events = [(row["invoke_index"], about | asked | {"type": EventType.INVOKE})]
    if row["return_index"] is None:
        return events
    records = row["records"]
    answered = {
        "type": EventType(row["type"]),
        "offset": row["offset"] if row["f"] == APPEND else row["position"],
        "value": row["value"],
        "records": None if records is None else tuple(PolledRecord(**record) for record in records),
        "limited": row["limited"],
        **{name: row[name] for name in ("high_watermark", "leader_epoch", "node", "error")},
    }
    return [*events, (row["return_index"], about | answered)]


def dumps_of(rows: Sequence[Row], index: int) -> Iterator[HistoryEvent]:
    """What the harness tells of the dumps of these logs, as the history goes on at ``index``."""
    for place, replica_id in enumerate(sorted({row["replica_id"] for row in rows}), index):
        logs: dict[str, dict[str, int]] = {}
        for row in rows:
            if row["replica_id"] == replica_id:
                log = logs.setdefault(row["topic_partition"], {"batches": 0})
                log["batches"] += row["base_offset"] is not None
        detail = json.dumps({"replicas": [replica_id], "logs": logs})
        about: Row = {"process": HARNESS_PROCESS, "type": EventType.INFO, "f": DUMP, "detail": detail}
        yield HistoryEvent(index=place, time_ns=place * 1000, **about)


def record_run(
    folder: Path,
    run: Run,
    *,
    faults: int = 0,
    harness_failures: int = 0,
    nemesis: Sequence[tuple[str, EventType]] = (),
    shard_rows: int = 10_000,
    complete: bool = True,
) -> Path:
    """Record a run; returns its folder. One that was cut off has not come to its dumps.

    Of one that is gapless the document declares it, of all logs but the metadata's.
    """
    writer = HistoryWriter(folder, shard_rows=shard_rows)
    history = history_events(run.operations, faults, harness_failures, nemesis)
    for event in (*history, *dumps_of(run.logs if complete else [], len(history))):
        writer.write(event)
    for row in run.logs:
        writer.write(ReplicaLogBatch(**{name: value for name, value in row.items() if name != "run_id"}))
    for row in run.events:
        writer.write(ReplicaEvent(**{name: value for name, value in row.items() if name != "run_id"}))
    if complete:
        writer.close()
    if run.gapless:
        logs = {row["topic_partition"] for row in (*run.operations, *run.logs)} - {METADATA_LOG}
        (folder / "test.json").write_text(json.dumps({"gapless": sorted(logs)}))
    return folder
