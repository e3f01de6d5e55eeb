"""Spread work over a Spark cluster: numbers in, rows of several tables out, each number worked on where there is room.

Owns the plan and the two actions, collecting one table and writing all of them as Parquet. Knows nothing of the work
but that its rows are a function of the number, so that a task that a cluster tries again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Session: TypeAlias = "SparkSession"
"""What callers outside this package call a session, who must not import pyspark."""
Work = Callable[[Iterable[int]], Iterator[tuple[str, pa.Table]]]
"""Numbers to pairs: the name of a table, and rows of it. Workers import it by its name, which they must have."""
TASK_NUMBERS_MAX = 50
"""How many numbers one task has at most: what is lost when it fails, and what the last worker is late by."""
_NAME = "table_name"


def spread(
    numbers: Sequence[int],
    work: Work,
    tables: Mapping[str, pa.Schema],
    *,
    collect: str,
    corpus: str | None = None,
    master: str = "local[*]",
    spark: SparkSession | None = None,
) -> pa.Table:
    """Do the work for all numbers; the rows of the table ``collect``, in no particular order.

    ``tables`` declares what the work gives. With ``corpus``, a folder or URL that every worker can write to, each table
    is written as ``<corpus>/<table>/*.parquet``. ``spark`` is a session to use; without it one is started on ``master``
    and stopped. Raises ``FileExistsError`` before any work where a table is already there, ``EngineUnavailableError``
    when Spark cannot run here.
    """
    from nemesis.pipeline.session import spark_session

    with spark_session(master) if spark is None else nullcontext(spark) as session:
        if corpus is not None:
            check_is_free(session, [f"{corpus}/{name}" for name in tables])
        facts = numbered(session, numbers).transform(worked, work, tables)
        if corpus is None:
            return collected(facts, collect, tables[collect])
        return written(facts, corpus, collect, tables)


def check_is_free(spark: SparkSession, places: Sequence[str]) -> None:
    """Raise ``FileExistsError`` where something is. Spark would notice too, but only after all the work."""
    jvm, context = spark._jvm, spark.sparkContext._jsc
    assert jvm is not None, "a session has its Java process"
    for place in places:
        path = jvm.org.apache.hadoop.fs.Path(place)
        if path.getFileSystem(context.hadoopConfiguration()).exists(path):
            raise FileExistsError(f"{place} exists already: give a new folder")


def numbered(spark: SparkSession, numbers: Sequence[int]) -> DataFrame:
    """One row a number, in as many partitions as there are tasks."""
    slots = spark.sparkContext.defaultParallelism
    each = min(TASK_NUMBERS_MAX, max(1, len(numbers) // (4 * slots)))
    rows = spark.createDataFrame(pa.table({"number": pa.array(numbers, pa.int64())}))
    return rows.repartition(-(-len(numbers) // each) or 1)


def worked(numbers: DataFrame, work: Work, tables: Mapping[str, pa.Schema]) -> DataFrame:
    """Numbers to facts: the name of a table and one struct column a table, of which one is set in each row."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = fact_schema(tables)
    return numbers.mapInArrow(task(work, schema), from_arrow_schema(schema))


def fact_schema(tables: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of a fact."""
    structs = [pa.field(name, pa.struct(list(schema))) for name, schema in tables.items()]
    return pa.schema([pa.field(_NAME, pa.string()), *structs])


def task(work: Work, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark calls with the numbers of one partition."""

    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        for name, rows in work(numbers):
            yield from facts_of(name, rows, schema)

    return do


def facts_of(name: str, rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of one table as facts."""
    for batch in rows.to_batches():
        columns: dict[str, Any] = {_NAME: pa.array([name] * batch.num_rows, pa.string())}
        columns[name] = batch.to_struct_array()
        absent = (field for field in schema if field.name not in columns)
        columns |= {field.name: pa.nulls(batch.num_rows, field.type) for field in absent}
        yield pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


def rows_of(facts: DataFrame, name: str) -> DataFrame:
    """Facts to the rows of one table."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    return facts.where(F.col(_NAME) == name).select(f"{name}.*")


def collected(facts: DataFrame, name: str, schema: pa.Schema) -> pa.Table:
    """All rows of one table."""
    return facts.transform(rows_of, name).toArrow().cast(schema)


def written(facts: DataFrame, corpus: str, collect: str, tables: Mapping[str, pa.Schema]) -> pa.Table:
    """Write all tables, and collect one of them; the work is done once, and kept on the workers' disks meanwhile."""
    from pyspark import StorageLevel

    kept = facts.persist(StorageLevel.DISK_ONLY)
    try:
        for name in tables:
            kept.transform(rows_of, name).write.mode("error").parquet(f"{corpus}/{name}")
        return collected(kept, collect, tables[collect])
    finally:
        kept.unpersist()
