"""Histories as Parquet: the columns are the fields of the JSON Lines, one row an event.

Owns how a column becomes a value. ``process``, ``type`` and ``f`` must be there. A column ``value`` of texts holds
JSON, since one column cannot hold numbers and lists else; of any other type, and in all other columns, what stands
there is the value. Rows are counted from 1, as lines are. Source: Apache Parquet, as pyarrow reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.formats.errors import HistoryError, refuse
from nemesis.formats.events import Event, event_of
from nemesis.formats.json_lines import frozen_fields, parsed_value
from nemesis.formats.limits import EVENTS_MAX

_REQUIRED = ("process", "type", "f")
_BATCH_ROWS = 10_000


def read_parquet(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError."""
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(file, path)
            row = 0
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for fields in batch.to_pylist():
                    row += 1
                    yield _event(fields, path, row)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        problem = f"the file is no Parquet or damaged ({error})"
        raise HistoryError(path, None, problem, "write it again") from error


def _check_columns(file: pq.ParquetFile, path: Path) -> None:
    names = file.schema_arrow.names
    missing = [name for name in _REQUIRED if name not in names]
    if missing:
        problem = f"there is no column {missing[0]}, only {', '.join(sorted(names))}"
        refuse(path, None, problem, "write the columns index, process, type, f, key, value, time")
    if len(set(names)) < len(names):
        refuse(path, None, "two columns have one name", "write each column once")
    if file.metadata.num_rows > EVENTS_MAX:
        refuse(path, None, f"the file has more than EVENTS_MAX, {EVENTS_MAX} events", "cut the history into several")


def _event(fields: dict[str, object], path: Path, row: int) -> Event | None:
    present = {name: value for name, value in fields.items() if value is not None}
    value = present.get("value")
    if isinstance(value, str):
        present["value"] = parsed_value(value, path, row)
    return event_of(frozen_fields(present, path, row), path, row)
