"""Where Spark calls and waits: an event loop of its own, with what lives in it.

Spark's workers call plain functions, several times with pauses between. gRPC's channels belong to the event loop and to
the process in which they are made: nothing is opened before the first call, and nothing of it is pickled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from replica.spark.columns import batch_of
from replica.spark.logs import TopicLogs
from replica.spark.options import ConnectionOptions, ReadOptions
from replica.spark.piece_reader import PieceReader
from replica.spark.values import Piece

ValueT = TypeVar("ValueT")


class BlockingLogs:
    """Questions about logs, for who has no event loop. Connected by the first question, until it is closed."""

    def __init__(self, connection: ConnectionOptions) -> None:
        self._connection = connection
        self._runner = asyncio.Runner()
        self._logs: TopicLogs | None = None

    def ask(self, question: Callable[[TopicLogs], Coroutine[Any, Any, ValueT]]) -> ValueT:
        """Run one question to its end."""

        async def asked() -> ValueT:
            self._logs = self._logs or TopicLogs(self._connection)
            return await question(self._logs)

        return self._runner.run(asked())

    def close(self) -> None:
        """Close the connections and the loop."""
        if self._logs is not None:
            self._runner.run(self._logs.close())
        self._runner.close()


def ask_once(connection: ConnectionOptions, question: Callable[[TopicLogs], Coroutine[Any, Any, ValueT]]) -> ValueT:
    """Connect, run one question, and close."""
    logs = BlockingLogs(connection)
    try:
        return logs.ask(question)
    finally:
        logs.close()


def read_piece(options: ReadOptions, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece, fetching the next while the last are dealt with."""

    async def opened() -> PieceReader:
        return PieceReader(options, piece)

    with asyncio.Runner() as runner:
        reader = runner.run(opened())
        try:
            while (polled := runner.run(reader.next_records())) is not None:
                yield batch_of(polled)
        finally:
            runner.run(reader.close())
