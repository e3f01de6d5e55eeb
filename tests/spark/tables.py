"""Topics of a simulated cluster as a table would read them: the same planning and reading, without Spark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from replica.client.polled import PolledRecords
from replica.client.values import ConsumerRecord
from replica.ids import TopicPartition
from replica.spark.logs import TopicLogs
from replica.spark.options import ReadOptions, batch_read_options, stream_read_options
from replica.spark.piece_reader import PieceReader
from replica.spark.stream_offsets import StreamOffset
from replica.spark.stream_plan import first_offset, next_offset, stream_pieces
from replica.spark.values import Piece
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster

ValueT = TypeVar("ValueT")
API_TIMEOUT_MS = 8000


class Tables:
    """A cluster's topics, by options that are given with each call."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.connections = ClusterConnections(cluster)
        self._always = {
            "bootstrap.servers": ",".join(bootstrap(cluster)),
            "default.api.timeout.ms": str(API_TIMEOUT_MS),
            "subscribe": "orders",
        }

    def batch_options(self, **options: str) -> ReadOptions:
        """The options of a batch."""
        return batch_read_options(self._always | options)

    def stream_options(self, **options: str) -> ReadOptions:
        """The options of a stream from the beginning."""
        return stream_read_options(self._always | {"startingOffsets": "earliest"} | options)

    async def ask(self, options: ReadOptions, question: Callable[[TopicLogs], Awaitable[ValueT]]) -> ValueT:
        """Ask once, on new connections."""
        connections = self.connections
        async with TopicLogs(options.connection, connections=connections, clock=connections.clock) as logs:
            return await question(logs)

    def reader(self, options: ReadOptions, piece: Piece) -> PieceReader:
        """What reads a piece in a task."""
        return PieceReader(options, piece, connections=self.connections, clock=self.connections.clock)

    async def read(self, options: ReadOptions, pieces: list[Piece]) -> list[ConsumerRecord]:
        """Read pieces one after the other."""
        return [record for each in await self.polled(options, pieces) for record in each.records()]

    async def polled(self, options: ReadOptions, pieces: list[Piece]) -> list[PolledRecords]:
        """The same as columns."""
        polled: list[PolledRecords] = []
        for piece in pieces:
            async with self.reader(options, piece) as reader:
                while (got := await reader.next_records()) is not None:
                    polled.append(got)
        return polled


class Stream:
    """One streaming query: it keeps its offset as JSON, as a checkpoint does."""

    def __init__(self, tables: Tables, **options: str) -> None:
        self._tables = tables
        self.options = tables.stream_options(**options)
        self.offset: StreamOffset | None = None

    async def begin(self) -> StreamOffset:
        """Where the query begins, if it has not begun."""
        if self.offset is None:
            self.offset = await self._tables.ask(self.options, lambda logs: first_offset(self.options, logs))
        return self.offset

    async def plan(self) -> tuple[StreamOffset, list[Piece]]:
        """Plan the next batch without reading it."""
        start = await self.begin()
        limit = self.options.max_offsets_per_trigger
        end = await self._tables.ask(self.options, lambda logs: next_offset(self.options, logs, start, limit))
        return end, await self.pieces(start, end)

    async def pieces(self, start: StreamOffset, end: StreamOffset) -> list[Piece]:
        """Who reads what between two offsets."""
        if start == end:
            return []
        return await self._tables.ask(self.options, lambda logs: stream_pieces(self.options, logs, start, end))

    async def batch(self) -> list[bytes | None]:
        """Run one micro-batch, and return the values that it has read."""
        end, pieces = await self.plan()
        records = await self._tables.read(self.options, pieces)
        self.offset = end
        return [record.value for record in records]


def spans(pieces: list[Piece]) -> list[tuple[TopicPartition, int, int]]:
    """What pieces cover."""
    return [(piece.topic_partition, piece.start.offset, piece.end.offset) for piece in pieces]
