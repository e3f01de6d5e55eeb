"""The Arrow columns of the three tables of a run folder, and where in the folder they lie.

Owns names and types; what they mean is said in ``events``. Nothing is ever inferred from data.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

COMPLETE_MARKER = "_COMPLETE"
"""A file in ``history/``: the run was recorded to its end. Engines skip names that begin with an underscore."""


class Kind(StrEnum):
    """The tables of a run, each named as its folder."""

    HISTORY = "history"
    LOGS = "logs"
    EVENTS = "events"


RECORDS_TYPE = pa.list_(pa.struct([pa.field("offset", pa.int64()), pa.field("value", pa.int64())]))

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("f", pa.string(), nullable=False),
        pa.field("invoked", pa.int64()),
        pa.field("topic_partition", pa.string()),
        pa.field("value", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("records", RECORDS_TYPE),
        pa.field("high_watermark", pa.int64()),
        pa.field("leader_epoch", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("node", pa.int64()),
        pa.field("acks", pa.int64()),
        pa.field("limited", pa.bool_()),
        pa.field("strict", pa.bool_()),
        pa.field("seek", pa.bool_()),
        pa.field("detail", pa.string()),
    ]
)

REPLICA_LOG_SCHEMA = pa.schema(
    [
        pa.field("replica_id", pa.int64(), nullable=False),
        pa.field("topic_partition", pa.string(), nullable=False),
        pa.field("base_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("leader_epoch", pa.int64()),
        pa.field("crc", pa.int64()),
        pa.field("is_control", pa.bool_(), nullable=False),
        pa.field("values", pa.list_(pa.int64())),
        pa.field("high_watermark", pa.int64()),
        pa.field("log_start_offset", pa.int64(), nullable=False),
        pa.field("log_end_offset", pa.int64(), nullable=False),
        pa.field("complete", pa.bool_(), nullable=False),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int64()),
        pa.field("base_sequence", pa.int64()),
    ]
)

REPLICA_EVENT_SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("replica_id", pa.int64(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("epoch", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("topic_partition", pa.string()),
        pa.field("detail", pa.string()),
    ]
)

SCHEMAS = {Kind.HISTORY: HISTORY_SCHEMA, Kind.LOGS: REPLICA_LOG_SCHEMA, Kind.EVENTS: REPLICA_EVENT_SCHEMA}
