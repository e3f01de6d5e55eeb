"""How fast a topic is read as a table: through Spark, beside a plain consumer of the same records.

Owns the measurement and its figures in ``store/bench-tables.json``. Three real replicas on one machine, which share it
with the readers. Spark is warm: the first read, which starts its workers, is told apart. Rows are counted by Spark's
``noop`` sink, which takes every column and does nothing with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemesis.pipeline.session import spark_session
from nemesis.runner import versions
from replica.client import Admin, Consumer, ConsumerConfig, OffsetReset, Producer, ProducerConfig
from replica.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS = 3
TOPIC = "bench"
READS = 3


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start(folder: Path, addresses: list[str]) -> list[subprocess.Popen[bytes]]:
    """Format and start the replicas, each with its log beside its data."""
    voters = [word for number, address in enumerate(addresses, 1) for word in ("--voter", f"{number}={address}")]
    replica = [str(Path(sys.executable).with_name("replica"))]
    processes = []
    for number, address in enumerate(addresses, start=1):
        data = ["--data-dir", f"{folder / str(number)}"]
        identity = ["--cluster-id", "bench", "--replica-id", f"{number}"]
        subprocess.run([*replica, "format", *data, *identity], check=True, stdout=subprocess.DEVNULL)
        with (folder / f"{number}.log").open("wb") as log:
            command = [*replica, "start", *data, "--listen", address, *voters]
            processes.append(subprocess.Popen(command, stdout=log, stderr=log))
    return processes


async def fill(servers: str, records: int, record_bytes: int, partitions: int) -> None:
    """Create the topic as soon as all replicas are up, and write it full."""
    async with Admin(servers) as admin:
        while sum(broker.is_active for broker in (await admin.describe_cluster()).brokers) < BROKERS:
            await asyncio.sleep(0.2)
        await admin.create_topic(TOPIC, partition_count=partitions, replication_factor=BROKERS)
    value = bytes(record_bytes)
    async with Producer(servers, ProducerConfig(batch_size=256 << 10, linger_ms=20)) as producer:
        for number in range(records):
            await producer.send(TOPIC, value, partition=number % partitions)
        await producer.flush()


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
    folder = Path(tempfile.mkdtemp(prefix="bench-tables-"))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(BROKERS)]
    processes = start(folder, addresses)
    try:
        figures = measure(",".join(addresses), records, record_bytes, partitions)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder)
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    found = {"versions": versions(), "machine": machine, **figures}
    click.echo(json.dumps(found, indent=2))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    click.echo(f"result: {output}")


if __name__ == "__main__":
    main()
