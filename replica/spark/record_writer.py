"""Rows on their way into topics: each with headers that say which row it is, acknowledged before the task is done.

A task that is repeated writes its rows again: the headers are what a reader knows the repeats by. They count rows as
they come, so a repeat has the same numbers only if it gets the same rows in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from replica.client.clock import Clock
from replica.client.connections import Connections
from replica.client.delivery import Delivery
from replica.client.failures import WriteError
from replica.client.producer import Producer
from replica.client.producer_config import Acks, ProducerConfig
from replica.records import Header
from replica.spark.columns import Row, rows_of
from replica.spark.errors import ColumnError, TopicTableError
from replica.spark.logs import view_config
from replica.spark.options import WriteOptions

HEADER_PREFIX = "highwater."
QUERY_HEADER, BATCH_HEADER, PARTITION_HEADER, ROW_HEADER = ORIGIN_HEADERS = tuple(
    f"{HEADER_PREFIX}{what}" for what in ("query", "batch", "partition", "row")
)
"""Which row a record is: of which query, which batch of it, which partition of that, and which row there, from 0."""
UNACKNOWLEDGED_MAX = 100_000
"""How many records may be on their way at once."""


class RowsNotWrittenError(TopicTableError):
    """Rows may be missing in a topic: the task has failed, and is repeated as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the rows of one task come from."""

    query: str
    batch: int
    partition: int

    def headers(self) -> tuple[Header, ...]:
        """What all rows of the task have in common."""
        return (
            (QUERY_HEADER, self.query.encode()),
            (BATCH_HEADER, b"%d" % self.batch),
            (PARTITION_HEADER, b"%d" % self.partition),
        )


async def write_rows(
    options: WriteOptions,
    origin: Origin,
    batches: Iterator[pa.RecordBatch],
    *,
    connections: Connections | None = None,
    clock: Clock | None = None,
) -> int:
    """Write all rows and return their number once each is acknowledged. Raises RowsNotWrittenError, ColumnError."""
    producer = Producer(
        options.connection.servers,
        _config(options),
        view_config=view_config(options.connection),
        connections=connections,
        clock=clock,
    )
    waiting: deque[Delivery] = deque()
    count = 0
    try:
        # Where rows come slowly, those that wait for their acknowledgement must not wait for the next row as well.
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            for row in rows_of(batch):
                await producer.ready()
                waiting.append(_send(producer, options, row, (*origin.headers(), _row_header(count))))
                count += 1
                if len(waiting) > UNACKNOWLEDGED_MAX:
                    await waiting.popleft()
        await producer.flush()
        while waiting:
            await waiting.popleft()
    except WriteError as error:
        raise RowsNotWrittenError(
            f"{origin}: not all rows are acknowledged by {options.connection.servers}: {error}"
        ) from error
    finally:
        await producer.close(timeout_ms=0)
        await asyncio.gather(*waiting, return_exceptions=True)
    return count


def _row_header(number: int) -> Header:
    return ROW_HEADER, b"%d" % number


def _send(producer: Producer, options: WriteOptions, row: Row, own_headers: tuple[Header, ...]) -> Delivery:
    topic = options.topic or row.topic
    if topic is None:
        raise ColumnError("a row names no topic; give the option topic, or fill the column")
    kept = tuple(header for header in row.headers if header[0] not in ORIGIN_HEADERS)
    return producer.send(topic, row.value, key=row.key, partition=row.partition, headers=(*kept, *own_headers))


def _config(options: WriteOptions) -> ProducerConfig:
    return ProducerConfig(
        acks=Acks.ALL,
        enable_idempotence=True,
        compression=options.compression,
        batch_size=options.batch_bytes,
        linger_ms=options.linger_ms,
        max_block_ms=options.connection.api_timeout_ms,
        delivery_timeout_ms=options.delivery_timeout_ms,
        request_timeout_ms=30_000,
    )
