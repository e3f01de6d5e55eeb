"""The pipeline on Spark as functions from DataFrame to DataFrame: rows of runs -> facts -> findings -> what is told.

Owns the plan, no action: nothing here runs until ``spark`` collects. All facts of a topic-partition of a run go to one
task and are sorted there, so that ``key_by_key`` can judge one after the other; what is found goes to one task for each
run. Nothing else is moved, and nothing is read, paired or counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING

from nemesis.history.events import DUMP, DUMPED, HARNESS_PROCESS, EventType
from nemesis.history.schemas import Kind
from nemesis.pipeline.key_by_key import (
    FACT_SCHEMA,
    FACTS,
    FINDING_SCHEMA,
    HEARD,
    KEY,
    RUN_SCHEMA,
    Task,
    join_runs,
    judge_keys,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ORDER = ("process", "operation", "is_end", "index")
"""Within a topic-partition a completion follows its invocation; absent for what is no event of a history."""


def with_run_id(rows: DataFrame, folders: DataFrame) -> DataFrame:
    """Rows read from ``<folder>/<kind>/<shard>`` with the ``run_id`` of their folder (``folders``: folder, run_id)."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    # A path comes back as a URL; its plus signs are plus signs and not blanks.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    folder = F.regexp_extract(F.regexp_replace(path, "^file:/*", "/"), "^(.*)/[^/]+/[^/]+$", 1)
    # One row for each folder: the runs were made distinct by their resolved folders.
    return rows.withColumn("folder", folder).join(F.broadcast(folders), on="folder", how="inner").drop("folder")


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


def facts(history: DataFrame, logs: DataFrame, events: DataFrame, heard: DataFrame) -> DataFrame:
    """Rows of four tables as facts (``FACT_SCHEMA``), with the columns that they are sorted by.

    What is no client's is of no topic-partition: the tally wants all of it together.
    """
    from pyspark.sql import functions as F  # noqa: N812

    is_end = F.col("type") != EventType.INVOKE.value
    of_client = F.when(F.col("process") >= 0, F.col("topic_partition"))
    order = {
        "process": F.col("process"),
        "operation": F.when(is_end, F.col("invoked")).otherwise(F.col("index")),
        "is_end": is_end,
        "index": F.col("index"),
    }
    parts = [_fact(Kind.HISTORY, history, of_client, order)]
    others = {Kind.LOGS: logs, Kind.EVENTS: events, HEARD: heard}
    parts += [_fact(name, rows, F.col("topic_partition"), {}) for name, rows in others.items()]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def _fact(name: str, rows: DataFrame, topic_partition: Column, order: Mapping[str, Column]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    whole = F.struct(*FACTS[name].names).alias(name)
    key = F.coalesce(topic_partition, F.lit("")).alias("topic_partition")
    return rows.select("run_id", key, whole, *(column.alias(f"by_{name}") for name, column in order.items()))


def findings(told: DataFrame, task: Task, tasks: int) -> DataFrame:
    """Facts to findings (``FINDING_SCHEMA``), in so many tasks."""
    from pyspark.sql.pandas.types import from_arrow_schema

    by_key = told.repartition(tasks, *KEY).sortWithinPartitions(*KEY, *(f"by_{name}" for name in _ORDER))
    in_order = by_key.select(*FACT_SCHEMA.names)
    return in_order.mapInArrow(partial(judge_keys, task=task), from_arrow_schema(FINDING_SCHEMA))


def told_of_runs(found: DataFrame, tasks: int) -> DataFrame:
    """Findings to what is told of each run (``RUN_SCHEMA``), in so many tasks."""
    from pyspark.sql.pandas.types import from_arrow_schema

    by_run = found.repartition(tasks, "run_id").sortWithinPartitions(*KEY)
    return by_run.mapInArrow(join_runs, from_arrow_schema(RUN_SCHEMA))
