"""Judge runs in this process, one after the other, without a JVM.

Owns operations and counts with Arrow and numpy; the judgement itself is that of ``nemesis.checks``. Must give the same
rows as ``frames``, step by step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.judge import CheckOptions, Findings, judge_partitions
from nemesis.checks.partition import NONE, ints
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, OPERATION_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.checks.verdict import COUNTED_EPOCHS, COUNTED_EVENTS, RunCounts
from nemesis.faults.catalogue import DEEDS, FAULT_NAMES
from nemesis.history.events import (
    APPEND,
    BECAME_LEADER,
    DUMP,
    DUMPED,
    FINAL_READ,
    HARNESS_PROCESS,
    METADATA_LOG,
    NEMESIS_PROCESS,
    ON_LOGS,
    POLL,
    STARTED,
    EventType,
)
from nemesis.history.pairing import UNRETURNED, pairs
from nemesis.history.reader import read_table
from nemesis.history.schemas import Kind
from nemesis.history.workloads import Workload
from nemesis.pipeline.judgement import Judgement, judgement_of
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.pipeline.runs import RunFolder, due_logs


def judge_locally(runs: Sequence[RunFolder]) -> tuple[Judgement, ...]:
    """The judgements of these runs, in their order."""
    engine = {"name": "local", **{name: version(name) for name in ("numpy", "pyarrow")}}
    return tuple(_judge(run, engine) for run in runs)


def _judge(run: RunFolder, engine: dict[str, str]) -> Judgement:
    history, logs, events = (read_table(run.shards[kind]) for kind in (Kind.HISTORY, Kind.LOGS, Kind.EVENTS))
    whole, evident, workload = run.history_whole, run.is_evident, run.workload
    counts, findings = judge_tables(
        run.run_id, history, logs, events, whole=whole, evident=evident, workload=workload, due=due_logs(run)
    )
    return judgement_of(run, counts, findings.anomalies.to_pylist(), findings.coverage.to_pylist(), engine)


def judge_tables(
    run_id: str,
    history: pa.Table,
    logs: pa.Table,
    events: pa.Table,
    *,
    whole: bool,
    evident: bool = False,
    workload: Workload = Workload.APPEND,
    due: pa.Table | None = None,
) -> tuple[RunCounts, Findings]:
    """What one run did, and what was found in it, from the three tables of ``nemesis.history``.

    ``whole`` says that nothing can have happened that the history does not tell, ``evident`` that the run must hold
    evidence of all that it tells, ``due`` (``RUN_EVENT_SCHEMA``) of which logs in any case.
    """
    operations = pair_operations(history, run_id)
    logs, events = of_run(logs, run_id, LOG_BATCH_SCHEMA), of_run(events, run_id, RUN_EVENT_SCHEMA)
    this, none = frozenset({run_id}), frozenset[str]()
    tells_all = whole and not workload.is_on_objects
    options = CheckOptions(incomplete_runs=none if tells_all else this, evident_runs=this if evident else none)
    on_logs = operations.slice(0, 0) if workload.is_on_objects else operations
    told = pa.concat_tables([events, dumped_logs(history, run_id), *([] if due is None else [due])])
    findings = judge_partitions(on_logs, logs, told, options)
    if workload.is_on_objects:
        findings += judge_objects(with_run_id(_clients(history), run_id), {run_id: workload})
    return count(history, operations, logs, events), findings


def of_run(table: pa.Table, run_id: str, schema: pa.Schema) -> pa.Table:
    """The table with its run's name as the first column."""
    return with_run_id(table, run_id).cast(schema)


def with_run_id(table: pa.Table, run_id: str) -> pa.Table:
    """The table with a first column that names its run."""
    return table.add_column(0, "run_id", pa.array([run_id] * table.num_rows, pa.string()))


def dumped_logs(history: pa.Table, run_id: str) -> pa.Table:
    """What the history says of each log that was dumped, as events (``RUN_EVENT_SCHEMA``)."""
    is_dump = pc.and_(pc.equal(history.column("process"), HARNESS_PROCESS), pc.equal(history.column("f"), DUMP))
    ended = pc.equal(history.column("type"), EventType.INFO.value)
    rows = history.filter(pc.and_(is_dump, ended)).select(["time_ns", "detail"]).to_pylist()
    return pa.Table.from_pylist(
        [
            {"run_id": run_id, "time_ns": row["time_ns"], "replica_id": replica_id, "event": DUMPED}
            | {"offset": batches, "topic_partition": topic_partition}
            for row in rows
            for replica_id, topic_partition, batches in _dumps(row["detail"])
        ],
        schema=RUN_EVENT_SCHEMA,
    )


def _dumps(detail: str | None) -> Iterator[tuple[int, str, int]]:
    """Replica, topic-partition and number of batches of each dump; what is not of this shape is passed over."""
    try:
        told = json.loads(detail or "{}")
    except ValueError:
        return
    match told:
        case {"replicas": [int(replica_id)], "logs": dict(logs)}:
            for name, log in logs.items():
                match log:
                    case {"batches": int(batches)}:
                        yield replica_id, name, batches


