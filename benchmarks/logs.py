"""Made-up logs of any size, whole or with one record that a final read skips, as runs and as folders of operations.

Owns the histories. Appends and polls go by turns, each poll returns what was appended just before, and in the end all
is read again, dumped and in sync: a run in which everything is there, and which is valid unless it is spoiled. They are
made in parts, so that memory bounds no size.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history.events import (
    APPEND,
    BECAME_LEADER,
    DUMP,
    FINAL_ISR,
    FINAL_READ,
    HARNESS_PROCESS,
    POLL,
    STARTED,
    EventType,
)
from nemesis.history.schemas import COMPLETE_MARKER, HISTORY_SCHEMA, REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA, Kind
from nemesis.history.writer import shard_name
from nemesis.linearizability.arrays.columns import Ending, Function
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS
from nemesis.pipeline.corpora.store import OperationWriter

Ints = npt.NDArray[np.int64]
PART_OPERATIONS = 500_000
PAGE_RECORDS = 1_000
"""So many are in a batch of the log, and in what one final read returns."""
LOG = "log-0"
PROCESSES = 8
SOME_RUNS = 50
"""From which the runs of a corpus are copied."""
SPOILED_RUNS = 2
"""How many of these."""


def write_run(folder: Path, operations: int, *, spoiled: bool = False) -> Path:
    """A run of one log with so many appends and polls, half of them each."""
    values = (operations + 1) // 2
    tables = {
        Kind.HISTORY: _history(operations, values, spoiled),
        Kind.LOGS: iter([_log(values)]),
        Kind.EVENTS: iter([_events(values)]),
    }
    marker = {kind: _written(folder / kind, parts) for kind, parts in tables.items()}
    (folder / Kind.HISTORY / COMPLETE_MARKER).write_text(json.dumps(marker))
    return folder


def write_corpus(folder: Path, runs: int) -> list[Path]:
    """So many runs of two hundred operations and more, which are links to some; two of fifty are spoiled."""
    some = [
        write_run(folder / "some" / str(number), 200 + number, spoiled=number < SPOILED_RUNS)
        for number in range(min(runs, SOME_RUNS))
    ]
    for number in range(runs):
        shutil.copytree(some[number % len(some)], folder / "runs" / str(number), copy_function=os.link)
    return [folder / "runs" / str(number) for number in range(runs)]


def write_operations(folder: Path, operations: int) -> Path:
    """The same log as a folder of operations on one object, without the end."""
    writer = OperationWriter(folder)
    for first in range(0, operations, PART_OPERATIONS):
        writer.add(_operations(first, min(PART_OPERATIONS, operations - first)))
    return folder


def _written(folder: Path, parts: Iterator[pa.Table]) -> int:
    """Write a shard for each part; how many rows they have."""
    folder.mkdir(parents=True)
    rows = 0
    for number, part in enumerate(parts):
        pq.write_table(part, folder / shard_name(number), compression="zstd")
        rows += part.num_rows
    return rows


def _history(operations: int, values: int, spoiled: bool) -> Iterator[pa.Table]:
    """All events: those of the operations, of the final reads, and that the log was dumped."""
    for first in range(0, operations, PART_OPERATIONS):
        yield _asked(first, min(PART_OPERATIONS, operations - first))
    index = 2 * operations
    pages = range(0, values, PAGE_RECORDS)
    for start in pages:
        count = min(PAGE_RECORDS, values - start)
        yield _finally_read(index, start, count, is_last=start == pages[-1], spoiled=spoiled and start == pages[0])
        index += 2
    told = json.dumps({"replicas": [1], "logs": {LOG: {"batches": len(pages)}}})
    dump = {"index": index, "time_ns": index * 1_000, "process": HARNESS_PROCESS, "f": DUMP}
    yield _rows(HISTORY_SCHEMA, [dump | {"type": EventType.INFO.value, "detail": told}])


def _asked(first: int, count: int) -> pa.Table:
    """The events of operations from ``first`` on: an append, and then a poll of what it put there."""
    k = np.repeat(np.arange(first, first + count), 2)
    is_end = np.tile([False, True], count)
    is_poll, value = k % 2 == 1, k // 2
    index = 2 * k + is_end
    has_records = is_end & is_poll
    columns: dict[str, Any] = {
        "index": index,
        "time_ns": index * 1_000,
        "process": np.where(is_poll, PROCESSES, value % PROCESSES),
        "type": np.where(is_end, EventType.OK.value, EventType.INVOKE.value),
        "f": np.where(is_poll, POLL, APPEND),
        "invoked": pa.array(index - 1, mask=~is_end),
        "topic_partition": pa.array([LOG] * len(k)),
        "value": pa.array(value, mask=is_poll),
        "offset": pa.array(value, mask=~is_end & ~is_poll),
        "records": _lists(value, has_records),
    }
    nulls = {field.name: pa.nulls(len(k), field.type) for field in HISTORY_SCHEMA}
    return pa.table(nulls | columns).cast(HISTORY_SCHEMA)


def _lists(value: Ints, has_records: npt.NDArray[np.bool_]) -> pa.Array:
    """One record each, whose offset is its value, or none."""
    ends = pa.array(np.concatenate(([0], np.cumsum(has_records))), pa.int32())
    records = pa.StructArray.from_arrays([pa.array(value[has_records])] * 2, ["offset", "value"])
    return pa.ListArray.from_arrays(ends, records, mask=pa.array(~has_records))


def _finally_read(index: int, start: int, count: int, *, is_last: bool, spoiled: bool) -> pa.Table:
    """One final read: the records from ``start`` on, but for the second of them where it is spoiled."""
    about = {"process": PROCESSES + 1, "f": FINAL_READ, "topic_partition": LOG, "offset": start}
    shown = [{"offset": k, "value": k} for k in range(start, start + count) if not spoiled or k != start + 1]
    asked = about | {"index": index, "time_ns": index * 1_000, "type": EventType.INVOKE.value}
    told = about | {"index": index + 1, "time_ns": (index + 1) * 1_000, "type": EventType.OK.value, "invoked": index}
    return _rows(HISTORY_SCHEMA, [asked, told | {"records": shown, "limited": not is_last}])


def _log(values: int) -> pa.Table:
    """What the one replica has in the end."""
    ends = {"high_watermark": values, "log_start_offset": 0, "log_end_offset": values, "complete": True}
    about = {"replica_id": 1, "topic_partition": LOG, "leader_epoch": 1, "is_control": False} | ends
    batches = [range(base, min(base + PAGE_RECORDS, values)) for base in range(0, values, PAGE_RECORDS)]
    rows = [
        about | {"base_offset": own[0], "last_offset": own[-1], "crc": own[0], "values": list(own)} for own in batches
    ]
    return _rows(REPLICA_LOG_SCHEMA, rows)


def _events(values: int) -> pa.Table:
    """What is told of the replica: it was started, it led, and it was in sync in the end."""
    claim = json.dumps({"isr": [1], "replicas": [1], "restored": True, "after_s": 0.5})
    rows: list[dict[str, Any]] = [
        {"event": STARTED},
        {"event": BECAME_LEADER, "epoch": 1, "topic_partition": LOG},
        {"event": FINAL_ISR, "epoch": 1, "offset": values, "topic_partition": LOG, "detail": claim},
    ]
    return _rows(REPLICA_EVENT_SCHEMA, [row | {"replica_id": 1, "time_ns": 0} for row in rows])


def _rows(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def _operations(first: int, count: int) -> pa.Table:
    """The operations from ``first`` on, as those of object 0."""
    k = np.arange(first, first + count)
    is_fetch, value = k % 2 == 1, k // 2
    lists = pa.ListArray.from_arrays(
        pa.array(np.concatenate(([0], np.cumsum(is_fetch))), pa.int32()),
        pa.array(value[is_fetch]),
        mask=pa.array(~is_fetch),
    )
    columns: dict[str, Any] = {
        "object": np.zeros(count, np.int64),
        "process": np.where(is_fetch, PROCESSES, value % PROCESSES),
        "line": k + 1,
        "function": np.where(is_fetch, Function.FETCH, Function.APPEND),
        "ending": np.full(count, Ending.OK),
        "argument": value,
        "second": pa.array(np.ones(count, np.int64), mask=~is_fetch),
        "result": pa.array(value, mask=is_fetch),
        "invoked": 2 * k,
        "returned": 2 * k + 1,
        "records": lists,
    }
    nulls = {field.name: pa.nulls(count, field.type) for field in OPERATION_ROWS}
    return pa.table(nulls | columns).cast(OPERATION_ROWS)
