"""The pipeline on Spark as functions from DataFrame to DataFrame: history -> operations -> anomalies, and counts.

Owns the steps, no action: nothing here runs until ``spark`` collects. Must give the same rows as ``local``, step by
step. The judgement of a topic-partition is ``judge_partitions``, called over hash buckets of (run_id, topic_partition).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from nemesis.checks.judge import CheckOptions, Findings, judge_partitions
from nemesis.checks.schemas import (
    ANOMALY_SCHEMA,
    COVERAGE_SCHEMA,
    LOG_BATCH_SCHEMA,
    OPERATION_SCHEMA,
    RUN_EVENT_SCHEMA,
)
from nemesis.checks.verdict import COUNTED_EPOCHS, COUNTED_EVENTS
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
from nemesis.history.pairing import ECHOES
from nemesis.history.schemas import HISTORY_SCHEMA, Kind
from nemesis.history.workloads import Workload
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FACT_SCHEMAS = {
    Kind.HISTORY: OPERATION_SCHEMA,
    Kind.LOGS: LOG_BATCH_SCHEMA,
    Kind.EVENTS: RUN_EVENT_SCHEMA,
}
"""The three tables that are judged together: each is one struct column of a fact, named as its kind."""
_FOUND = {"anomaly": ANOMALY_SCHEMA, "coverage": COVERAGE_SCHEMA}
# In a row that has the other one, nothing of a struct is there: Spark does not take that for fields that never lack.
FINDING_SCHEMA = pa.schema(
    [pa.field(name, pa.struct([field.with_nullable(True) for field in schema])) for name, schema in _FOUND.items()]
)
"""What a judge gives back: in each row one of the two."""
KEY = ("run_id", "topic_partition")
STRETCH = 64
"""So many indexes are told apart by the bits of one number."""
ENDS = (EventType.OK.value, EventType.FAIL.value, EventType.INFO.value)
"""How an operation can end."""


def with_run_id(rows: DataFrame, folders: DataFrame) -> DataFrame:
    """Rows read from ``<folder>/<kind>/<shard>`` with the ``run_id`` of their folder (``folders``: folder, run_id)."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    # A path comes back as a URL; its plus signs are plus signs and not blanks.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    folder = F.regexp_extract(F.regexp_replace(path, "^file:/*", "/"), "^(.*)/[^/]+/[^/]+$", 1)
    # One row for each folder: the runs were made distinct by their resolved folders.
    return rows.withColumn("folder", folder).join(F.broadcast(folders), on="folder", how="inner").drop("folder")


def of_other_runs(rows: DataFrame, run_ids: Iterable[str]) -> DataFrame:
    """The rows of all runs but these. The names are a table, for there may be 100,000 of them."""
    from pyspark.sql import functions as F  # noqa: N812

    names = rows.sparkSession.createDataFrame(pa.table({"run_id": pa.array(run_ids, pa.string())}))
    return rows.join(F.broadcast(names), on="run_id", how="left_anti")


def paired_operations(history: DataFrame) -> DataFrame:
    """History to operations (``OPERATION_SCHEMA``): a completion names its invocation, as in ``history.pairing``."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    invoked = EventType.INVOKE.value
    is_end = F.col("type") != invoked
    clients = history.where(F.col("process") >= 0)
    numbered = clients.withColumn("operation", F.when(is_end, F.col("invoked")).otherwise(F.col("index")))
    following = F.lead(F.struct("*")).over(
        Window.partitionBy("run_id", "process", "operation").orderBy(is_end, "index")
    )
    rows = numbered.withColumn("next", following).where(F.col("type") == invoked)
    end = F.when((F.col("next.type") != invoked) & _asks_the_same(), F.col("next"))
    return rows.withColumn("end", end).select(*_operation_columns())


def _asks_the_same() -> Column:
    """Whether the next event can be the completion of this one."""
    from pyspark.sql import functions as F  # noqa: N812

    def same(column: str) -> Column:
        return F.coalesce(F.col(column) == F.col(f"next.{column}"), F.lit(True))

    log, next_log = (F.coalesce(name, F.lit("")) for name in ("topic_partition", "next.topic_partition"))
    repeated = [F.when(F.col("f") == f, same(column)) for f, column in ECHOES.items()]
    return (F.col("f") == F.col("next.f")) & (log == next_log) & F.coalesce(*repeated, F.lit(True))


def dumped_logs(history: DataFrame) -> DataFrame:
    """What the history says of each log that was dumped, as events (``RUN_EVENT_SCHEMA``)."""
    from pyspark.sql import functions as F  # noqa: N812

    is_dump = (F.col("process") == HARNESS_PROCESS) & (F.col("f") == DUMP) & (F.col("type") == EventType.INFO.value)
    told = F.from_json("detail", "replicas ARRAY<BIGINT>, logs MAP<STRING, STRUCT<batches: BIGINT>>")
    dumps = history.where(is_dump).withColumn("told", told).where(F.size("told.replicas") == 1)
    each = dumps.select("run_id", "time_ns", "told.replicas", F.explode("told.logs").alias("name", "log"))
    return each.where(F.col("log.batches").isNotNull() & F.col("replicas")[0].isNotNull()).select(
        "run_id",
        "time_ns",
        F.col("replicas")[0].alias("replica_id"),
        F.lit(DUMPED).alias("event"),
        F.lit(None).cast("bigint").alias("epoch"),
        F.col("log.batches").alias("offset"),
        F.col("name").alias("topic_partition"),
        F.lit(None).cast("string").alias("detail"),
    )


def _operation_columns() -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    is_append, false = F.col("f") == APPEND, F.lit(False)
    columns = {
        "topic_partition": F.coalesce("topic_partition", F.lit("")),
        "type": F.coalesce("end.type", F.lit(EventType.INFO.value)),
        "invoke_index": F.col("index"),
        "return_index": F.col("end.index"),
        "invoke_ns": F.col("time_ns"),
        "return_ns": F.col("end.time_ns"),
        "offset": F.when(is_append, F.col("end.offset")),
        "position": F.when(~is_append, F.col("offset")),
        "records": F.col("end.records"),
        "high_watermark": F.col("end.high_watermark"),
        "leader_epoch": F.col("end.leader_epoch"),
        "node": F.coalesce("end.node", "node"),
        "limited": F.coalesce("end.limited", "limited", false),
        "strict": F.coalesce("strict", "end.strict", false),
        "seek": F.coalesce("seek", "end.seek", false),
        "error": F.col("end.error"),
    }
    return [columns.get(name, F.col(name)).alias(name) for name in OPERATION_SCHEMA.names]


def facts(operations: DataFrame, logs: DataFrame, events: DataFrame) -> DataFrame:
    """The three tables as one: ``run_id``, ``topic_partition`` and, in each row, one of three structs."""
    from pyspark.sql import functions as F  # noqa: N812

    def fact(kind: Kind, rows: DataFrame) -> DataFrame:
        whole = F.struct(*FACT_SCHEMAS[kind].names)
        return rows.select(
            "run_id", F.coalesce("topic_partition", F.lit("")).alias("topic_partition"), whole.alias(kind)
        )

    parts = [fact(kind, rows) for kind, rows in zip(FACT_SCHEMAS, (operations, logs, events), strict=True)]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def findings(judged: DataFrame, options: CheckOptions, buckets: int) -> DataFrame:
    """Facts to findings (``FINDING_SCHEMA``): all facts of a topic-partition of a run are in one bucket."""
    from pyspark.sql.pandas.types import from_arrow_schema

    bucketed = judged.repartition(buckets, *KEY)
    return bucketed.mapInArrow(bucket_judge(options), from_arrow_schema(FINDING_SCHEMA))


def found_in(rows: pa.Table) -> Findings:
    """Rows of ``FINDING_SCHEMA`` as the two tables that they are."""
    anomalies, coverage = (_unpacked(rows, name, schema) for name, schema in _FOUND.items())
    return Findings(anomalies=anomalies, coverage=coverage)


def _packed(found: Findings) -> Iterator[pa.RecordBatch]:
    """The rows of ``FINDING_SCHEMA`` that these are."""
    for name, table in zip(FINDING_SCHEMA.names, (found.anomalies, found.coverage), strict=True):
        for batch in table.to_batches():
            rows = {field.name: pa.nulls(batch.num_rows, field.type) for field in FINDING_SCHEMA}
            columns = rows | {name: batch.to_struct_array().cast(FINDING_SCHEMA.field(name).type)}
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=FINDING_SCHEMA)


def bucket_judge(options: CheckOptions) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark calls with the batches of one bucket. It needs them all before it can judge any."""

    def judge_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = list(batches)
        if not gathered:
            return
        table = pa.Table.from_batches(gathered)
        operations, logs, events = (_unpacked(table, kind, schema) for kind, schema in FACT_SCHEMAS.items())
        yield from _packed(judge_partitions(operations, logs, events, options))

    return judge_bucket


def _unpacked(table: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    """The rows that have this struct, in columns of their own."""
    rows = table.column(name).combine_chunks().drop_null()
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)]).cast(schema)


def object_findings(history: DataFrame, workloads: Mapping[str, Workload], buckets: int) -> DataFrame:
    """History to findings of objects: all events of clients of an object of a run are in one bucket."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    names = pa.table({"run_id": list(workloads), "workload": [workload.value for workload in workloads.values()]})
    of_objects = F.broadcast(history.sparkSession.createDataFrame(names))
    # One row for each run: these are its objects' workloads, and all others are left out.
    events = history.where(F.col("process") >= 0).join(of_objects, on="run_id", how="inner")
    bucketed = events.select("run_id", *HISTORY_SCHEMA.names, "workload").repartition(buckets, *KEY)
    return bucketed.mapInArrow(_judge_objects, from_arrow_schema(FINDING_SCHEMA))


def _judge_objects(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark calls with the events of one bucket of objects."""
    gathered = list(batches)
    if gathered:
        events = pa.Table.from_batches(gathered)
        runs = events.group_by(["run_id", "workload"]).aggregate([]).to_pylist()
        workloads = {run["run_id"]: Workload(run["workload"]) for run in runs}
        yield from _packed(judge_objects(events.drop_columns("workload"), workloads))


def run_counts(history: DataFrame, operations: DataFrame, logs: DataFrame, events: DataFrame) -> DataFrame:
    """One row a run with the columns of ``RunCounts``; no row for a run that left nothing.

    One aggregate over the union of all, so that what is counted is shuffled once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    parts = [_index_marks(history), _history_marks(history), _fault_marks(history)]
    parts += [_operation_marks(operations), _log_marks(logs), _event_marks(events)]
    marks = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    logs_dumped = F.size(F.collect_set("log"))
    silent = F.array_except(F.collect_set("dumped_replica"), F.collect_set("heard_replica"))
    undumped = F.array_except(F.collect_set("started_replica"), F.collect_set("dumped_replica"))
    counted = marks.groupBy("run_id").agg(
        F.sum("lines").alias("events"),
        (F.max("index_end")).alias("index_end"),
        (F.sum("lines") - F.sum("indexes")).alias("repeated"),
        F.count_if("backwards").alias("backwards"),
        (F.count_if("completion") - F.count("return_index")).alias("orphans"),
        F.count("deed_ns").alias("faults"),
        F.count_if("fault").alias("faults_tried"),
        F.count_if("harness_failure").alias("harness_failures"),
        *_outcome_counts(),
        F.count_if("weak").alias("append_weak"),
        *(F.count_if(F.col("object_operation") & (F.col("type") == kind)).alias(f"operations_{kind}") for kind in ENDS),
        F.size(F.collect_set("object")).alias("objects"),
        (F.count_if("placed") + F.count_if(F.col("object_operation") & (F.col("type") == EventType.OK.value))).alias(
            "acked_checked"
        ),
        F.sum("values_read").alias("values_read"),
        F.size(F.collect_set("finally_read")).alias("final_reads"),
        F.size(F.collect_set("saw_the_end")).alias("final_reads_whole"),
        logs_dumped.alias("logs_dumped"),
        (logs_dumped - F.size(F.collect_set("partial_log"))).alias("logs_dumped_completely"),
        F.count("base_offset").alias("batches_dumped"),
        F.size(silent).alias("replicas_silent"),
        F.size(undumped).alias("replicas_undumped"),
        F.size(F.collect_set("election")).alias("leader_elections"),
        F.size(F.collect_set("led_log")).alias("logs_led"),
        F.size(F.collect_set("controller_election")).alias("controller_elections"),
        *(F.count_if(F.col("event") == event).alias(name) for name, event in COUNTED_EVENTS.items()),
        *(F.size(F.collect_set(f"{name}_epoch")).alias(name) for name in COUNTED_EPOCHS),
        F.size(F.collect_set("log_epoch")).alias("epochs"),
        F.size(F.collect_set("written_log")).alias("topic_partitions"),
        F.greatest(F.max("log_epoch.leader_epoch"), F.max("told_epoch")).alias("epoch_max"),
        *(F.min("asked_ns").alias("asked_ns"), F.min("deed_ns").alias("deed_ns")),
        F.collect_set("led").alias("led"),
    )
    of_clients = F.filter("led", lambda one: one.topic_partition != METADATA_LOG)
    # Alone, the greatest of the two would be there where one is.
    since_ns = F.when(F.col("asked_ns").isNotNull() & F.col("deed_ns").isNotNull(), F.greatest("asked_ns", "deed_ns"))
    changes = (_changes(of_clients, F.col("asked_ns")), _changes(F.col("led"), since_ns))
    return counted.select(
        *(name for name in counted.columns if name not in ("asked_ns", "deed_ns", "led")),
        *(number.alias(name) for number, name in zip(changes, ("leader_changes", "changes_after_faults"), strict=True)),
    )


def _changes(led: Column, since_ns: Column) -> Column:
    """How often, since then, a log that was led was led in another epoch; never, if that time never came."""
    from pyspark.sql import functions as F  # noqa: N812

    later = F.filter(led, lambda one: one.time_ns > since_ns)
    before = F.filter(led, lambda one: one.time_ns <= since_ns)
    epochs = [F.transform(some, lambda one: F.struct(one.topic_partition, one.epoch)) for some in (later, before)]
    logs = [F.transform(some, lambda one: one.topic_partition) for some in (later, before)]
    return F.size(F.array_except(*epochs)) - F.size(F.array_except(*logs))


def _outcome_counts() -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    return [
        F.count_if(F.col(name) & (F.col("type") == kind.value)).alias(f"{name}_{kind}")
        for name in ("append", "poll")
        for kind in (EventType.OK, EventType.FAIL, EventType.INFO)
    ]


def _index_marks(history: DataFrame) -> DataFrame:
    """Each stretch of ``STRETCH`` indexes: how many lines have one of them, and how many of them there are."""
    from pyspark.sql import functions as F  # noqa: N812

    index = F.col("index")
    bit = F.expr(f"shiftleft(CAST(1 AS BIGINT), CAST(pmod(index, {STRETCH}) AS INT))")
    return (
        history.groupBy("run_id", F.floor(index / STRETCH).alias("stretch"))
        .agg(
            F.count("index").alias("lines"),
            F.coalesce(F.bit_count(F.bit_or(F.when(index >= 0, bit))), F.lit(0)).alias("indexes"),
            (F.max("index") + 1).alias("index_end"),
        )
        .drop("stretch")
    )


def _history_marks(history: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    completion = (F.col("process") >= 0) & (F.col("type") != EventType.INVOKE.value)
    harness_failure = (F.col("process") == HARNESS_PROCESS) & (F.col("type") == EventType.FAIL.value)
    return history.select(
        "run_id",
        completion.alias("completion"),
        F.when(F.col("process") >= 0, F.col("time_ns")).alias("asked_ns"),
        harness_failure.alias("harness_failure"),
    )


def _fault_marks(history: DataFrame) -> DataFrame:
    """One row for each end of an injection: what was done bears the time at which that was begun."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    f, kind = F.col("f"), F.col("type")
    rows = history.where((F.col("process") == NEMESIS_PROCESS) & f.isin(*sorted(FAULT_NAMES | DEEDS)))
    last = F.lag(F.struct("type", "time_ns")).over(Window.partitionBy("run_id", "f").orderBy("index"))
    began_ns = F.when(last.type == EventType.INVOKE.value, last.time_ns).otherwise(F.col("time_ns"))
    is_done = f.isin(*sorted(DEEDS)) & (kind != EventType.FAIL.value)
    # The window sees the invocations, which are no ends.
    ends = rows.select("run_id", kind.alias("end"), F.when(is_done, began_ns).alias("deed_ns"))
    return ends.where(F.col("end") != EventType.INVOKE.value).select("run_id", "deed_ns", F.lit(True).alias("fault"))


def _operation_marks(operations: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    append, poll = F.col("f") == APPEND, F.col("f").isin(POLL, FINAL_READ)
    ok, all_acks = F.col("type") == EventType.OK.value, F.col("acks").isNull()
    final_read, on_object = F.col("f") == FINAL_READ, ~F.col("f").isin(*sorted(ON_LOGS))
    return operations.select(
        *("run_id", "type", "return_index"),
        (F.col("return_ns") < F.col("invoke_ns")).alias("backwards"),
        append.alias("append"),
        poll.alias("poll"),
        (append & ok & ~all_acks).alias("weak"),
        (append & ok & all_acks & F.col("offset").isNotNull()).alias("placed"),
        on_object.alias("object_operation"),
        F.when(on_object, F.struct("topic_partition")).alias("object"),
        F.when(final_read, F.col("topic_partition")).alias("finally_read"),
        F.when(final_read & ok & ~F.col("limited"), F.col("topic_partition")).alias("saw_the_end"),
        F.when(poll & ok, F.size(F.coalesce("records", F.array()))).alias("values_read"),
    )


def _log_marks(logs: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    log = F.struct("topic_partition", "replica_id")
    partial = F.when(~F.col("complete"), log)
    is_written = (F.col("topic_partition") != METADATA_LOG) & F.col("leader_epoch").isNotNull()
    return logs.select(
        *("run_id", "base_offset"),
        F.col("replica_id").alias("dumped_replica"),
        log.alias("log"),
        partial.alias("partial_log"),
        F.when(is_written, F.struct("topic_partition", "leader_epoch")).alias("log_epoch"),
        F.when(is_written, F.struct("topic_partition")).alias("written_log"),
    )


def _event_marks(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    # A topic-partition or an epoch may be absent: as a member of a struct it still counts.
    of_clients = F.coalesce(F.col("topic_partition"), F.lit("")) != METADATA_LOG
    elected = F.col("event") == BECAME_LEADER
    return events.select(
        "run_id",
        F.col("replica_id").alias("heard_replica"),
        F.when(F.col("event") == STARTED, F.col("replica_id")).alias("started_replica"),
        F.when(of_clients, F.col("event")).alias("event"),
        F.when(elected & of_clients, F.struct("topic_partition", "epoch")).alias("election"),
        F.when(
            elected, F.struct(F.coalesce("topic_partition", F.lit("")).alias("topic_partition"), "epoch", "time_ns")
        ).alias("led"),
        F.when(elected & of_clients, F.struct("topic_partition")).alias("led_log"),
        F.when(elected & ~of_clients, F.struct("epoch")).alias("controller_election"),
        F.when(of_clients, F.col("epoch")).alias("told_epoch"),
        *(
            F.when(of_clients & (F.col("event") == event), F.struct("topic_partition", "epoch")).alias(f"{name}_epoch")
            for name, event in COUNTED_EPOCHS.items()
        ),
    )
