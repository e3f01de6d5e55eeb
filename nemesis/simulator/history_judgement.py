"""The history of a simulated run, judged by those who judge live runs.

Owns which of them judge what: logs by the checks of ``nemesis.checks``, objects of state machines each by its model.
Knows the history only.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.replica_events import ANY
from nemesis.checks.run_checks import CheckOptions, Findings, judge_partitions
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.checks.verdict import RunCounts
from nemesis.history.events import GAPLESS
from nemesis.history.schemas import Kind
from nemesis.history.tables import table_of
from nemesis.pipeline.local import judge_tables, of_run, pair_operations, with_run_id
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.pipeline.runs import log_events
from nemesis.pipeline.tally import count
from nemesis.simulator.climate import Climate
from nemesis.simulator.group_climate import COUNTER
from nemesis.simulator.record import Record
from nemesis.workload.counter import CounterWorkload
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.register import RegisterWorkload


def judge_record(run_id: str, record: Record, climate: Climate) -> tuple[RunCounts, Findings]:
    """What a run did, and what was found in it. Nothing has happened that it does not tell."""
    rows = ((Kind.HISTORY, record.history), (Kind.LOGS, record.logs), (Kind.EVENTS, record.events))
    history, logs, events = (table_of(kind, own) for kind, own in rows)
    if climate.group is None:
        # Nobody but clients writes to partitions; the leaders of a quorum log open their epochs in it.
        partitions = set() if climate.cluster is None else {row.topic_partition for row in record.history}
        declared = log_events(run_id, ((name, GAPLESS, ANY) for name in sorted(filter(None, partitions))))
        return judge_tables(run_id, history, logs, events, whole=True, declared=declared)
    return _judge_objects(
        run_id, history, of_run(logs, run_id, LOG_BATCH_SCHEMA), of_run(events, run_id, RUN_EVENT_SCHEMA)
    )


def _judge_objects(run_id: str, history: pa.Table, logs: pa.Table, events: pa.Table) -> tuple[RunCounts, Findings]:
    """Objects of two workloads in one history."""
    operations = pair_operations(history, run_id)
    findings = judge_partitions(operations.slice(0, 0), logs, events, CheckOptions())
    clients = with_run_id(history.filter(pc.greater_equal(history.column("process"), 0)), run_id)
    is_counter = pc.equal(clients.column("topic_partition"), f"{COUNTER}")
    parts: tuple[tuple[type[ObjectWorkload], pa.Array], ...] = (
        (RegisterWorkload, pc.invert(is_counter)),
        (CounterWorkload, is_counter),
    )
    for workload, own in parts:
        findings += judge_objects(clients.filter(own), {run_id: workload})
    return count(history, operations, logs, events), findings
