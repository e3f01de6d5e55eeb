"""The tables of operations on objects, of their judgements and of what was found: every column is declared here.

Owns the names and types, and nothing that computes. Numbers of functions and endings are those of
``nemesis.linearizability.arrays.columns``. What Parquet calls null is nil, or nothing.
"""

from __future__ import annotations

import pyarrow as pa

OPERATIONS = "operations"
OBJECTS = "objects"
KEYS = "keys"
ANOMALIES = "anomalies"

OPERATION_ROWS = pa.schema(
    [
        pa.field("object", pa.int64(), nullable=False),
        pa.field("process", pa.int64()),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("function", pa.int8(), nullable=False),
        pa.field("ending", pa.int8(), nullable=False),
        pa.field("argument", pa.int64()),
        pa.field("second", pa.int64()),
        pa.field("result", pa.int64()),
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("returned", pa.int64()),
        pa.field("records", pa.list_(pa.int64())),
        pa.field("text", pa.string()),
    ]
)
"""One operation: ``object`` numbers its object, ``line`` is where it stands in its file.

``returned`` is null where nobody knows the end. ``text`` has what no column holds, and then the function is OTHER:
``[process f argument result]`` in EDN.
"""
OPTIONAL = ("records", "text")
"""Columns that may have nothing in them in all of a folder, and are not moved about then."""

OBJECT_ROWS = pa.schema(
    [
        pa.field("object", pa.int64(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
    ]
)
"""The name of an object: the run it is from, and its key in EDN. An object without a row is named by its number."""

_OPERATION = pa.struct(
    [
        pa.field("line", pa.int64()),
        pa.field("process", pa.string()),
        pa.field("f", pa.string()),
        pa.field("argument", pa.string()),
        pa.field("result", pa.string()),
        pa.field("outcome", pa.string()),
    ]
)

JUDGEMENT_ROWS = pa.schema(
    [
        pa.field("object", pa.int64(), nullable=False),
        pa.field("window", pa.int32(), nullable=False),
        pa.field("operations", pa.int64(), nullable=False),
        pa.field("unknown_outcomes", pa.int64(), nullable=False),
        pa.field("judged", pa.int64(), nullable=False),
        pa.field("decided", pa.int64(), nullable=False),
        pa.field("configurations", pa.int64(), nullable=False),
        pa.field("kernel", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("last_line", pa.int64()),
        pa.field("conflict", pa.list_(_OPERATION)),
        pa.field("states", pa.list_(pa.string())),
    ]
)
"""The judgement of one object, or of one window of its history.

``operations`` counts all of them, ``judged`` those that say something, ``decided`` those of the longest prefix that is
known to be right. The last four columns are the evidence, null of what is valid: ``last_line`` is that of the operation
whose return cannot be explained, ``conflict`` the operations that cannot all be, ``states`` what the object may have
been in just before. Values are in EDN.
"""

KEY_ROWS = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "key")),
        *(JUDGEMENT_ROWS.field(name) for name in ("object", "operations", "unknown_outcomes", "judged", "decided")),
        pa.field("windows", pa.int32(), nullable=False),
        *(JUDGEMENT_ROWS.field(name) for name in ("kernel", "configurations", "verdict")),
    ]
)
"""The table of results with a row for each object; partitioned by nothing, written as ``keys/*.parquet``."""

ANOMALY_ROWS = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("run_id", "key")),
        pa.field("object", pa.int64(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        *(JUDGEMENT_ROWS.field(name) for name in ("verdict", "kernel", "window", "reason", "last_line")),
        *(JUDGEMENT_ROWS.field(name) for name in ("conflict", "states")),
    ]
)
"""The table of results with a row for each object that is not valid, and the evidence."""
