"""The tables that a run leaves on disk and a judgement gives, column by column, and the histories that are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import cleandoc

import pyarrow as pa

from docs.reference.comments import comments_of, first_paragraph
from docs.reference.tables import code, prose, table
from nemesis.checks import schemas
from nemesis.formats import parquet, reading
from nemesis.formats.reading import READERS
from nemesis.history.events import HistoryEvent, ReplicaEvent, ReplicaLogBatch
from nemesis.history.schemas import COMPLETE_MARKER, SCHEMAS, Kind

ROWS = {Kind.HISTORY: HistoryEvent, Kind.LOGS: ReplicaLogBatch, Kind.EVENTS: ReplicaEvent}
"""Whose docstrings say what the columns of a run's tables mean."""

JUDGED = ("OPERATION_SCHEMA", "MICRO_OPERATION_SCHEMA", "ANOMALY_SCHEMA", "COVERAGE_SCHEMA")
"""What checks take and give; their comments say what is in them."""


def page() -> str:
    """All formats that the harness reads and writes."""
    formats = [(code(name.value), _told(reader)) for name, reader in READERS.items()]
    recorded = "".join(_columns(f"{kind.value}/", schema, ROWS[kind].__doc__ or "") for kind, schema in SCHEMAS.items())
    said = comments_of(schemas)
    judged = "".join(
        _columns(name.removesuffix("_SCHEMA").lower().replace("_", " "), getattr(schemas, name), said.get(name, ""))
        for name in JUDGED
    )
    return f"""# File formats

What a replica keeps on disk is on [Storage](../storage.md), record batches are on
[Record format](../record-format.md), and what each format of a history may say is on
[Histories of others](../histories.md).

## Histories that `nemesis check --format` reads

{table(("format", "what it is"), formats)}
## Tables of a run

Parquet files in the folder of a run. `history/{COMPLETE_MARKER}` says that the run was recorded to its end.

{recorded}## Tables of a judgement

{judged}"""


def _told(reader: object) -> str:
    """What the module of a reader says that the format is; Parquet's is loaded only when it is read."""
    module = sys.modules[getattr(reader, "__module__", "")]
    return prose(first_paragraph((parquet if module is reading else module).__doc__))


def _meant(text: str | None) -> str:
    """A whole docstring, paragraph by paragraph."""
    return "".join(f"{prose(part)}\n\n" for part in cleandoc(text or "").split("\n\n"))


def _columns(name: str, schema: pa.Schema, said: str) -> str:
    return f"### {name}\n\n{_meant(said)}" + table(("column", "type", "may be absent"), _rows(schema))


def _rows(schema: pa.Schema) -> Iterator[tuple[str, str, str]]:
    for field in schema:
        yield code(field.name), code(field.type), "yes" if field.nullable else ""
