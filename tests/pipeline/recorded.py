"""Rows of made-up runs, recorded as run folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nemesis.history import (
    HARNESS_PROCESS,
    NEMESIS_PROCESS,
    EventType,
    HistoryEvent,
    HistoryWriter,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
)
from tests.checks.histories import Row
from tests.checks.simulation import Run


def history_events(operations: Sequence[Row], faults: int = 0, harness_failures: int = 0) -> list[HistoryEvent]:
    """The invocations and completions of the operations in order, after these events of nemesis and harness."""
    told = [event for row in operations for event in _told(row)]
    kills: list[Row] = [{"process": NEMESIS_PROCESS, "type": EventType.INFO, "f": "kill"}] * faults
    kills += [{"process": HARNESS_PROCESS, "type": EventType.FAIL, "f": "converge"}] * harness_failures
    rows = kills + [fields for _, fields in sorted(told, key=lambda pair: pair[0])]
    return [HistoryEvent(index=index, time_ns=index * 1000, **fields) for index, fields in enumerate(rows)]


def _told(row: Row) -> list[tuple[int, Row]]:
    about = {"process": row["process"], "f": row["f"], "topic_partition": row["topic_partition"]}
    asked = {"value": row["value"], "offset": row["position"], "strict": row["strict"], "seek": row["seek"]}
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
