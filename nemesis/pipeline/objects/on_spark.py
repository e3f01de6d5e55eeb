"""Judge a frame of operations on Spark: count, deal into buckets, judge each by one call.

Owns the plan of the job and its two actions, which count and which collect the judgements. Uses nothing of a session
but DataFrames, so that it runs on a local master, a cluster and Spark Connect. Must give the same judgements as
``local``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from nemesis.pipeline.objects.bucket import Task, judge_bucket, judge_sorted
from nemesis.pipeline.objects.encoding import with_readable_texts
from nemesis.pipeline.objects.hot import cut_rows, cut_schema, is_cut_ahead, judge_chains
from nemesis.pipeline.objects.plan import SLOTS, Plan, Sizes, planned
from nemesis.pipeline.objects.schemas import JUDGEMENT_ROWS, OPERATION_ROWS, OPTIONAL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_ROWS = 100_000
"""How many rows go to a worker at once: a bucket is some of these."""
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def judge_on_spark(spark: SparkSession, operations: DataFrame, task: Task, sizes: Sizes) -> pa.Table:
    """The judgements (``JUDGEMENT_ROWS``) of all objects, in no particular order. Raises ChangedError."""
    before = spark.conf.get(_BATCH_ROWS)
    spark.conf.set(_BATCH_ROWS, BATCH_ROWS)
    try:
        plan = plan_of(operations, sizes, parallelism=int(spark.conf.get(_SHUFFLE_PARTITIONS) or "1"))
        judged = cold_judgements(operations, plan, task)
        if plan.hot:
            judged = judged.unionByName(hot_judgements(operations, plan, task, sizes))
        return plan.check_whole(judged.toArrow().cast(JUDGEMENT_ROWS))
    finally:
        spark.conf.set(_BATCH_ROWS, before or "10000")


def operations_in(spark: SparkSession, paths: list[str]) -> DataFrame:
    """The operations in folders or files of Parquet, with declared columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = spark.read.schema(from_arrow_schema(OPERATION_ROWS)).option("parquet.page.verify-checksum.enabled", True)
    return reader.parquet(*paths)


def plan_of(operations: DataFrame, sizes: Sizes, parallelism: int) -> Plan:
    """Count the rows of each slot on the cluster, and those of each object where a slot is so full that one may be hot.

    The second count is a job of its own, which most folders do not need.
    """
    rows = slot_weights(operations).toArrow().to_pylist()
    slots = {row["slot"]: row["weight"] for row in rows}
    filled = [name for name in OPTIONAL if any(row[name] for row in rows)]
    suspects = [slot for slot, weight in slots.items() if weight > sizes.hot]
    hot: dict[int, int] = {}
    if suspects:
        found = heavy_objects(operations, suspects, sizes.hot).toArrow().to_pylist()
        hot = {row["object"]: row["weight"] for row in sorted(found, key=itemgetter("object"))}
    for number, weight in hot.items():
        slots[number % SLOTS] -= weight
    return planned(slots, hot, filled, sizes, parallelism=parallelism, operations=sum(row["rows"] for row in rows))


def slot_weights(operations: DataFrame) -> DataFrame:
    """One row a slot: its weight and rows, and how often the columns that may be empty are not."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    filled = [F.count(name).alias(name) for name in OPTIONAL]
    return operations.groupBy(_slot()).agg(_weight(), F.count(F.lit(1)).alias("rows"), *filled)


def heavy_objects(operations: DataFrame, slots: list[int], hot: int) -> DataFrame:
    """Objects of these slots that weigh more than ``hot``."""
    from pyspark.sql import functions as F  # noqa: N812

    return operations.where(_slot().isin(slots)).groupBy("object").agg(_weight()).where(F.col("weight") > hot)


def _slot() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod("object", F.lit(SLOTS)).alias("slot")


def _weight() -> Column:
    """One a row, and one more for each record."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.sum(F.lit(1) + F.coalesce(F.size("records"), F.lit(0))).alias("weight")


def cold_judgements(operations: DataFrame, plan: Plan, task: Task) -> DataFrame:
    """The judgements of all objects that are not hot: each bucket is one partition, and one call."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = operations.select(*_columns(plan))
    if plan.hot:
        rows = rows.where(~F.col("object").isin(list(plan.hot)))
    bucket = F.pmod(F.pmod("object", F.lit(SLOTS)), F.lit(plan.buckets)).cast("int")
    dealt = rows.repartitionById(plan.buckets, bucket)
    return dealt.mapInArrow(partial(_judge_partition, task=task), from_arrow_schema(JUDGEMENT_ROWS))


def hot_judgements(operations: DataFrame, plan: Plan, task: Task, sizes: Sizes) -> DataFrame:
    """The judgements of the windows of hot objects: each object is cut by one task.

    Its windows are judged by many if they are known before one of them is judged, else by the same.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = _columns(plan)
    hot = operations.select(*columns).where(F.col("object").isin(list(plan.hot)))
    in_order = hot.repartition(len(plan.hot), "object").sortWithinPartitions("object", "invoked", "line")
    if not is_cut_ahead(task.model):
        chains = partial(_judge_chains, task=task, window_operations=sizes.window)
        return in_order.mapInArrow(chains, from_arrow_schema(JUDGEMENT_ROWS))
    cut = in_order.mapInArrow(
        partial(_cut_partition, task=task, window_operations=sizes.window), from_arrow_schema(cut_schema(columns))
    )
    parts = max(1, sum(plan.hot.values()) // sizes.bucket)
    windows = cut.repartition(parts, "object", "window").sortWithinPartitions("object", "window")
    judge = partial(_judge_windows, task=task, call_operations=sizes.bucket)
    return windows.mapInArrow(judge, from_arrow_schema(JUDGEMENT_ROWS))


def _cut_partition(batches: Iterator[pa.RecordBatch], task: Task, window_operations: int) -> Iterator[pa.RecordBatch]:
    return cut_rows(_readable(batches), task, window_operations)


def _judge_chains(batches: Iterator[pa.RecordBatch], task: Task, window_operations: int) -> Iterator[pa.RecordBatch]:
    for judged in judge_chains(_readable(batches), task, window_operations):
        yield from judged.to_batches()


def _readable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (part for batch in batches for part in with_readable_texts(pa.Table.from_batches([batch])).to_batches())


def _columns(plan: Plan) -> list[str]:
    """The columns that have something in them."""
    return [name for name in OPERATION_ROWS.names if name not in OPTIONAL or name in plan.columns]


def _judge_partition(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """One bucket: all its rows are needed before any object can be judged."""
    gathered = list(batches)
    if gathered:
        rows = with_readable_texts(pa.Table.from_batches(gathered))
        yield from judge_bucket(rows.combine_chunks(), task).to_batches()


def _judge_windows(batches: Iterator[pa.RecordBatch], task: Task, call_operations: int) -> Iterator[pa.RecordBatch]:
    for judged in judge_sorted(batches, task, call_operations):
        yield from judged.to_batches()
