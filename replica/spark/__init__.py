"""Topics as tables: Spark reads committed records of a topic, in batches and as a stream, and writes rows to topics.

Needs the extra ``spark``. Read in this order. ``values`` and ``errors``; ``options``, with the names of Spark's Kafka
source; ``planning``, which is arithmetic on offsets. ``logs`` asks the cluster what is in a log and whether it still
is what was read; on it stand ``batch_plan`` and ``stream_plan`` with its ``stream_offsets`` (what a checkpoint keeps).
``piece_reader`` brings the records of one task, ``columns`` makes Arrow of them and rows of Arrow, ``record_writer``
writes. ``blocking`` runs all that to its end where Spark calls. Up to here nothing knows Spark: ``source``,
``stream`` and ``sink`` are what Spark sees, ``repeats`` works on DataFrames, ``worker_python`` looks after workers.

pyspark is imported by those last four and inside functions of this module. Spark pickles the classes to its workers by
name: the distribution must be installed there, or shipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["deduplicated", "register", "write_batch"]


def register(spark: SparkSession) -> None:
    """Make ``format("highwater")`` known to a session, whose workers run this Python unless another was chosen.

    Raises WorkerPythonError where that one lacks this distribution.
    """
    from replica.spark.source import HighwaterDataSource
    from replica.spark.worker_python import choose_worker_python

    choose_worker_python(spark)
    spark.dataSource.register(HighwaterDataSource)


def deduplicated(records: DataFrame) -> DataFrame:
    """Drop the repeats of rows that the sink wrote more than once, from a table or a stream of a topic's records.

    A repeat is equal in topic, key, value and all headers, those of the sink included. Which of the repeats stays is
    not defined; they differ in offset, and may in partition. Records that the sink has not written all stay.
    A stream remembers each row that it has seen.
    """
    from replica.spark.repeats import without_repeats

    return without_repeats(records)


def write_batch(rows: DataFrame, batch_id: int, *, query: str, **options: str) -> None:
    """Write one micro-batch under a query's name of your own choice, for ``foreachBatch``.

    ``options`` are those of ``write``, with ``_`` for ``.`` in their names. Written again after a failure, each row
    gets the headers that it had before if the rows come in the same partitions and order.
    """
    from replica.spark.repeats import write_named_batch

    write_named_batch(rows, batch_id, query=query, options=options)
