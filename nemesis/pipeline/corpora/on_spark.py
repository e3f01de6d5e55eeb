"""Judge files of operations on Spark: count, deal into buckets, judge each by one call.

Owns the plan of the job and its actions, which count and which collect the judgements. Tasks read the files by
themselves, and rows go from one to another as blobs; only those of hot objects, which have to be sorted, are rows to
Spark. Uses nothing of a session but DataFrames, so that it runs on a local master, a cluster and Spark Connect. Must
give the same judgements as ``local``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nemesis.pipeline.corpora.bucket import Task, judge_bucket, judge_sorted
from nemesis.pipeline.corpora.dealing import readable
from nemesis.pipeline.corpora.encoding import ints, weights_of, with_readable_texts
from nemesis.pipeline.corpora.hot import cut_rows, cut_schema, is_cut_ahead, judge_chains
from nemesis.pipeline.corpora.pieces import (
    BLOB_ROWS,
    PIECES_A_TASK_MAX,
    blobs,
    in_tasks,
    pieces_of,
    read,
    rows_of_blobs,
)
from nemesis.pipeline.corpora.plan import SLOTS, Plan, Sizes, planned
from nemesis.pipeline.corpora.schemas import JUDGEMENT_ROWS, OPERATION_ROWS, OPTIONAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_ROWS = 100_000
"""How many rows of hot objects go to a worker at once, and how many judgements come back."""
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_COUNT_ROWS = pa.schema(
    [
        pa.field("weights", pa.list_(pa.int64()), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("filled", pa.list_(pa.string()), nullable=False),
    ]
)
_PLACE = "place"
"""Which of the hot objects, in the order of their numbers, a row is of."""
_WEIGHT_ROWS = pa.schema([pa.field("object", pa.int64()), pa.field("weight", pa.int64())])


def judge_on_spark(spark: SparkSession, files: Sequence[Path], task: Task, sizes: Sizes) -> pa.Table:
    """The judgements (``JUDGEMENT_ROWS``) of all objects in ``files``, in no particular order. Raises ChangedError."""
    before = spark.conf.get(_BATCH_ROWS)
    spark.conf.set(_BATCH_ROWS, BATCH_ROWS)
    try:
        pieces = in_tasks(spark, pieces_of(files), PIECES_A_TASK_MAX)
        plan = plan_of(pieces, sizes, parallelism=int(spark.conf.get(_SHUFFLE_PARTITIONS) or "1"))
        judged = cold_judgements(pieces, plan, task)
        if plan.hot:
            judged = judged.unionByName(hot_judgements(pieces, plan, task, sizes))
        return plan.check_whole(judged.toArrow().cast(JUDGEMENT_ROWS))
    finally:
        spark.conf.set(_BATCH_ROWS, before or "10000")


def plan_of(pieces: DataFrame, sizes: Sizes, parallelism: int) -> Plan:
    """Count the rows of each slot on the cluster, and those of each object where a slot is so full that one may be hot.

    The second count is a job of its own, which most folders do not need.
    """
    counts = slot_weights(pieces).toArrow().to_pylist()
    weights = np.sum([row["weights"] for row in counts], axis=0, dtype=np.int64)
    slots = dict(enumerate(np.broadcast_to(weights, SLOTS).tolist()))
    filled = {name for row in counts for name in row["filled"]}
    suspects = [slot for slot, weight in slots.items() if weight > sizes.hot]
    hot: dict[int, int] = {}
    if suspects:
        found = heavy_objects(pieces, suspects, sizes.hot).toArrow().to_pylist()
        hot = {row["object"]: row["weight"] for row in sorted(found, key=itemgetter("object"))}
    for number, weight in hot.items():
        slots[number % SLOTS] -= weight
    operations = sum(row["rows"] for row in counts)
    return planned(slots, hot, sorted(filled), sizes, parallelism=parallelism, operations=operations)


def slot_weights(pieces: DataFrame) -> DataFrame:
    """One row a task (``_COUNT_ROWS``): the weight of each slot, how many rows, and the columns that are not empty."""
    return pieces.mapInArrow(_count, _spark_schema(_COUNT_ROWS))


def heavy_objects(pieces: DataFrame, slots: list[int], hot: int) -> DataFrame:
    """Objects of these slots that weigh more than ``hot``."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    weights = pieces.mapInArrow(partial(_weigh, slots=slots), _spark_schema(_WEIGHT_ROWS))
    return weights.groupBy("object").agg(F.sum("weight").alias("weight")).where(F.col("weight") > hot)


