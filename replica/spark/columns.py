"""Records as Arrow columns and Arrow columns as records: what a table of a topic looks like, and what may be written.

Values only; no cluster and no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica.client.arrow_records import RECORDS_SCHEMA
from replica.client.polled import PolledRecords
from replica.records import Header
from replica.spark.errors import ColumnError

TABLE_SCHEMA = RECORDS_SCHEMA.set(
    RECORDS_SCHEMA.get_field_index("timestamp"), pa.field("timestamp", pa.timestamp("us", tz="UTC"))
)
"""What Spark wants for the table's type in ``source``."""

WRITTEN_COLUMNS = {
    "topic": ("string",),
    "partition": ("int",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""What can be written, with the types that it may have: ``value`` must be there, ``topic`` unless an option says it."""

_YEAR_1_MS, _YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row on its way into a topic. Without ``partition`` the key decides, or nothing does."""

    topic: str | None
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def batch_of(polled: PolledRecords) -> pa.RecordBatch:
    """Make a table of records of one partition."""
    batch = polled.to_arrow()
    at = TABLE_SCHEMA.get_field_index("timestamp")
    columns = list(batch.columns)
    columns[at] = _microseconds(columns[at])
    return pa.RecordBatch.from_arrays(columns, schema=TABLE_SCHEMA)


def _microseconds(times: pa.Array) -> pa.Array:
    """The times of records; none where one has none, or one that no calendar of Spark's has."""
    milliseconds = times.view(pa.int64())
    has_calendar = pc.and_(pc.greater_equal(milliseconds, _YEAR_1_MS), pc.less(milliseconds, _YEAR_10000_MS))
    known = pc.if_else(has_calendar, milliseconds, None)
    return pc.multiply(known, 1000).cast(TABLE_SCHEMA.field("timestamp").type)


def check_columns(types: dict[str, str], *, has_topic: bool) -> None:
    """Raise ColumnError unless columns of these types, in Spark's words, can be written."""
    allowed = ", ".join(f"{name} {' or '.join(allowed)}" for name, allowed in WRITTEN_COLUMNS.items())
    for name, type_ in types.items():
        if name not in WRITTEN_COLUMNS:
            raise ColumnError(f"column {name} cannot be written; select what can: {allowed}")
        if type_ not in WRITTEN_COLUMNS[name]:
            raise ColumnError(f"column {name} is {type_}; it must be {' or '.join(WRITTEN_COLUMNS[name])}")
    if "value" not in types:
        raise ColumnError(f"there is no column value; give it and any of these: {allowed}")
    if "topic" not in types and not has_topic:
        raise ColumnError("where the rows go is not said; give the option topic, or a column topic")


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch whose columns have been checked."""
    nothing = [None] * batch.num_rows
    columns = [batch.column(name).to_pylist() if name in batch.schema.names else nothing for name in WRITTEN_COLUMNS]
    for topic, partition, key, value, headers in zip(*columns, strict=True):
        yield Row(
            topic=topic,
            partition=partition,
            key=_bytes(key),
            value=_bytes(value),
            headers=tuple(_header(each) for each in headers or ()),
        )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _header(header: dict[str, Any] | None) -> Header:
    if header is None or header["key"] is None:
        raise ColumnError("a header without a key cannot be written")
    return header["key"], header["value"]
