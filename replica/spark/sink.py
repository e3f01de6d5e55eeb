"""Rows into topics, as Spark sees it: at least once, each record with headers that tell its repeats.

A record is in the log for good as soon as it is acknowledged: there is nothing to commit when a job has succeeded, and
nothing to take back when it has failed. A task knows which row it writes by what Spark tells every task: for a stream
the query's id, which its checkpoint keeps, and the number of the batch (``StreamExecution``, ``MicroBatchExecution``).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from replica.spark.columns import check_columns
from replica.spark.errors import OptionError, TopicTableError
from replica.spark.options import WriteOptions
from replica.spark.record_writer import Origin, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID_PROPERTY, BATCH_ID_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """How many rows one task has written."""

    count: int


class BatchWriter(DataSourceArrowWriter):
    """Writes a table. ``query`` is the same for all tasks of the job, and for their repeats."""

    def __init__(self, options: WriteOptions, query: str) -> None:
        self._options = options
        self._query = query

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition of the table, in a worker."""
        origin = Origin(query=self._query, batch=self._options.batch or 0, partition=_task().partitionId())
        return RowsWritten(asyncio.run(write_rows(self._options, origin, iterator)))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition of one batch, in a worker."""
        task = _task()
        query, batch = task.getLocalProperty(QUERY_ID_PROPERTY), task.getLocalProperty(BATCH_ID_PROPERTY)
        if query is None or batch is None:
            raise TopicTableError("Spark does not say which batch of which query this is; use foreachBatch instead")
        origin = Origin(query=self._options.query or query, batch=int(batch), partition=task.partitionId())
        return RowsWritten(asyncio.run(write_rows(self._options, origin, iterator)))


def batch_writer(options: WriteOptions, schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Plan a write of a table. Raises OptionError, ColumnError."""
    _check(options, schema, overwrite=overwrite)
    if options.batch is not None and options.query is None:
        raise OptionError("batch", str(options.batch), "a number says nothing without the option query")
    return BatchWriter(options, options.query or str(uuid.uuid4()))


def stream_writer(options: WriteOptions, schema: StructType, *, overwrite: bool) -> StreamWriter:
    """Plan a write of a stream. Raises OptionError, ColumnError."""
    _check(options, schema, overwrite=overwrite)
    if options.batch is not None:
        raise OptionError("batch", str(options.batch), "a stream's batches have numbers already; leave it away")
    return StreamWriter(options)


def _check(options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
    if overwrite:
        raise OptionError("mode", "overwrite", "a log can only be appended to; say append")
    check_columns(
        {field.name: field.dataType.simpleString() for field in schema.fields}, has_topic=options.topic is not None
    )


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark writes in tasks only"
    return task