def cold_judgements(pieces: DataFrame, plan: Plan, task: Task) -> DataFrame:
    """The judgements of all objects that are not hot: each bucket is one partition, and one call."""
    dealt = pieces.mapInArrow(partial(_deal, plan=plan), _spark_schema(BLOB_ROWS))
    judge = partial(_judge_partition, task=task)
    return dealt.repartitionById(plan.buckets, "bucket").mapInArrow(judge, _spark_schema(JUDGEMENT_ROWS))


def hot_judgements(pieces: DataFrame, plan: Plan, task: Task, sizes: Sizes) -> DataFrame:
    """The judgements of the windows of hot objects: each object is cut by one task.

    Its windows are judged by many if they are known before one of them is judged, else by the same.
    """
    in_order = hot_in_order(pieces, plan)
    if not is_cut_ahead(task.model):
        chains = partial(_judge_chains, task=task, window_operations=sizes.window)
        return in_order.mapInArrow(chains, _spark_schema(JUDGEMENT_ROWS))
    cut = in_order.mapInArrow(
        partial(_cut_partition, task=task, window_operations=sizes.window), _spark_schema(cut_schema(_columns(plan)))
    )
    parts = max(1, sum(plan.hot.values()) // sizes.bucket)
    windows = cut.repartition(parts, "object", "window").sortWithinPartitions("object", "window")
    judge = partial(_judge_windows, task=task, call_operations=sizes.bucket)
    return windows.mapInArrow(judge, _spark_schema(JUDGEMENT_ROWS))


def hot_in_order(pieces: DataFrame, plan: Plan) -> DataFrame:
    """The rows of hot objects by time, each object in a partition of its own: no two large ones wait for each other."""
    columns = _columns(plan)
    schema = pa.schema([*(OPERATION_ROWS.field(name) for name in columns), pa.field(_PLACE, pa.int32())])
    hot = pieces.mapInArrow(partial(_hot_rows, plan=plan), _spark_schema(schema))
    alone = hot.repartitionById(len(plan.hot), _PLACE).select(*columns)
    return alone.sortWithinPartitions("invoked", "line")


def _spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _count(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    slots, rows, filled = np.zeros(SLOTS, dtype=np.int64), 0, set[str]()
    for table in read(pieces, ["object", *OPTIONAL]):
        weights = np.bincount(ints(table, "object", 0) % SLOTS, weights_of(table), minlength=SLOTS)
        slots += weights.astype(np.int64)
        rows += table.num_rows
        filled |= {name for name in OPTIONAL if table.column(name).null_count < table.num_rows}
    yield pa.record_batch([[slots], [rows], [sorted(filled)]], schema=_COUNT_ROWS)


def _weigh(pieces: Iterator[pa.RecordBatch], slots: list[int]) -> Iterator[pa.RecordBatch]:
    for table in read(pieces, ["object", "records"]):
        objects, weights = ints(table, "object", 0), weights_of(table)
        suspect = np.isin(objects % SLOTS, slots)
        different, places = np.unique(objects[suspect], return_inverse=True)
        sums = np.bincount(places, weights[suspect], minlength=len(different)).astype(np.int64)
        yield pa.record_batch([different, sums], schema=_WEIGHT_ROWS)


def _deal(pieces: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows of all objects that are not hot, as blobs."""
    return blobs((rows, plan.buckets_of(ints(rows, "object", 0))) for rows in read(pieces, _columns(plan)))


def _hot_rows(pieces: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    hot = np.sort(np.fromiter(plan.hot, np.int64))
    for table in read(pieces, _columns(plan)):
        rows = table.filter(pa.array(np.isin(ints(table, "object", 0), hot)))
        places = np.searchsorted(hot, ints(rows, "object", 0)).astype(np.int32)
        yield from rows.append_column(_PLACE, pa.array(places)).to_batches()


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
    first = next(batches, None)
    if first is not None:
        yield from judge_bucket(readable(rows_of_blobs(chain([first], batches))), task).to_batches()


def _judge_windows(batches: Iterator[pa.RecordBatch], task: Task, call_operations: int) -> Iterator[pa.RecordBatch]:
    for judged in judge_sorted(batches, task, call_operations):
        yield from judged.to_batches()
