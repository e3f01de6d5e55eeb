"""The data source as Spark sees it: ``format("highwater")`` for tables, streams and sinks.

Spark makes an instance in a process of its own for each thing that it plans, and pickles readers to its workers.
Source: ``pyspark.sql.datasource``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from replica.spark.batch_plan import batch_pieces
from replica.spark.blocking import ask_once, read_piece
from replica.spark.errors import ColumnError
from replica.spark.options import (
    ReadOptions,
    WriteOptions,
    batch_read_options,
    stream_read_options,
    write_options,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter

FORMAT = "highwater"
TABLE_TYPE = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("leader_epoch", IntegerType())
    .add("timestamp", TimestampType())
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())))
)
"""The columns of every topic."""


class HighwaterDataSource(DataSource):
    """Topics as tables. The options are in ``replica.spark.options``, what they mean in docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """What to say to ``format``."""
        return FORMAT

    def schema(self) -> StructType:
        """The same for every topic."""
        return TABLE_TYPE

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plan a batch. Raises OptionError, ColumnError."""
        _check_schema(schema)
        return BatchReader(batch_read_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Plan a stream. Raises OptionError, ColumnError."""
        from replica.spark.stream import StreamReader

        _check_schema(schema)
        return StreamReader(stream_read_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Plan a write of a table. Raises TopicTableError."""
        from replica.spark.sink import batch_writer

        options = write_options(self.options)
        writer = batch_writer(options, schema, overwrite=overwrite)
        _check_topic(options)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Plan a write of a stream. Raises TopicTableError."""
        from replica.spark.sink import stream_writer

        options = write_options(self.options)
        writer = stream_writer(options, schema, overwrite=overwrite)
        _check_topic(options)
        return writer


class BatchReader(DataSourceReader):
    """Reads what is committed when it is planned."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Look at the cluster, once, and give each task its piece; an empty list would be read as one of everything."""
        options = self._options
        pieces = ask_once(options.connection, lambda logs: batch_pieces(options, logs))
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one piece, in a worker."""
        return iter(()) if partition.value is None else read_piece(self._options, partition.value)


def _check_topic(options: WriteOptions) -> None:
    """Refuse to write to a topic that does not exist, before any task waits for it. Raises TopicTableError."""
    topic = options.topic
    if topic is not None:
        ask_once(options.connection, lambda logs: logs.layout(topic))


def _check_schema(schema: StructType) -> None:
    """Refuse columns of the user's own: what a topic holds is fixed."""
    if schema.simpleString() != TABLE_TYPE.simpleString():
        raise ColumnError(f"a topic's columns are fixed, leave schema() away; they are {TABLE_TYPE.simpleString()}")
