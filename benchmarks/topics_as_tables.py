"""How fast a topic is read as a table: through Spark, beside a plain consumer of the same records.

Owns the measurement and its figures in ``store/bench-tables.json``. Three real replicas on one machine, which share it
with the readers. Spark is warm: the first read, which starts its workers, is told apart. Rows are counted by Spark's
``noop`` sink, which takes every column and does nothing with it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks.brokers import running
from benchmarks.result import write_result
from nemesis.pipeline.session import spark_session
from replica.client import Admin, Consumer, ConsumerConfig, OffsetReset, Producer
from replica.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS = 3
TOPIC = "bench"
READS = 3


async def fill(servers: str, records: int, record_bytes: int, partitions: int) -> None:
    """Create the topic as soon as all replicas are up, and write it full."""
    async with Admin(servers) as admin:
        while sum(broker.is_active for broker in (await admin.describe_cluster()).brokers) < BROKERS:
            await asyncio.sleep(0.2)
        await admin.create_topic(TOPIC, partition_count=partitions, replication_factor=BROKERS)
    value = bytes(record_bytes)
    shares = [len(range(partition, records, partitions)) for partition in range(partitions)]
    async with Producer(servers) as producer:
        await asyncio.gather(
            *(producer.send_many(TOPIC, [value] * share, partition=partition) for partition, share in enumerate(shares))
        )


async def consume(servers: str, records: int) -> None:
    """Read the topic with a consumer that has the settings of the data source."""
    config = ConsumerConfig(
        auto_offset_reset=OffsetReset.EARLIEST, max_partition_fetch_bytes=4 << 20, max_poll_records=65_536
    )
    async with Consumer(servers, config) as consumer:
        consumer.assign(await consumer.partitions_of(TOPIC))
        read = 0
        while read < records:
            read += len(await consumer.poll())


def scan(spark: SparkSession, servers: str) -> None:
    """Read the topic as a table, every column."""
    table = spark.read.format("highwater").options(**{"bootstrap.servers": servers, "subscribe": TOPIC}).load()
    table.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], None]) -> float:
    """How many seconds something takes."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def rates(seconds: list[float], records: int, record_bytes: int) -> dict[str, object]:
    """The best of several runs, and all of them."""
    best = min(seconds)
    return {
        "records_per_s": round(records / best),
        "mb_per_s": round(records * record_bytes / best / 1e6, 1),
        "seconds": [round(each, 2) for each in seconds],
    }


def measure(servers: str, records: int, record_bytes: int, partitions: int) -> dict[str, object]:
    """Fill the topic and read it both ways."""
    writing = timed(lambda: asyncio.run(fill(servers, records, record_bytes, partitions)))
    consumed = [timed(lambda: asyncio.run(consume(servers, records))) for _ in range(READS)]
    with spark_session("local[2]") as spark:
        register(spark)
        cold = timed(lambda: scan(spark, servers))
        scanned = [timed(lambda: scan(spark, servers)) for _ in range(READS)]
    return {
        "records": records,
        "record_bytes": record_bytes,
        "partitions": partitions,
        "fill_seconds": round(writing, 2),
        "consumer": rates(consumed, records, record_bytes),
        "spark": {**rates(scanned, records, record_bytes), "first_seconds": round(cold, 2)},
    }


@click.command()
@click.option("--records", default=400_000, show_default=True)
@click.option("--record-bytes", default=100, show_default=True)
@click.option("--partitions", default=4, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-tables.json"))
def main(records: int, record_bytes: int, partitions: int, output: Path) -> None:
    """Measure, print, and write the figures to a file."""
    with running(BROKERS) as brokers:
        found = measure(",".join(brokers.addresses), records, record_bytes, partitions)
    click.echo(json.dumps(found, indent=2))
    write_result(output, **found)


if __name__ == "__main__":
    main()
