"""Run every check over every topic-partition of a call: the kernel that each engine calls.

Owns the list of checks, the rule that a check that raises says *unknown* of its topic-partition and stops nothing
else, and the rule that what only explains an anomaly never takes its place. Columns in, rows out: no engine, no files,
no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nemesis.checks.anomalies import Anomaly, anomaly_row, anomaly_table, bounded
from nemesis.checks.cycles import cycles
from nemesis.checks.evidence import as_dumped, check_missing_evidence
from nemesis.checks.high_watermarks import check_committed_truncated, check_high_watermark_regression
from nemesis.checks.in_sync import check_incomplete_isr, check_isr_not_restored
from nemesis.checks.losses import check_lost_write, check_unseen
from nemesis.checks.partition import (
    Partition,
    operations_of,
    partition_keys,
    replica_logs_of,
    row_groups,
)
from nemesis.checks.placement import check_duplicate, check_inconsistent_offsets
from nemesis.checks.provenance import check_aborted_read, check_malformed_operation, check_phantom_read
from nemesis.checks.real_time import (
    check_acknowledged_epochs,
    check_fenced_acknowledgement,
    check_hole,
    check_realtime_reorder,
    check_stale_read,
)
from nemesis.checks.replica_events import replica_events_of
from nemesis.checks.replica_logs import (
    check_diverged_log,
    check_epoch_regression,
    check_replica_stopped,
    check_two_leaders,
)
from nemesis.checks.schemas import (
    LOG_BATCH_SCHEMA,
    OPERATION_SCHEMA,
    RUN_EVENT_SCHEMA,
    AnomalyName,
    Severity,
)
from nemesis.checks.sends import check_int_nonmonotonic_send, check_int_send_skip, check_nonmonotonic_send
from nemesis.checks.sequences import check_duplicate_sequence, check_out_of_order_sequence
from nemesis.checks.sessions import (
    check_int_nonmonotonic_poll,
    check_int_poll_skip,
    check_nonmonotonic_poll,
    check_poll_skip,
    check_uncommitted_read,
)
from nemesis.checks.transactions import check_precommitted_read, with_committed
from nemesis.checks.unclean_elections import Cuts

Check = Callable[[Partition], Iterable[Anomaly]]

CHECKS: Sequence[Check] = (
    check_missing_evidence,
    check_malformed_operation,
    check_inconsistent_offsets,
    check_duplicate,
    check_phantom_read,
    check_aborted_read,
    check_precommitted_read,
    check_lost_write,
    check_unseen,
    check_nonmonotonic_poll,
    check_poll_skip,
    check_int_nonmonotonic_poll,
    check_int_poll_skip,
    check_uncommitted_read,
    check_nonmonotonic_send,
    check_int_nonmonotonic_send,
    check_int_send_skip,
    check_realtime_reorder,
    check_stale_read,
    check_hole,
    check_acknowledged_epochs,
    check_fenced_acknowledgement,
    check_duplicate_sequence,
    check_out_of_order_sequence,
    check_diverged_log,
    check_committed_truncated,
    check_high_watermark_regression,
    check_incomplete_isr,
    check_isr_not_restored,
    check_epoch_regression,
    check_two_leaders,
    check_replica_stopped,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What the columns do not say: which runs do not tell all that happened to their logs, which must hold evidence of
    all that they tell, and whether every offset of every log holds a value."""

    incomplete_runs: frozenset[str] = frozenset()
    evident_runs: frozenset[str] = frozenset()
    gapless: bool = False


def judge_partitions(
    operations: pa.Table,
    logs: pa.Table,
    events: pa.Table,
    options: CheckOptions = CheckOptions(),
    checks: Sequence[Check] = CHECKS,
) -> pa.Table:
    """Judge each (run_id, topic_partition) of the three tables on its own; returns ``ANOMALY_SCHEMA`` in its one order.

    The tables are ``OPERATION_SCHEMA``, ``LOG_BATCH_SCHEMA`` and ``RUN_EVENT_SCHEMA``, rows in any order, and hold all
    rows of every (run_id, topic_partition) that they hold one of. At most some 2 million operations a call.
    """
    groups = tuple(row_groups(table) for table in (operations, logs, events))
    rows = (
        row
        for key in partition_keys(*groups)
        for row in _partition_rows(key, [group.get(key) for group in groups], options, checks)
    )
    return anomaly_table(rows)


