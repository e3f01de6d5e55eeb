"""The tables of a run as JSON Lines: one object a row, without the columns that are absent in it.

For reading with the eye and with other tools; nothing reads it back.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from nemesis.history.reader import list_shards
from nemesis.history.schemas import Kind


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
