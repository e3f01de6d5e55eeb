"""Rows as Spark moves them: by reference before they are read, and then as bytes, thousands of them in one value.

Owns both tables. A *piece* is a row group of a file, which the task that gets it reads by itself. A *blob* has rows of
one bucket as a stream of Arrow, compressed. So the JVM moves some hundred values, where it would take apart and build
up again each single row. Knows nothing of how a bucket is judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from nemesis.linearizability.arrays.columns import Ints
from nemesis.pipeline.corpora.dealing import parted
from nemesis.pipeline.corpora.store import groups_of, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECES_A_TASK_MAX = 50
HELD_BYTES = 32 * 1024 * 1024
"""How much is dealt, with what is left over of a batch, before blobs are made of it: few large ones cost less."""
BLOB_BYTES_MAX = 16 * 1024 * 1024
"""How much is in a blob before it is compressed, unless that is a single row."""

PIECE_ROWS = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
    ]
)
BLOB_ROWS = pa.schema(
    [pa.field("bucket", pa.int32(), nullable=False), pa.field("rows", pa.binary(), nullable=False)],
)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def pieces_of(files: Sequence[Path]) -> pa.Table:
    """The pieces (``PIECE_ROWS``) of files of operations, numbered from 0 on. Raises HistoryError."""
    found = [(str(path.absolute()), group) for path in files for group in range(groups_of(path))]
    rows = [{"number": number, "path": path, "group": group} for number, (path, group) in enumerate(found)]
    return pa.Table.from_pylist(rows, schema=PIECE_ROWS)


def in_tasks(spark: SparkSession, numbered: pa.Table, a_task_max: int) -> DataFrame:
    """Rows that a column ``number`` numbers from 0 on, spread over tasks of at most ``a_task_max`` of them."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

    count = numbered.num_rows
    slots = int(spark.conf.get("spark.sql.shuffle.partitions") or "1")
    tasks = max(1, min(count, max(slots, -(-count // a_task_max))))
    return spark.createDataFrame(numbered).repartitionById(tasks, F.pmod("number", F.lit(tasks)).cast("int"))


def read(pieces: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows in ``pieces`` (``PIECE_ROWS``), with these columns of ``OPERATION_ROWS``. Raises HistoryError."""
    for batch in pieces:
        for piece in batch.to_pylist():
            yield from rows_in(Path(piece["path"]), piece["group"], columns)


def blobs(
    dealt: Iterable[tuple[pa.Table, Ints]], *, held_bytes: int = HELD_BYTES, blob_bytes_max: int = BLOB_BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Rows with the bucket of each, or -1 for none, as blobs (``BLOB_ROWS``), of which each batch has one."""
    held: defaultdict[int, list[pa.Table]] = defaultdict(list)
    waiting = 0
    for rows, buckets in dealt:
        for bucket, part in parted(rows, buckets):
            held[bucket].append(part)
        waiting += rows.nbytes
        if waiting >= held_bytes:
            yield from _packed(held, blob_bytes_max)
            held.clear()
            waiting = 0
    yield from _packed(held, blob_bytes_max)


def rows_of_blobs(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The rows in all blobs (``BLOB_ROWS``), of which there is at least one."""
    return pa.concat_tables([_read_blob(blob) for batch in batches for blob in batch.column("rows")])


def _packed(held: Mapping[int, list[pa.Table]], blob_bytes_max: int) -> Iterator[pa.RecordBatch]:
    for bucket, parts in held.items():
        for rows in _halved(pa.concat_tables(parts).combine_chunks(), blob_bytes_max):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
                writer.write_table(rows)
            yield pa.record_batch([[bucket], [sink.getvalue().to_pybytes()]], schema=BLOB_ROWS)


def _halved(rows: pa.Table, bytes_max: int) -> Iterator[pa.Table]:
    """The rows in parts, none of them too large."""
    if rows.num_rows <= 1 or rows.nbytes <= bytes_max:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _halved(rows.slice(0, half), bytes_max)
    yield from _halved(rows.slice(half), bytes_max)


def _read_blob(blob: pa.BinaryScalar) -> pa.Table:
    with pa.ipc.open_stream(blob.as_buffer()) as reader:
        return reader.read_all()
