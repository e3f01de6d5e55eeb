"""A topic as a stream: Spark asks how far to go and what to read, and keeps in its checkpoint what it is told.

Needs Spark 4.2, which tells a source where it is and how much it may read. Source: ``DataSourceStreamReader``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from replica.spark.blocking import BlockingLogs, read_piece
from replica.spark.errors import TopicTableError
from replica.spark.options import ReadOptions
from replica.spark.stream_offsets import offset_from_json
from replica.spark.stream_plan import Ends, committed_ends, first_offset, next_offset, stream_pieces

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_SECONDS = 0.1
"""How long nothing is asked after a look that has found nothing new: Spark itself looks a hundred times a second."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One in the process that plans, which lives as long as the query; copies of it read in workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._logs: BlockingLogs | None = None
        self._first: dict[str, Any] | None = None
        self._ends: Ends | None = None
        self._idle_until = 0.0

    # --- planning ---------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins. Spark asks more than once, and must hear the same."""
        if self._first is None:
            self._first = self._connected().ask(lambda logs: first_offset(self._options, logs)).to_json()
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a batch may have."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix where the query ends."""
        self._ends = self._connected().ask(lambda logs: committed_ends(self._options, logs))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the next batch goes. Raises TopicTableError, above all where the log was truncated."""
        time.sleep(max(0.0, self._idle_until - time.monotonic()))
        begin, offsets_max = offset_from_json(start), _offsets_max(limit)
        end = self._connected().ask(lambda logs: next_offset(self._options, logs, begin, offsets_max, self._ends))
        if end != begin:
            return end.to_json()
        self._idle_until = time.monotonic() + IDLE_SECONDS
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Give each task of a batch its piece."""
        begin, goal = offset_from_json(start), offset_from_json(end)
        pieces = self._connected().ask(lambda logs: stream_pieces(self._options, logs, begin, goal))
        return [InputPartition(piece) for piece in pieces]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: where the query is, its checkpoint alone says."""

    def stop(self) -> None:
        """Close the connections."""
        if self._logs is not None:
            self._logs.close()
            self._logs = None

    def _connected(self) -> BlockingLogs:
        self._logs = self._logs or BlockingLogs(self._options.connection)
        return self._logs

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one piece, in a worker."""
        return read_piece(self._options, partition.value)


def _offsets_max(limit: ReadLimit) -> int | None:
    match limit:
        case ReadAllAvailable():
            return None
        case ReadMaxRows(max_rows=max_rows):
            return max_rows
        case _:
            raise TopicTableError(f"a topic cannot be read by {limit}; use maxOffsetsPerTrigger")
