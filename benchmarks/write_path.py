"""What one write costs: its median time and the processor time of every broker, beside more and more idle partitions.

Owns the measurement and its figures in ``store/bench-write-path.json``. One record is in flight at a time, with
``acks=all`` on a topic of one partition and three replicas; idle topics are added to the same cluster between rounds.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import psutil

from benchmarks.brokers import Brokers, running
from benchmarks.result import write_result
from replica.client.admin import Admin
from replica.client.producer import Producer
from replica.client.producer_config import ProducerConfig

BROKERS = 3
BUSY = "busy"
IDLE_TOPIC_PARTITIONS = 100
VALUE = b"v" * 100
TO_BE_IN_SYNC_S = 600


async def wait_for_brokers(admin: Admin) -> None:
    """Wait until all brokers can take replicas."""
    while sum(not broker.fenced for broker in (await admin.describe_cluster()).brokers) < BROKERS:
        await asyncio.sleep(0.2)


async def create(admin: Admin, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic, and wait until all of its replicas are in sync."""
    await admin.create_topic(name, partition_count=partitions, replication_factor=BROKERS, configs=configs)
    deadline_s = time.monotonic() + TO_BE_IN_SYNC_S
    while time.monotonic() < deadline_s:
        for topic in (await admin.describe_cluster(topics=[name])).topics:
            if all(len(each.isr) == BROKERS and each.leader_id is not None for each in topic.partitions.values()):
                return
        await asyncio.sleep(0.2)
    raise click.ClickException(f"{name} was not in sync within {TO_BE_IN_SYNC_S} s")


def _used_s(brokers: Brokers) -> list[float]:
    times = [psutil.Process(process.pid).cpu_times() for process in brokers.processes]
    return [each.user + each.system for each in times]


async def _write(producer: Producer, seconds: float) -> list[float]:
    """Write one record after the other; how long each took, in milliseconds."""
    took: list[float] = []
    end_s = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end_s:
        await producer.send(BUSY, VALUE)
        took.append((time.perf_counter() - begun) * 1000)
    return took


async def _round(brokers: Brokers, producer: Producer, seconds: float) -> Mapping[str, object]:
    await _write(producer, seconds / 4)
    before, begun = _used_s(brokers), time.perf_counter()
    took = await _write(producer, seconds)
    elapsed = time.perf_counter() - begun
    used = [later - earlier for earlier, later in zip(before, _used_s(brokers), strict=True)]
    ordered = sorted(took)
    return {
        "writes_per_s": round(len(took) / elapsed, 1),
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "broker_cpu_ms_per_write": [round(each * 1000 / len(took), 3) for each in used],
    }


async def measure(brokers: Brokers, idle: Sequence[int], seconds: float) -> list[Mapping[str, object]]:
    """One round for each number of idle partitions, which only ever grows."""
    rounds: list[Mapping[str, object]] = []
    async with (
        Admin(brokers.addresses[0]) as admin,
        Producer(brokers.addresses, ProducerConfig(linger_ms=0)) as producer,
    ):
        await wait_for_brokers(admin)
        await create(admin, BUSY, 1)
        there = 0
        for wanted in idle:
            begun = time.perf_counter()
            for number in range(there, wanted, IDLE_TOPIC_PARTITIONS):
                await create(admin, f"idle-{number}", min(IDLE_TOPIC_PARTITIONS, wanted - number))
            there, created_s = wanted, time.perf_counter() - begun
            figures = {"idle_partitions": wanted, "created_s": round(created_s, 1)}
            rounds.append(figures | dict(await _round(brokers, producer, seconds)))
            click.echo(json.dumps(rounds[-1]))
    return rounds


@click.command()
@click.option("--idle", default="0,300,1000,3000", show_default=True, help="Numbers of idle partitions, rising.")
@click.option("--seconds", type=click.FloatRange(1), default=10.0, show_default=True, help="How long a round writes.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-write-path.json"))
def main(idle: str, seconds: float, output: Path) -> None:
    """Measure one write beside idle partitions, print the figures and write them as JSON."""
    with running(BROKERS) as brokers:
        rounds = asyncio.run(measure(brokers, sorted(int(each) for each in idle.split(",")), seconds))
    write_result(output, write_path=rounds)


if __name__ == "__main__":
    main()
