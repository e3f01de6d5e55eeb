"""Recorded values as Arrow tables, column by column, for whoever judges or writes them without a file between.

Owns the translation only; what the columns mean is said in ``events``.

The tables of a run as JSON Lines: one object a row, without the columns that are absent in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history.events import RunEvent
from nemesis.history.reader import list_shards
from nemesis.history.schemas import SCHEMAS, Kind


def table_of(kind: Kind, events: Sequence[RunEvent]) -> pa.Table:
    """One table of a run; ``events`` are all of that kind."""
    schema = SCHEMAS[kind]
    return pa.table([pa.array(_column(events, field.name), field.type) for field in schema], schema=schema)


def _column(events: Sequence[RunEvent], name: str) -> list[Any]:
    column = [getattr(event, name) for event in events]
    if name != "records":
        return column
    return [None if records is None else [(record.offset, record.value) for record in records] for records in column]


def export_jsonl(folder: Path, target: Path, kind: Kind = Kind.HISTORY) -> int:
    """Write one table of the run in ``folder`` to the file ``target``, shard by shard; returns the number of rows."""
    rows = 0
    with target.open("w", encoding="utf-8") as out:
        for path in list_shards(folder, kind).paths:
            for row in pq.read_table(path).to_pylist():
                present = {name: value for name, value in row.items() if value is not None}
                out.write(json.dumps(present, separators=(",", ":")) + "\n")
                rows += 1
    return rows
