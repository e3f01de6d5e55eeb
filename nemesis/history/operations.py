"""The operations of a history as one table: a row for each, from its invocation to its completion.

Owns the columns that a person asks for, in plain units; what they mean otherwise is said in ``events``. Clients,
the harness and the nemesis are all there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.history.events import EventType
from nemesis.history.pairing import UNRETURNED, pairs
from nemesis.history.schemas import RECORDS_TYPE

NS_PER_SECOND = 1_000_000_000
NS_PER_MS = 1_000_000

OPERATIONS_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64()),
        pa.field("time", pa.float64()),
        pa.field("duration_ms", pa.float64()),
        pa.field("process", pa.int64()),
        pa.field("function", pa.string()),
        pa.field("key", pa.string()),
        pa.field("value", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("records", RECORDS_TYPE),
        pa.field("outcome", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("node", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
"""``time`` is seconds from the origin of the run to the invocation. ``key`` is the object or the topic-partition.
``offset`` is that at which a value stands, or the position of a poll. What never returned has no ``duration_ms``."""
ALSO_CALLED = {
    "f": "function",
    "type": "outcome",
    "partition": "key",
    "topic_partition": "key",
    "leader_epoch": "epoch",
}
"""Other names of these columns: those of the files, and what a key is in a log."""


def extent_ns(*tables: pa.Table) -> tuple[int, int]:
    """First and last moment of which anything is known; both 0 when nothing is."""
    extents = [pc.min_max(table.column("time_ns")).as_py() for table in tables if table.num_rows]
    return min((extent["min"] for extent in extents), default=0), max((extent["max"] for extent in extents), default=0)


def operations_of(history: pa.Table, origin_ns: int) -> pa.Table:
    """All operations in order of their invocation. ``history`` has the columns of ``HISTORY_SCHEMA``.

    What a completion does not repeat is that of its invocation; one that never returned is *info*.
    """
    begins, ends = pairs(history)
    returned = ends != UNRETURNED
    begun = history.take(pa.array(begins))
    ended = history.take(pa.array(ends, mask=~returned))
    invoked_ns, returned_ns = (np.asarray(part.column("time_ns").fill_null(0), np.int64) for part in (begun, ended))
    told = {
        name: pc.coalesce(ended.column(name), begun.column(name))
        for name in ("value", "offset", "records", "leader_epoch", "node", "error", "detail")
    }
    columns = {
        "index": begun.column("index"),
        "time": pa.array((invoked_ns - origin_ns) / NS_PER_SECOND),
        "duration_ms": pa.array((returned_ns - invoked_ns) / NS_PER_MS, mask=~returned),
        "process": begun.column("process"),
        "function": begun.column("f"),
        "key": begun.column("topic_partition"),
        "outcome": pc.fill_null(ended.column("type"), EventType.INFO.value),
        "epoch": told.pop("leader_epoch"),
        **told,
    }
    return pa.table([columns[name] for name in OPERATIONS_SCHEMA.names], schema=OPERATIONS_SCHEMA)
