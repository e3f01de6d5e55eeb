"""Judge runs in this process, one after the other, without a JVM.

Owns operations, with Arrow; the judgement itself is that of ``nemesis.checks``. Spark judges the parts of a run with
the same functions, see ``key_by_key``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.objects import NONLINEARIZABLE
from nemesis.checks.partition import row_groups
from nemesis.checks.registry import LOG_CHECKS
from nemesis.checks.run_checks import CheckOptions, Findings, judge_partitions, not_judged
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, OPERATION_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.checks.verdict import RunCounts
from nemesis.history.events import (
    APPEND,
    DUMP,
    DUMPED,
    HARNESS_PROCESS,
    EventType,
)
from nemesis.history.pairing import UNRETURNED, pairs
from nemesis.history.reader import read_table
from nemesis.history.schemas import Kind
from nemesis.pipeline.judgement import Judgement, judgement_of
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.pipeline.runs import RunFolder, declared_logs
from nemesis.pipeline.tally import count
from nemesis.pipeline.weight import WEIGHT_MAX, Weight
from nemesis.workload.catalogue import USUAL
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.workload import Workload


def judge_locally(runs: Sequence[RunFolder], weight_max: int = WEIGHT_MAX) -> tuple[Judgement, ...]:
    """The judgements of these runs, in their order."""
    engine = {"name": "local", **{name: version(name) for name in ("numpy", "pyarrow")}}
    return tuple(_judge(run, engine, weight_max) for run in runs)


def _judge(run: RunFolder, engine: dict[str, str], weight_max: int) -> Judgement:
    history, logs, events = (read_table(run.shards[kind]) for kind in (Kind.HISTORY, Kind.LOGS, Kind.EVENTS))
    counts, findings = judge_tables(
        run.run_id,
        history,
        logs,
        events,
        whole=run.history_whole,
        evident=run.is_evident,
        workload=run.workload,
        declared=declared_logs(run),
        weight_max=weight_max,
    )
    return judgement_of(run, counts, findings.anomalies.to_pylist(), findings.coverage.to_pylist(), engine)


def judge_tables(  # noqa: PLR0913 - what is known of a run beside its tables has a name each
    run_id: str,
    history: pa.Table,
    logs: pa.Table,
    events: pa.Table,
    *,
    whole: bool,
    evident: bool = False,
    workload: type[Workload] = USUAL,
    declared: pa.Table | None = None,
    weight_max: int = WEIGHT_MAX,
) -> tuple[RunCounts, Findings]:
    """What one run did, and what was found in it, from the three tables of ``nemesis.history``.

    ``whole`` says that nothing can have happened that the history does not tell, ``evident`` that the run must hold
    evidence of all that it tells; ``declared`` (``RUN_EVENT_SCHEMA``) is what was said of its logs before it began. A
    topic-partition that has more than ``weight_max`` is counted and not judged.
    """
    operations = pair_operations(history, run_id)
    logs, events = of_run(logs, run_id, LOG_BATCH_SCHEMA), of_run(events, run_id, RUN_EVENT_SCHEMA)
    this, none = frozenset({run_id}), frozenset[str]()
    objects = {run_id: workload} if issubclass(workload, ObjectWorkload) else {}
    options = CheckOptions(
        incomplete_runs=this if objects or not whole else none, evident_runs=this if evident else none
    )
    done = with_run_id(_clients(history), run_id) if objects else operations
    told = pa.concat_tables([events, dumped_logs(history, run_id), *([] if declared is None else [declared])])
    heavy = heavy_ones([done, logs, told], weight_max)
    on_logs = operations.slice(0, 0) if objects else without(done, heavy)
    findings = judge_partitions(on_logs, without(logs, heavy), without(told, heavy), options)
    if objects:
        findings += judge_objects(without(done, heavy), objects)
    for key, why in heavy.items():
        findings += unseen(key, why, on_objects=bool(objects))
    return count(history, operations, logs, events), findings


def heavy_ones(tables: Sequence[pa.Table], weight_max: int) -> Mapping[tuple[str, str], str]:
    """Each (run_id, topic_partition) of which there is too much to judge it, and why."""
    if Weight(tables).why_not(weight_max) is None:
        return {}
    groups = [row_groups(table) for table in tables]
    keys = {key for group in groups for key in group}
    whys = {key: Weight([group[key] for group in groups if key in group]).why_not(weight_max) for key in keys}
    return {key: why for key, why in sorted(whys.items()) if why is not None}


def without(rows: pa.Table, heavy: Mapping[tuple[str, str], str]) -> pa.Table:
    """The rows of all other topic-partitions."""
    if not heavy:
        return rows
    names = pa.array([name for _, name in heavy])
    return rows.filter(pc.invert(pc.is_in(rows.column("topic_partition").fill_null(""), names)))


def unseen(key: tuple[str, str], why: str, *, on_objects: bool) -> Findings:
    """What is told of a (run_id, topic_partition) of which there is too much."""
    return not_judged(key, why, [*LOG_CHECKS, NONLINEARIZABLE] if on_objects else LOG_CHECKS)


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
    except (ValueError, RecursionError):
        return
    match told:
        case {"replicas": [int(replica_id)], "logs": dict(logs)}:
            for name, log in logs.items():
                match log:
                    case {"batches": int(batches)} if max(abs(replica_id), abs(batches)) < 1 << 63:
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