def pair_operations(history: pa.Table, run_id: str) -> pa.Table:
    """History to operations (``OPERATION_SCHEMA``). An invocation without its completion is of unknown outcome: its
    process was killed or replaced."""
    clients = _clients(history)
    begins, ends = pairs(clients)
    begin = clients.take(pa.array(begins))
    end = clients.take(pa.array(ends, mask=ends == UNRETURNED))
    is_append = pc.equal(begin.column("f"), APPEND)
    absent = pa.scalar(None, pa.int64())
    columns: dict[str, Any] = {
        "run_id": pa.array([run_id] * begin.num_rows, pa.string()),
        "topic_partition": begin.column("topic_partition").fill_null(""),
        "process": begin.column("process"),
        "f": begin.column("f"),
        "type": end.column("type").fill_null(EventType.INFO.value),
        "invoke_index": begin.column("index"),
        "return_index": end.column("index"),
        "invoke_ns": begin.column("time_ns"),
        "return_ns": end.column("time_ns"),
        "value": begin.column("value"),
        "offset": pc.if_else(is_append, end.column("offset"), absent),
        "position": pc.if_else(is_append, absent, begin.column("offset")),
        "records": end.column("records"),
        "high_watermark": end.column("high_watermark"),
        "leader_epoch": end.column("leader_epoch"),
        "node": pc.coalesce(end.column("node"), begin.column("node")),
        "acks": begin.column("acks"),
        "limited": pc.coalesce(end.column("limited"), begin.column("limited"), False),
        "strict": pc.coalesce(begin.column("strict"), end.column("strict"), False),
        "seek": pc.coalesce(begin.column("seek"), end.column("seek"), False),
        "error": end.column("error"),
    }
    return pa.table([columns[name] for name in OPERATION_SCHEMA.names], names=OPERATION_SCHEMA.names).cast(
        OPERATION_SCHEMA
    )


def _clients(history: pa.Table) -> pa.Table:
    """The events of clients."""
    return history.filter(pc.greater_equal(history.column("process"), 0))


def count(history: pa.Table, operations: pa.Table, logs: pa.Table, events: pa.Table) -> RunCounts:
    """What the run did and what of it was looked at, in the words of ``RunCounts``."""
    told_by_clients = _true(pc.greater_equal(history.column("process"), 0))
    paired = operations.num_rows - operations.column("return_index").null_count
    acked = operations.filter(_rows(operations, APPEND, EventType.OK))
    weak = acked.column("acks").is_valid()
    placed = pc.and_not(acked.column("offset").is_valid(), weak)
    read = operations.column("records").filter(_polls(operations, EventType.OK))
    final_reads = operations.filter(pc.equal(operations.column("f"), FINAL_READ))
    saw_the_end = pc.and_not(_rows(final_reads, FINAL_READ, EventType.OK), final_reads.column("limited"))
    harness = pc.equal(history.column("process"), HARNESS_PROCESS)
    dumped = logs.group_by(["topic_partition", "replica_id"]).aggregate([("complete", "all")])
    elected = events.filter(pc.equal(events.column("event"), BECAME_LEADER))
    started = events.filter(pc.equal(events.column("event"), STARTED))
    of_clients, about_logs = _of_clients(elected), _of_clients(events)
    written = _of_clients(logs.filter(logs.column("leader_epoch").is_valid()))
    on_objects = operations.filter(pc.invert(pc.is_in(operations.column("f"), pa.array(sorted(ON_LOGS)))))
    ended = {kind: _true(pc.equal(on_objects.column("type"), kind)) for kind in ("ok", "fail", "info")}
    indexes = ints(history, "index")
    return RunCounts(
        events=len(indexes),
        index_end=int(indexes.max(initial=-1)) + 1,
        repeated=len(indexes) - len(np.unique(indexes[indexes >= 0])),
        backwards=_true(pc.less(operations.column("return_ns"), operations.column("invoke_ns"))),
        orphans=told_by_clients - operations.num_rows - paired,
        **_outcomes(operations),
        append_weak=_true(weak),
        **{f"operations_{kind}": number for kind, number in ended.items()},
        objects=_distinct(on_objects, "topic_partition"),
        acked_checked=_true(placed) + ended["ok"],
        values_read=int(pc.sum(pc.list_value_length(read)).as_py() or 0),
        final_reads=_distinct(final_reads, "topic_partition"),
        final_reads_whole=_distinct(final_reads.filter(saw_the_end), "topic_partition"),
        **_bite(history, elected),
        harness_failures=_true(pc.and_(harness, pc.equal(history.column("type"), EventType.FAIL.value))),
        logs_dumped=dumped.num_rows,
        logs_dumped_completely=_true(dumped.column("complete_all")),
        batches_dumped=_true(logs.column("base_offset").is_valid()),
        replicas_silent=len(set(ints(logs, "replica_id").tolist()) - set(ints(events, "replica_id").tolist())),
        replicas_undumped=len(set(ints(started, "replica_id").tolist()) - set(ints(logs, "replica_id").tolist())),
        leader_elections=_distinct(of_clients, "topic_partition", "epoch"),
        logs_led=_distinct(of_clients, "topic_partition"),
        controller_elections=_distinct(
            elected.filter(pc.equal(elected.column("topic_partition"), METADATA_LOG)), "epoch"
        ),
        **{name: _told(about_logs, event).num_rows for name, event in COUNTED_EVENTS.items()},
        **{
            name: _distinct(_told(about_logs, event), "topic_partition", "epoch")
            for name, event in COUNTED_EPOCHS.items()
        },
        epochs=_distinct(written, "topic_partition", "leader_epoch"),
        topic_partitions=_distinct(written, "topic_partition"),
        epoch_max=max(_largest(written, "leader_epoch"), _largest(about_logs, "epoch")),
    )


