"""What disks do to brokers that take 200 ms to make anything durable: three of them, while partitions are written.

Owns the measurement and its figures in ``store/bench-slow-disk.json``: how long a write takes, for how long each
broker's event loop did not run (by its own lines, which tell of what is above 100 ms, with how much of that its thread
has computed), and how often somebody became anything else in the metadata log, or was fenced. The brokers' program is
this module: ``python -m benchmarks.slow_disk broker`` is ``replica`` on such a disk.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.many_partitions import sizes, stalls
from benchmarks.result import write_result
from benchmarks.write_path import BROKERS, BUSY, create, wait_for_brokers
from replica.cli.__main__ import main as replica
from replica.client.admin import Admin
from replica.client.producer import Producer
from replica.client.producer_config import ProducerConfig
from replica.storage.files import OS_FILES, Handle, OsFiles

FSYNC_S = 0.2
PARTITIONS = 6
UNWANTED = ('"log": "__cluster_metadata-0"', '"broker_fenced"')
"""Of an election, or of a broker that was not heard of in time."""


class SlowFiles(OsFiles):
    """The operating system's files on a disk that takes its time."""

    def fsync(self, handle: Handle) -> None:
        """Make a file durable."""
        time.sleep(FSYNC_S)
        super().fsync(handle)

    def fsync_directory(self, path: Path) -> None:
        """Make a directory durable."""
        time.sleep(FSYNC_S)
        super().fsync_directory(path)


async def _write(producer: Producer, partition: int, seconds: float) -> list[float]:
    """Write one record after the other; how long each took, in milliseconds."""
    took: list[float] = []
    end_s = time.monotonic() + seconds
    while (begun := time.monotonic()) < end_s:
        await producer.send(BUSY, b"v", partition=partition)
        took.append((time.monotonic() - begun) * 1000)
    return took


def unwanted(brokers: Brokers, begun_at: list[int]) -> list[int]:
    """Count the lines that each broker has written since of an election or of a broker that was fenced."""
    logs = [brokers.log_file(number).read_bytes()[at:].decode() for number, at in enumerate(begun_at, 1)]
    return [sum(any(word in line for word in UNWANTED) for line in log.splitlines()) for log in logs]


async def measure(brokers: Brokers, seconds: float) -> Mapping[str, object]:
    """Create partitions and write to them all at once."""
    config = ProducerConfig(linger_ms=0)
    async with Admin(brokers.addresses[0]) as admin, Producer(brokers.addresses, config) as producer:
        await wait_for_brokers(admin)
        at, begun = sizes(brokers), time.monotonic()
        await create(admin, BUSY, PARTITIONS)
        created_s = time.monotonic() - begun
        each = await asyncio.gather(*(_write(producer, partition, seconds) for partition in range(PARTITIONS)))
    took = sorted(ms for writes in each for ms in writes)
    return {
        "fsync_ms": round(FSYNC_S * 1000),
        "partitions": PARTITIONS,
        "created_s": round(created_s, 2),
        "writes": len(took),
        "write_p50_ms": round(statistics.median(took)),
        "write_longest_ms": round(took[-1]),
        "stalls_ms": stalls(brokers, at),
        "elections_and_fencings": unwanted(brokers, at),
    }


@click.command()
@click.option("--seconds", type=click.FloatRange(1), default=20.0, show_default=True, help="Of writing.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("store/bench-slow-disk.json"))
def main(seconds: float, output: Path) -> None:
    """Measure three brokers on slow disks, print the figures and write them as JSON."""
    with running(BROKERS, program=(sys.executable, "-m", "benchmarks.slow_disk", "broker")) as brokers:
        figures = asyncio.run(measure(brokers, seconds))
    click.echo(json.dumps(figures))
    write_result(output, **figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["broker"]:
        del sys.argv[1]
        OS_FILES.__class__ = SlowFiles
        replica()
    else:
        main()
