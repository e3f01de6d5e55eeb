"""Rows of made-up runs, recorded as run folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nemesis.history import (
    HARNESS_PROCESS,
    METADATA_LOG,
    NEMESIS_PROCESS,
    OFFLINE,
    UNCLEAN_ELECTION,
    EventType,
    HistoryEvent,
    HistoryWriter,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
)
from tests.checks.histories import Row, append, became_leader, poll, replica_log, told
from tests.checks.simulation import Run

FIRST, SECOND = {"topic_partition": "orders-0"}, {"topic_partition": "orders-1"}
METADATA = {"topic_partition": METADATA_LOG}


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
    claim = {"isr": [1, 2, 3], "replicas": [1, 2, 3], "restored": True, "after_s": 0.5}
    events = [
        *(became_leader(1, epoch) | METADATA for epoch in (1, 3)),
        *(became_leader(1 + epoch, epoch) | FIRST for epoch in (0, 1, 2)),
        became_leader(2, 0) | SECOND,
        told(2, "isr-shrunk", 3, epoch=1, detail="{}") | FIRST,
        told(2, "isr-expanded", 4, epoch=1, detail="{}") | FIRST,
        told(3, "truncated", 5, offset=1) | FIRST,
        told(1, "truncated", 5, offset=9) | METADATA,
        told(1, "high-watermark", 6, epoch=9, offset=2, detail="leader") | METADATA,
        told(3, "high-watermark", 6, epoch=2, offset=2, detail="leader") | FIRST,
        told(3, "final-isr", 7, epoch=2, offset=2, detail=json.dumps(claim)) | FIRST,
        told(1, "started", 0, topic_partition=None),
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


def history_events(operations: Sequence[Row], faults: int = 0, harness_failures: int = 0) -> list[HistoryEvent]:
    """The invocations and completions of the operations in order, after these events of nemesis and harness."""
    ends = [event for row in operations for event in _told(row)]
    kills: list[Row] = [{"process": NEMESIS_PROCESS, "type": EventType.INFO, "f": "kill"}] * faults
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
        "offset": row["offset"],
        "records": None if records is None else tuple(PolledRecord(**record) for record in records),
        "limited": row["limited"],
        **{name: row[name] for name in ("high_watermark", "leader_epoch", "node", "error")},
    }
    return [*events, (row["return_index"], about | answered)]


def record_run(
    folder: Path,
    run: Run,
    *,
    faults: int = 0,
    harness_failures: int = 0,
    shard_rows: int = 10_000,
    complete: bool = True,
) -> Path:
    """Record a run; returns its folder."""
    writer = HistoryWriter(folder, shard_rows=shard_rows)
    for event in history_events(run.operations, faults, harness_failures):
        writer.write(event)
    for row in run.logs:
        writer.write(ReplicaLogBatch(**{name: value for name, value in row.items() if name != "run_id"}))
    for row in run.events:
        writer.write(ReplicaEvent(**{name: value for name, value in row.items() if name != "run_id"}))
    if complete:
        writer.close()
    return folder
