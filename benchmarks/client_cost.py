"""What a record costs a client: processor time of sending, encoding, decoding and polling, without brokers.

Owns the measurement and its figures in ``store/bench-client-cost.json``: microseconds of this process for a record of
100 bytes, each the best of several rounds. Brokers are played by a script in the same process that acknowledges at once
and counts; so what is measured is the client alone. aiokafka's record classes stand beside ours where they are
installed.
"""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click
import pyarrow as pa

from benchmarks.result import write_result
from replica.client.arrow_columns import Rows
from replica.client.connections import Endpoint
from replica.client.polled import PolledRecords
from replica.client.producer import Producer
from replica.client.producer_config import ProducerConfig
from replica.client.reading import Reading
from replica.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceResponse,
    Request,
    Response,
)
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from replica.records import (
    Column,
    ColumnEncoder,
    Record,
    RecordBatch,
    RecordColumns,
    decode_records,
    encode_batch,
    scan_batches,
)

TOPIC = "cost"
VALUE = b"v" * 100
BROKER = ReplicaId(1)
BATCH_RECORDS = 1000
NOW_MS = 1_700_000_000_000


class Acknowledging:
    """Connections to a cluster of one broker and one partition, which takes whatever it is sent."""

    async def call(self, endpoint: Endpoint, request: Request, timeout_ms: int) -> Response:  # noqa: ARG002 - the port
        """Answer, one turn of the event loop later."""
        await asyncio.sleep(0)
        match request:
            case DescribeClusterRequest():
                return _described()
            case InitProducerIdRequest():
                return InitProducerIdResponse(error=ErrorCode.NONE, producer_id=1, producer_epoch=0)
        return ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(0), leader_epoch=Epoch(0))

    async def close(self) -> None:
        """Nothing is held."""


def _described() -> DescribeClusterResponse:
    broker = BrokerRegistration(
        broker_id=BROKER,
        broker_epoch=BrokerEpoch(1),
        incarnation_id="i",
        directory_id="d",
        flushes=True,
        address="none:1",
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
    )
    partition = PartitionRegistration(
        replicas=(BROKER,), isr=(BROKER,), leader_id=BROKER, leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
    )
    topic = TopicImage(name=TOPIC, topic_id=TopicId(1), partitions={0: partition})
    return DescribeClusterResponse(
        error=ErrorCode.NONE,
        cluster_id="c",
        controller=None,
        metadata_offset=Offset(1),
        brokers=(broker,),
        topics=(topic,),
    )


def producer(config: ProducerConfig) -> Producer:
    """A producer whose records are acknowledged at once."""
    return Producer("none:1", config, connections=Acknowledging())


async def each_costs(work: Callable[[], Awaitable[object]], count: int, rounds: int) -> float:
    """Microseconds of processor time for one of ``count``, in the best of several rounds."""
    best_s = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        await work()
        best_s = min(best_s, time.process_time() - begun)
    return round(best_s / count * 1e6, 3)


async def sending(records: int, rounds: int) -> dict[str, float]:
    """The costs of ``send``: the call alone, and with everything until its outcome is awaited."""
    found = {}
    async with producer(ProducerConfig(linger_ms=1000, batch_size=1 << 20)) as calm:
        await calm.send(TOPIC, VALUE)

        async def call() -> None:
            for _ in range(5000):
                calm.send(TOPIC, VALUE)

        best = float("inf")
        for _ in range(rounds):
            best = min(best, await each_costs(call, 5000, 1))
            await calm.flush()
        found["send"] = best
    async with producer(ProducerConfig()) as busy:
        await busy.send(TOPIC, VALUE)

        async def all_of_it() -> None:
            deliveries = []
            for _ in range(records):
                await busy.ready()
                deliveries.append(busy.send(TOPIC, VALUE))
            for delivery in deliveries:
                await delivery

        found["send_ready_and_outcome"] = await each_costs(all_of_it, records, rounds)
    return found


async def sending_many(records: int, rounds: int) -> dict[str, float]:
    """The costs of ``send_many`` until its outcome is there, of objects and of an array of Arrow."""
    values = [VALUE] * records
    keys = [b"key-%d" % number for number in range(records)]
    forms: dict[str, tuple[Rows, Rows | None]] = {
        "send_many": (values, None),
        "send_many_with_keys": (values, keys),
        "send_many_arrow": (pa.array(values, pa.binary()), None),
        "send_many_arrow_with_keys": (pa.array(values, pa.binary()), pa.array(keys, pa.binary())),
    }
    found = {}
    async with producer(ProducerConfig()) as many:
        for name, (rows, their_keys) in forms.items():
            found[name] = await each_costs(
                partial(many.send_many, TOPIC, rows, keys=their_keys),
                records,
                rounds,
            )
    return found


async def encoding(rounds: int) -> dict[str, float]:
    """The costs of the codec: from records and from columns to a batch, and from a batch to records and columns."""
    records = [
        Record(offset=Offset(at), timestamp_ms=NOW_MS + at, key=None, value=VALUE) for at in range(BATCH_RECORDS)
    ]
    values, times = [VALUE] * BATCH_RECORDS, array("q", range(NOW_MS, NOW_MS + BATCH_RECORDS))
    batch = encode_batch(records)

    def from_columns() -> object:
        columns = RecordColumns(values=Column.of(values), timestamps_ms=times)
        return ColumnEncoder(columns).encode(0, 1 << 20).batch()

    works: dict[str, Callable[[], object]] = {
        "encode_batch": lambda: encode_batch(records),
        "encode_columns": from_columns,
        "decode_records": lambda: decode_records(batch),
        "poll": lambda: _polled(batch).records(),
        "poll_batches": lambda: _polled(batch),
        "poll_arrow": lambda: _polled(batch).to_arrow(),
        **_of_aiokafka(batch.data),
    }
    return {name: await each_costs(_repeated(work), BATCH_RECORDS, rounds) for name, work in works.items()}


def _polled(batch: RecordBatch) -> PolledRecords:
    """What a consumer does with a batch that was fetched, header and checksum included."""
    reading = Reading(TopicPartition(TOPIC, 0))
    reading.seek(Offset(0), None)
    reading.add(scan_batches(batch.data))
    return reading.take(BATCH_RECORDS)


def _repeated(work: Callable[[], object]) -> Callable[[], Awaitable[object]]:
    async def once() -> object:
        return work()

    return once


def _of_aiokafka(data: bytes) -> dict[str, Callable[[], object]]:
    try:
        from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    except ImportError:
        return {}

    def encode() -> object:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
        for at in range(BATCH_RECORDS):
            builder.append(at, NOW_MS + at, None, VALUE, [])
        return builder.build()

    return {"aiokafka_encode": encode, "aiokafka_decode": lambda: list(DefaultRecordBatch(data))}


async def measure(records: int, rounds: int) -> dict[str, float]:
    """All costs, in microseconds for each record."""
    found: dict[str, float] = {}
    for part in (sending(records, rounds), sending_many(records, rounds), encoding(rounds)):
        found |= await part
    return found


@click.command()
@click.option("--records", type=click.IntRange(1), default=50_000, show_default=True, help="How many a round has.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="The best of so many counts.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-client-cost.json"))
def main(records: int, rounds: int, output: Path) -> None:
    """Measure what a record costs a client, print the figures and write them as JSON."""
    found = asyncio.run(measure(records, rounds))
    click.echo(json.dumps(found, indent=2))
    write_result(output, client_cost_us=found)


if __name__ == "__main__":
    main()
