"""The columns that checks take and the columns that they give, and the closed sets of words in them.

Owns names and types of operations (paired invocations and completions), of replica logs and replica events with their
run, and of anomaly rows. Knows nothing of files or engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import pyarrow as pa

from nemesis.history.schemas import RECORDS_TYPE, REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA


class AnomalyName(StrEnum):
    """Everything that a check can find."""

    LOST_WRITE = "lost-write"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    PHANTOM_READ = "phantom-read"
    ABORTED_READ = "aborted-read"
    PRECOMMITTED_READ = "precommitted-read"
    UNCOMMITTED_READ = "uncommitted-read"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    POLL_SKIP = "poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    INT_POLL_SKIP = "int-poll-skip"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    INT_SEND_SKIP = "int-send-skip"
    WRITE_CYCLE = "G0"
    WRITE_CYCLE_PROCESS = "G0-process"
    WRITE_CYCLE_REALTIME = "G0-realtime"
    CIRCULAR_INFORMATION_FLOW = "G1c"
    CIRCULAR_INFORMATION_FLOW_PROCESS = "G1c-process"
    CIRCULAR_INFORMATION_FLOW_REALTIME = "G1c-realtime"
    REALTIME_REORDER = "realtime-reorder"
    STALE_READ = "stale-read"
    HOLE = "hole"
    UNSEEN = "unseen"
    FENCED_ACKNOWLEDGEMENT = "fenced-acknowledgement"
    DUPLICATE_SEQUENCE = "duplicate-sequence"
    OUT_OF_ORDER_SEQUENCE = "out-of-order-sequence"
    DIVERGED_LOG = "diverged-log"
    COMMITTED_TRUNCATED = "committed-truncated"
    HIGH_WATERMARK_REGRESSION = "high-watermark-regression"
    INCOMPLETE_ISR = "incomplete-isr"
    ISR_NOT_RESTORED = "isr-not-restored"
    EPOCH_REGRESSION = "epoch-regression"
    TWO_LEADERS = "two-leaders"
    REPLICA_STOPPED = "replica-stopped"
    NONLINEARIZABLE = "nonlinearizable"
    WRONG_ORDER = "wrong-order"
    MISSING_EVIDENCE = "missing-evidence"
    MALFORMED_OPERATION = "malformed-operation"
    CHECK_CRASHED = "check-crashed"


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

DEFINITIONS: Mapping[AnomalyName, str] = MappingProxyType(
    {
        AnomalyName.LOST_WRITE: "an acknowledged value is missing where it must stand",
        AnomalyName.DUPLICATE: "one value stands at several offsets",
        AnomalyName.INCONSISTENT_OFFSETS: "several values were seen at one offset",
        AnomalyName.PHANTOM_READ: "a value was read that nobody wrote",
        AnomalyName.ABORTED_READ: "a value was read whose write definitely failed",
        AnomalyName.PRECOMMITTED_READ: "a transaction read what it wrote itself and had not yet committed",
        AnomalyName.UNCOMMITTED_READ: "a poll returned records at or above the high watermark that came with them",
        AnomalyName.NONMONOTONIC_POLL: "a consumer's position went back",
        AnomalyName.POLL_SKIP: "a consumer passed over a value that stands in the log",
        AnomalyName.INT_NONMONOTONIC_POLL: "what one operation polled does not ascend",
        AnomalyName.INT_POLL_SKIP: "what one operation polled passes over a value that stands in the log",
        AnomalyName.NONMONOTONIC_SEND: "a process's later send stands below its earlier one",
        AnomalyName.INT_NONMONOTONIC_SEND: "of two sends of one transaction, the later one stands below the first",
        AnomalyName.INT_SEND_SKIP: "between two sends of one transaction stands what another has sent",
        AnomalyName.WRITE_CYCLE: "transactions stand before one another in a circle of logs",
        AnomalyName.WRITE_CYCLE_PROCESS: "such a circle closes only by the order of what one process did",
        AnomalyName.WRITE_CYCLE_REALTIME: "such a circle closes only because one was over before another began",
        AnomalyName.CIRCULAR_INFORMATION_FLOW: "transactions read from one another in a circle",
        AnomalyName.CIRCULAR_INFORMATION_FLOW_PROCESS: "a transaction read from what its process did after it",
        AnomalyName.CIRCULAR_INFORMATION_FLOW_REALTIME: "a transaction read from what began after it was over",
        AnomalyName.REALTIME_REORDER: "an append began after a longer log was known, and was placed before its end",
        AnomalyName.STALE_READ: "a read that promised recency missed what was known before it began",
        AnomalyName.HOLE: "an offset below the end of the log that no append can have filled",
        AnomalyName.UNSEEN: "an acknowledged value that nothing has ever shown",
        AnomalyName.FENCED_ACKNOWLEDGEMENT: "a leader acknowledged a write that began after a later leader had one",
        AnomalyName.DUPLICATE_SEQUENCE: "one number of a producer stands at several offsets",
        AnomalyName.OUT_OF_ORDER_SEQUENCE: "a producer's batch does not follow upon the one before it",
        AnomalyName.DIVERGED_LOG: "two replicas hold different batches at one committed offset",
        AnomalyName.COMMITTED_TRUNCATED: "a replica cut off what it had said to be committed",
        AnomalyName.HIGH_WATERMARK_REGRESSION: "a leader's high watermark fell",
        AnomalyName.INCOMPLETE_ISR: "a replica that was said to be in sync lacks what is committed",
        AnomalyName.ISR_NOT_RESTORED: "replicas were not in sync again long after everything had healed",
        AnomalyName.EPOCH_REGRESSION: "leader epochs fall along a log",
        AnomalyName.TWO_LEADERS: "two replicas led in one epoch",
        AnomalyName.REPLICA_STOPPED: "a replica stopped by itself, though no fault excuses that",
        AnomalyName.NONLINEARIZABLE: "no order in which an object's operations took effect explains its answers",
        AnomalyName.WRONG_ORDER: "the revisions that the servers told of an object do not explain its answers",
        AnomalyName.MISSING_EVIDENCE: "what could have shown a violation is not there to be looked at",
        AnomalyName.MALFORMED_OPERATION: "an operation was recorded without what its kind must have",
        AnomalyName.CHECK_CRASHED: "a check raised, so that nothing is known of what it judges",
    }
)
"""What each anomaly means, in one line, for reports."""
