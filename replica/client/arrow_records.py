"""Records that were read as arrays of Arrow: the buffers of their columns as they are, no object for a record."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from replica.client.polled import PolledRecords
from replica.records import NO_TIMESTAMP
from replica.records.decoding import Strings

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
RECORDS_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
"""The columns of what is polled. A record without a timestamp has null."""


def table_of(polled: Iterable[PolledRecords]) -> pa.Table:
    """All of these in one table, a chunk for each partition."""
    return pa.Table.from_batches([batch_of(each) for each in polled], schema=RECORDS_SCHEMA)


def batch_of(polled: PolledRecords) -> pa.RecordBatch:
    """Make a batch of records of one partition."""
    columns, start, count = polled.columns, polled.start, len(polled)
    whole = len(columns)
    topic, partition = polled.topic_partition
    arrays = [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        _numbers(pa.int64(), columns.offsets).slice(start, count),
        _numbers(pa.int32(), columns.leader_epochs).slice(start, count),
        _times(_numbers(pa.int64(), columns.timestamps_ms).slice(start, count)),
        _strings(pa.binary(), columns.keys).slice(start, count),
        _strings(pa.binary(), columns.values).slice(start, count),
        _headers(polled, whole).slice(start, count),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS_SCHEMA)


def _numbers(kind: pa.DataType, numbers: object) -> pa.Array:
    buffer = pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, buffer.size // (kind.bit_width // 8), [None, buffer])


def _times(times: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    known = pc.if_else(pc.equal(times, NO_TIMESTAMP), None, times)
    return known.cast(pa.timestamp("ms", tz="UTC"))


def _strings(kind: pa.DataType, strings: Strings) -> pa.Array:
    validity = pa.py_buffer(strings.validity) if strings.null_count else None
    buffers = [validity, pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
    return pa.Array.from_buffers(kind, len(strings), buffers, strings.null_count)


def _headers(polled: PolledRecords, rows: int) -> pa.Array:
    columns = polled.columns
    pairs = pa.StructArray.from_arrays(
        [_strings(pa.string(), columns.names), _strings(pa.binary(), columns.contents)],
        fields=list(HEADERS_TYPE.value_field.type),
    )
    buffers = [None, pa.py_buffer(columns.header_offsets)]
    return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, 0, 0, [pairs])
