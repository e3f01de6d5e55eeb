"""Hand-made operations and replica logs, in the columns that the checks take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from nemesis.checks import (
    LOG_BATCH_SCHEMA,
    OPERATION_SCHEMA,
    RUN_EVENT_SCHEMA,
    CheckOptions,
    Findings,
    judge_partitions,
)
from nemesis.checks.replica_events import ANY
from nemesis.history.events import GAPLESS

Row = dict[str, Any]

RUN, PARTITION = "run", "log-0"
DEFAULTS: Row = {"process": 0, "limited": False, "strict": False, "seek": False, "type": "ok"}


def operation(f: str, span: tuple[int, int | None], **fields: Any) -> Row:
    """One operation from its invocation to its return (``None``: never); fields are columns."""
    row: Row = dict.fromkeys(OPERATION_SCHEMA.names)
    row |= DEFAULTS | {"run_id": RUN, "topic_partition": PARTITION, "f": f} | fields
    invoked, returned = span
    times = {"invoke_ns": invoked * 1000, "return_ns": None if returned is None else returned * 1000}
    return row | {"invoke_index": invoked, "return_index": returned} | times


def append(span: tuple[int, int | None], value: int, offset: int | None = None, **fields: Any) -> Row:
    """An append; ok unless told otherwise."""
    return operation("append", span, value=value, offset=offset, **fields)


def poll(span: tuple[int, int | None], position: int, *records: tuple[int, int], f: str = "poll", **fields: Any) -> Row:
    """A poll that asked from ``position`` and returned (offset, value) pairs."""
    shown = [{"offset": offset, "value": value} for offset, value in records]
    return operation(f, span, position=position, **({"records": shown} | fields))


def replica_log(replica_id: int, batches: Sequence[tuple[int, Sequence[int] | None]], **fields: Any) -> list[Row]:
    """The rows of a replica's log: batches of (epoch, values), one after the other; ``None`` is a control batch.

    The log is complete and its high watermark is its end unless ``fields`` say otherwise.
    """
    rows: list[Row] = []
    offset = fields.pop("base_offset", 0)
    for epoch, values in batches:
        count = 1 if values is None else len(values)
        rows.append(
            {
                "run_id": RUN,
                "topic_partition": PARTITION,
                "replica_id": replica_id,
                "base_offset": offset,
                "last_offset": offset + count - 1,
                "leader_epoch": epoch,
                "crc": hash((tuple(values or ()), values is None)) % 2**32,
                "is_control": values is None,
                "values": None if values is None else list(values),
                "log_start_offset": 0,
                "complete": True,
            }
        )
        offset += count
    ends = {"high_watermark": offset, "log_end_offset": offset}
    return [row | ends | fields for row in rows]


def told(replica_id: int, event: str, time_ns: int = 0, **fields: Any) -> Row:
    """What a replica reports, or is seen to say."""
    row = dict.fromkeys(RUN_EVENT_SCHEMA.names)
    about = {"run_id": RUN, "topic_partition": PARTITION, "replica_id": replica_id}
    return row | about | {"event": event, "time_ns": time_ns} | fields


def became_leader(replica_id: int, epoch: int, time_ns: int = 0) -> Row:
    """What a replica reports when it becomes the leader."""
    return told(replica_id, "became-leader", time_ns, epoch=epoch)


def final_isr(leader_id: int, isr: Sequence[int], offset: int | None, **claimed: Any) -> Row:
    """What the metadata says in the end: these replicas, all of them in sync unless ``claimed`` says otherwise."""
    claim = {"isr": list(isr), "replicas": list(isr), "restored": True, "after_s": 0.5} | claimed
    return told(leader_id, "final-isr", 9, epoch=2, offset=offset, detail=json.dumps(claim))


def judge(
    operations: Sequence[Row],
    logs: Sequence[Row] = (),
    events: Sequence[Row] = (),
    **options: Any,
) -> list[Row]:
    """The anomaly rows of hand-made rows."""
    return list(findings(operations, logs, events, **options).anomalies.to_pylist())


def coverage(
    operations: Sequence[Row], logs: Sequence[Row] = (), events: Sequence[Row] = (), **options: Any
) -> dict[str, tuple[int, int]]:
    """How much each check has looked at in hand-made rows, and how much it missed."""
    rows = findings(operations, logs, events, **options).coverage.to_pylist()
    return {row["check"]: (row["looked"], row["missed"]) for row in rows}


def findings(
    operations: Sequence[Row],
    logs: Sequence[Row] = (),
    events: Sequence[Row] = (),
    *,
    gapless: bool = False,
    **options: Any,
) -> Findings:
    """What is found in hand-made rows; ``gapless`` is declared of all logs."""
    about = {(row["run_id"], row["topic_partition"]) for row in (*operations, *logs)} if gapless else ()
    declared = [told(ANY, GAPLESS, run_id=run, topic_partition=name) for run, name in sorted(about)]
    return judge_partitions(
        pa.Table.from_pylist(list(operations), schema=OPERATION_SCHEMA),
        pa.Table.from_pylist(list(logs), schema=LOG_BATCH_SCHEMA),
        pa.Table.from_pylist([*events, *declared], schema=RUN_EVENT_SCHEMA),
        CheckOptions(**options),
    )


def names(rows: Sequence[Row]) -> list[str]:
    """The anomalies found, each once, sorted; those that only say *unknown* end in a question mark."""
    return sorted({row["anomaly"] + ("?" if row["severity"] == "unknown" else "") for row in rows})
