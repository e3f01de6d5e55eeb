"""The columns that checks take and the columns that they give, and the closed sets of words in them.

Owns names and types of operations (paired invocations and completions), of replica logs and replica events with their
run, and of anomaly rows. Knows nothing of files or engines.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from nemesis.history.schemas import RECORDS_TYPE, REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA


class Severity(StrEnum):
    """Whether an anomaly convicts, only says that something could not be decided, or is what the system may do."""

    VIOLATION = "violation"
    UNKNOWN = "unknown"
    ALLOWED = "allowed"


OPERATION_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("topic_partition", pa.string(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("f", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("invoke_index", pa.int64(), nullable=False),
        pa.field("return_index", pa.int64()),
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("return_ns", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("records", RECORDS_TYPE),
        pa.field("high_watermark", pa.int64()),
        pa.field("leader_epoch", pa.int64()),
        pa.field("node", pa.int64()),
        pa.field("acks", pa.int64()),
        pa.field("limited", pa.bool_(), nullable=False),
        pa.field("strict", pa.bool_(), nullable=False),
        pa.field("seek", pa.bool_(), nullable=False),
        pa.field("error", pa.string()),
    ]
)
"""One operation a row. ``type`` is ok, fail or info; one that never completed is info, its return columns absent.

``offset`` is where an acknowledged append stands, ``position`` where a poll asked from. ``records`` and the columns
after it are those of the completion.
"""

MICRO_OPERATION_SCHEMA = pa.schema(
    [
        *OPERATION_SCHEMA,
        pa.field("place", pa.int64(), nullable=False),
        pa.field("committed", pa.bool_(), nullable=False),
        pa.field("subscribed", pa.bool_(), nullable=False),
        pa.field("rebalanced", pa.bool_(), nullable=False),
    ]
)
"""What transactions do: one row for each of their sends, one for all that their polls returned of a topic-partition.

The rows of one transaction have its ``invoke_index``; ``place`` is their order in it. ``committed`` is set of
transactions of unknown outcome of which something was read. A poll's topic-partition was ``subscribed`` where the group
assigned it, which may take a consumer back; it was ``rebalanced`` where that happened while the poll went on. Wherever
operations are taken, these may be taken: what has not these four columns has one micro-operation for each operation.
"""


def _of_runs(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field("run_id", pa.string(), nullable=False), *schema])


LOG_BATCH_SCHEMA = _of_runs(REPLICA_LOG_SCHEMA)
"""The replicas' final logs, of many runs."""

RUN_EVENT_SCHEMA = _of_runs(REPLICA_EVENT_SCHEMA)
"""What the replicas reported, of many runs."""

ANOMALY_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("topic_partition", pa.string(), nullable=False),
        pa.field("anomaly", pa.string(), nullable=False),
        pa.field("severity", pa.string(), nullable=False),
        pa.field("offsets", pa.list_(pa.int64()), nullable=False),
        pa.field("op_indexes", pa.list_(pa.int64()), nullable=False),
        pa.field("replicas", pa.list_(pa.int64()), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("evidence", pa.string(), nullable=False),
    ]
)
"""``op_indexes`` are the ``invoke_index`` of the operations involved; ``detail`` is a sentence, ``evidence`` JSON."""

COVERAGE_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("check", pa.string(), nullable=False),
        pa.field("looked", pa.int64(), nullable=False),
        pa.field("missed", pa.int64(), nullable=False),
        pa.field("why", pa.string(), nullable=False),
    ]
)
"""What a check has looked at in some topic-partitions of a run: ``checks.check.Coverage``. Several rows of one check
add up; a check without any had nothing to look at."""
