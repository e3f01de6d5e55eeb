"""The pipeline on Spark as functions from DataFrame to DataFrame: history -> operations -> anomalies, and counts.

Owns the steps, no action: nothing here runs until ``spark`` collects. Must give the same rows as ``local``, step by
step. The judgement of a topic-partition is ``judge_partitions``, called over hash buckets of (run_id, topic_partition).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from nemesis.checks.judge import CheckOptions, judge_partitions
from nemesis.checks.schemas import ANOMALY_SCHEMA, LOG_BATCH_SCHEMA, OPERATION_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.history.events import APPEND, FINAL_READ, NEMESIS_PROCESS, POLL, EventType
from nemesis.history.schemas import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

FACT_SCHEMAS = {
    Kind.HISTORY: OPERATION_SCHEMA,
    Kind.LOGS: LOG_BATCH_SCHEMA,
    Kind.EVENTS: RUN_EVENT_SCHEMA,
}
"""The three tables that are judged together: each is one struct column of a fact, named as its kind."""
KEY = ("run_id", "topic_partition")


def with_run_id(rows: DataFrame, folders: DataFrame) -> DataFrame:
    """Rows read from ``<folder>/<kind>/<shard>`` with the ``run_id`` of their folder (``folders``: folder, run_id)."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    # A path comes back as a URL; its plus signs are plus signs and not blanks.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    folder = F.regexp_extract(F.regexp_replace(path, "^file:/*", "/"), "^(.*)/[^/]+/[^/]+$", 1)
    # One row for each folder: the runs were made distinct by their resolved folders.
    return rows.withColumn("folder", folder).join(F.broadcast(folders), on="folder", how="inner").drop("folder")


def paired_operations(history: DataFrame) -> DataFrame:
    """History to operations (``OPERATION_SCHEMA``): the completion of an operation is its process's next event."""
    from pyspark.sql import functions as F  # noqa: N812

    invoked = EventType.INVOKE.value
    following = F.lead(F.struct("*")).over(_by_process())
    rows = history.where(F.col("process") >= 0).withColumn("next", following).where(F.col("type") == invoked)
    end = F.when(F.col("next.type") != invoked, F.col("next"))
    return rows.withColumn("end", end).select(*_operation_columns())


def _by_process() -> WindowSpec:
    from pyspark.sql import Window

    return Window.partitionBy("run_id", "process").orderBy("index")


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


def anomalies(judged: DataFrame, options: CheckOptions, buckets: int) -> DataFrame:
    """Facts to anomaly rows (``ANOMALY_SCHEMA``): all facts of a topic-partition of a run are in one bucket."""
    from pyspark.sql.pandas.types import from_arrow_schema

    bucketed = judged.repartition(buckets, *KEY)
    return bucketed.mapInArrow(bucket_judge(options), from_arrow_schema(ANOMALY_SCHEMA))


def bucket_judge(options: CheckOptions) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark calls with the batches of one bucket. It needs them all before it can judge any."""

    def judge_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = list(batches)
        if not gathered:
            return
        table = pa.Table.from_batches(gathered)
        operations, logs, events = (_unpacked(table, kind) for kind in FACT_SCHEMAS)
        yield from judge_partitions(operations, logs, events, options).to_batches()

    return judge_bucket


def _unpacked(table: pa.Table, kind: Kind) -> pa.Table:
    """The rows of one kind in their own columns."""
    rows = table.column(kind).combine_chunks().drop_null()
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)]).cast(FACT_SCHEMAS[kind])


def history_counts(history: DataFrame) -> DataFrame:
    """One row a run: what can be counted before operations are paired."""
    from pyspark.sql import functions as F  # noqa: N812

    invoked = F.col("type") == EventType.INVOKE.value
    previous = F.lag("type").over(_by_process())
    orphan = (F.col("process") >= 0) & ~invoked & ~previous.eqNullSafe(EventType.INVOKE.value)
    return (
        history.withColumn("orphan", orphan)
        .groupBy("run_id")
        .agg(
            F.count("*").alias("events"),
            (F.max("index") + 1).alias("index_end"),
            F.count_if("orphan").alias("orphans"),
            F.count_if(F.col("process") == NEMESIS_PROCESS).alias("faults"),
        )
    )


def operation_counts(operations: DataFrame) -> DataFrame:
    """One row a run: outcomes of appends and polls, and what can be checked of them."""
    from pyspark.sql import functions as F  # noqa: N812

    append, poll = F.col("f") == APPEND, F.col("f").isin(POLL, FINAL_READ)
    ok = F.col("type") == EventType.OK.value
    outcomes = [
        F.count_if(rows & (F.col("type") == kind.value)).alias(f"{name}_{kind}")
        for name, rows in (("append", append), ("poll", poll))
        for kind in (EventType.OK, EventType.FAIL, EventType.INFO)
    ]
    return operations.groupBy("run_id").agg(
        *outcomes,
        F.count_if(append & ok & F.col("offset").isNotNull()).alias("acked_checked"),
        F.sum(F.when(poll & ok, F.size(F.coalesce("records", F.array())))).alias("values_read"),
    )


def log_counts(logs: DataFrame) -> DataFrame:
    """One row a run: how much of the replicas' logs was read."""
    from pyspark.sql import functions as F  # noqa: N812

    by_log = logs.groupBy(*KEY, "replica_id").agg(
        F.bool_and("complete").alias("complete"),
        F.count("base_offset").alias("batches"),
        F.collect_set("leader_epoch").alias("leader_epochs"),
    )
    epochs = F.array_distinct(F.flatten(F.collect_list("leader_epochs")))
    return by_log.groupBy("run_id").agg(
        F.count("*").alias("logs_dumped"),
        F.count_if("complete").alias("logs_dumped_completely"),
        F.sum("batches").alias("batches_dumped"),
        F.size(epochs).alias("epochs"),
        F.array_max(epochs).alias("log_epoch_max"),
    )


def event_counts(events: DataFrame) -> DataFrame:
    """One row a run: elections, each epoch of a log once, and truncations."""
    from pyspark.sql import functions as F  # noqa: N812

    # A topic-partition or an epoch may be absent: as a member of a struct it still counts.
    election = F.when(F.col("event") == "became-leader", F.struct("topic_partition", "epoch"))
    return events.groupBy("run_id").agg(
        F.count_distinct(election).alias("leader_elections"),
        F.count_if(F.col("event") == "truncated").alias("truncations"),
        F.max("epoch").alias("event_epoch_max"),
    )


def run_counts(
    runs: DataFrame, history: DataFrame, operations: DataFrame, logs: DataFrame, events: DataFrame
) -> DataFrame:
    """One row for each of ``runs`` (run_id) with the columns of ``RunCounts``; absent where nothing was counted."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = (history_counts(history), operation_counts(operations), log_counts(logs), event_counts(events))
    # Each side has one row for each run_id: it is what the counts are grouped by.
    joined = reduce(lambda left, right: left.join(right, on="run_id", how="left"), parts, runs)
    epoch_max = F.greatest("log_epoch_max", "event_epoch_max")
    return joined.withColumn("epoch_max", epoch_max).drop("log_epoch_max", "event_epoch_max")
