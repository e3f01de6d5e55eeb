"""Histories as Parquet: the columns are the fields of the JSON Lines, one row an event.

Owns how a column becomes a value, and that a small file takes little memory: its end is believed only as far as the
limits go, and a text that stands once in the file is there once in memory, however many rows have it. ``process``,
``type`` and ``f`` must be there. A column ``value`` of texts holds JSON, since one column cannot hold numbers and lists
else; of any other type, and in all other columns, what stands there is the value. Rows are counted from 1, as lines
are. Source: Apache Parquet, as pyarrow reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.formats.errors import HistoryError, refuse
from nemesis.formats.events import Event, event_of
from nemesis.formats.json_lines import frozen_fields, parsed_value
from nemesis.formats.limits import EVENTS_MAX, FILE_BYTES_MAX, GROUP_BYTES_MAX
from nemesis.linearizability.operations import Value

_REQUIRED = ("process", "type", "f")
_BATCH_ROWS = 10_000
_BATCH_BYTES = 64 * 1024**2


def read_parquet(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError."""
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(file, path)
            rows = _check_sizes(file.metadata, path)
            texts = _texts(file.metadata)
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            row = 1
            for batch in file.iter_batches(batch_size=rows):
                batch.validate(full=True)  # a damaged file has texts of which its dictionary has none
                yield from _events(batch, path, row)
                row += batch.num_rows
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


def _check_sizes(metadata: pq.FileMetaData, path: Path) -> int:
    """How many rows may be read at once. Raises HistoryError where the file's end tells of too many bytes."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    total = sum(group.total_byte_size for group in groups)
    if total > FILE_BYTES_MAX:
        problem = f"the file has {total} bytes when it is decompressed, more than FILE_BYTES_MAX, {FILE_BYTES_MAX}"
        refuse(path, None, problem, "cut the history into several")
    # Nobody asks for a single column's size: of a damaged file, that ends the process (pyarrow 26).
    largest = max((group.total_byte_size for group in groups), default=0)
    if largest > GROUP_BYTES_MAX:
        problem = (
            f"a row group has {largest} bytes when it is decompressed, more than GROUP_BYTES_MAX, {GROUP_BYTES_MAX}"
        )
        refuse(path, None, problem, "write smaller row groups")
    widest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, widest)))


def _texts(metadata: pq.FileMetaData) -> list[str]:
    """The columns of texts, also those within lists and maps, by their paths."""
    columns = (metadata.schema.column(place) for place in range(metadata.num_columns))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _events(batch: pa.RecordBatch, path: Path, first: int) -> Iterator[Event | None]:
    """The events of rows that follow one another, the first of which is ``first``."""
    names = batch.schema.names
    values: dict[str, Value] = {}
    for row, entries in enumerate(zip(*map(_values, batch.columns), strict=True), first):
        present = {name: entry for name, entry in zip(names, entries, strict=True) if entry is not None}
        text = present.get("value")
        if not isinstance(text, str):
            yield event_of(frozen_fields(present, path, row), path, row)
            continue
        if text not in values:
            values[text] = frozen_fields({"value": parsed_value(text, path, row)}, path, row)["value"]
        del present["value"]
        yield event_of(frozen_fields(present, path, row) | {"value": values[text]}, path, row)


def _values(array: pa.Array) -> Sequence[Any]:
    """The entries as Python has them. Rows that have the same text, be it in lists, have one object."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        known = array.dictionary.to_pylist()
        return [None if place is None else known[place] for place in array.indices.to_pylist()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _slices(array, _values(array.values))
    if pa.types.is_map(kind):
        return _slices(array, list(zip(_values(array.keys), _values(array.items), strict=True)))
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        rows = [dict(zip(names, entries, strict=True)) for entries in zip(*map(_values, array.flatten()), strict=True)]
        return [entry if valid else None for entry, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    entries: Sequence[Any] = array.to_pylist()
    return entries


def _slices(array: Any, items: Sequence[Any]) -> Sequence[Any]:
    """The lists whose items these are."""
    ends = array.offsets.to_pylist()
    bounds = zip(ends, ends[1:], array.is_valid().to_pylist(), strict=False)
    return [items[begin:end] if valid else None for begin, end, valid in bounds]