def _bite(history: pa.Table, elected: pa.Table) -> dict[str, int]:
    """What was done to the system, and how often leaders changed since then."""
    is_fault = pc.is_in(history.column("f"), pa.array(sorted(FAULT_NAMES | DEEDS)))
    rows = history.filter(pc.and_(pc.equal(history.column("process"), NEMESIS_PROCESS), is_fault))
    invoked_ns: dict[str, int] = {}
    deeds_ns: list[int] = []
    tried = 0
    for row in rows.select(["index", "f", "type", "time_ns"]).sort_by("index").to_pylist():
        if row["type"] == EventType.INVOKE:
            invoked_ns[row["f"]] = row["time_ns"]
            continue
        began_ns = invoked_ns.pop(row["f"], row["time_ns"])
        tried += 1
        if row["f"] in DEEDS and row["type"] != EventType.FAIL:
            deeds_ns.append(began_ns)
    asked = history.filter(pc.greater_equal(history.column("process"), 0))
    asked_ns = pc.min(asked.column("time_ns")).as_py()
    since_ns = None if asked_ns is None or not deeds_ns else max(asked_ns, min(deeds_ns))
    return {
        "faults": len(deeds_ns),
        "faults_tried": tried,
        "leader_changes": _changes(_of_clients(elected), asked_ns),
        "changes_after_faults": _changes(elected, since_ns),
    }


def _changes(elected: pa.Table, since_ns: int | None) -> int:
    """How often, since then, a log that was led was led in another epoch; never, if that time never came."""
    if since_ns is None:
        return 0
    epochs = elected.group_by(["topic_partition", "epoch"]).aggregate([("time_ns", "min")])
    later = pc.greater(epochs.column("time_ns_min"), since_ns)
    led = pc.unique(epochs.filter(pc.invert(later)).column("topic_partition"))
    changed = epochs.filter(later).column("topic_partition")
    return len(changed) - len(set(pc.unique(changed).to_pylist()) - set(led.to_pylist()))


def _of_clients(rows: pa.Table) -> pa.Table:
    """The rows about logs that clients write to, and those about no log."""
    return rows.filter(pc.not_equal(rows.column("topic_partition").fill_null(""), METADATA_LOG))


def _told(events: pa.Table, event: str) -> pa.Table:
    """The events of one kind."""
    return events.filter(pc.equal(events.column("event"), event))


def _largest(rows: pa.Table, column: str) -> int:
    return int(ints(rows, column).max(initial=NONE))


def _distinct(rows: pa.Table, *columns: str) -> int:
    """How many different entries these columns have; absent is one of them."""
    if not rows.num_rows:
        return 0
    if len(columns) == 1:
        return int(pc.count_distinct(rows.column(columns[0]), mode="all").as_py())
    return int(rows.group_by(list(columns)).aggregate([]).num_rows)


def _outcomes(operations: pa.Table) -> dict[str, int]:
    groups = operations.group_by(["f", "type"]).aggregate([([], "count_all")]).to_pylist()
    found = {(group["f"], group["type"]): group["count_all"] for group in groups}
    counts = {}
    for kind in (EventType.OK, EventType.FAIL, EventType.INFO):
        counts[f"append_{kind}"] = found.get((APPEND, kind.value), 0)
        counts[f"poll_{kind}"] = sum(found.get((f, kind.value), 0) for f in (POLL, FINAL_READ))
    return counts


def _rows(operations: pa.Table, f: str, kind: EventType) -> Any:
    return pc.and_(pc.equal(operations.column("f"), f), pc.equal(operations.column("type"), kind.value))


def _polls(operations: pa.Table, kind: EventType) -> Any:
    return pc.or_(_rows(operations, POLL, kind), _rows(operations, FINAL_READ, kind))


def _true(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)