def judge_transactions(operations: pa.Table, options: CheckOptions = CheckOptions()) -> pa.Table:
    """Judge operations that may touch several topic-partitions; returns ``ANOMALY_SCHEMA`` in its one order.

    ``operations`` is ``MICRO_OPERATION_SCHEMA``, rows in any order, and has all topic-partitions of each of its runs.
    """
    table = with_committed(operations)
    nothing = (LOG_BATCH_SCHEMA.empty_table(), RUN_EVENT_SCHEMA.empty_table())
    rows = judge_partitions(table, *nothing, options).to_pylist()
    groups = row_groups(table)
    for run_id in sorted({run_id for run_id, _ in groups}):
        rows += _cycle_rows(run_id, {key: rows for key, rows in groups.items() if key[0] == run_id}, options)
    return anomaly_table(rows)


def _cycle_rows(
    run_id: str, groups: dict[tuple[str, str], pa.Table], options: CheckOptions
) -> Iterator[dict[str, Any]]:
    """The circles of one run; the row that counts those left out is of no topic-partition."""
    try:
        partitions = [partition_of(key, [groups[key], None, None], options) for key in sorted(groups)]
        found = list(cycles(partitions))
    except Exception as error:
        yield anomaly_row(run_id, "", _crashed("the search for cycles", error))
        return
    where = {id(anomaly): topic_partition for topic_partition, anomaly in found}
    for anomaly in bounded([anomaly for _, anomaly in found]):
        yield anomaly_row(run_id, where.get(id(anomaly), ""), anomaly)


def _partition_rows(
    key: tuple[str, str], tables: Sequence[pa.Table | None], options: CheckOptions, checks: Sequence[Check]
) -> Iterator[dict[str, Any]]:
    run_id, topic_partition = key
    try:
        partition = partition_of(key, tables, options)
    except Exception as error:
        yield anomaly_row(run_id, topic_partition, _crashed("reading the columns", error))
        return
    explained = _explainer(partition)
    for check in checks:
        try:
            found = list(bounded(map(explained, check(partition))))
        except Exception as error:
            found = [_crashed(check.__name__, error)]
        yield from (anomaly_row(run_id, topic_partition, anomaly) for anomaly in found)


def _explainer(partition: Partition) -> Callable[[Anomaly], Anomaly]:
    """Adds to an anomaly why it is there, where that is known; what goes wrong in finding out leaves it as it is."""
    try:
        cuts = Cuts(partition)
    except Exception:
        return lambda anomaly: anomaly

    def explained(anomaly: Anomaly) -> Anomaly:
        try:
            return cuts.explained(anomaly)
        except Exception:
            return anomaly

    return explained


def partition_of(key: tuple[str, str], tables: Sequence[pa.Table | None], options: CheckOptions) -> Partition:
    """One topic-partition from its operations, replica logs and replica events, any of them absent."""
    schemas = (OPERATION_SCHEMA, LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA)
    operations, logs, events = (
        schema.empty_table() if table is None else table for table, schema in zip(tables, schemas, strict=True)
    )
    own, told = operations_of(operations), replica_events_of(events)
    evidence_due = key[0] in options.evident_runs
    return Partition(
        run_id=key[0],
        topic_partition=key[1],
        operations=own,
        logs=as_dumped(replica_logs_of(logs), own, told, evidence_due=evidence_due),
        events=told,
        history_complete=key[0] not in options.incomplete_runs,
        evidence_due=evidence_due,
        gapless=options.gapless,
    )


def _crashed(what: str, error: Exception) -> Anomaly:
    said = f"{type(error).__name__}: {error}"
    return Anomaly(
        name=AnomalyName.CHECK_CRASHED,
        severity=Severity.UNKNOWN,
        detail=f"{what} raised {said}: what it judges is unknown",
        evidence={"check": what, "error": said},
    )
