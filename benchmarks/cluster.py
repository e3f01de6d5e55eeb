"""What a cluster costs while it does nothing: five brokers with a hundred partitions on one machine.

Owns the measurement and its figures in ``store/bench-cluster.json``. Real processes, formatted and started as a user
would; three of them are voters as well. The share of a core is processor time, user and system, over wall time.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import psutil

from benchmarks.brokers import running
from benchmarks.result import write_result
from replica.client.admin import Admin

BROKERS = 5
TOPICS, PARTITIONS, REPLICATION_FACTOR = 4, 25, 3
SETTLE_S = 10.0


async def create_topics(bootstrap: str) -> int:
    """Create the topics as soon as all brokers can take replicas; return how many partitions are fully in sync."""
    async with Admin(bootstrap) as admin:
        deadline_s = time.monotonic() + 60
        while sum(not broker.fenced for broker in (await admin.describe_cluster()).brokers) < BROKERS:
            if time.monotonic() > deadline_s:
                raise click.ClickException("the brokers did not come up within a minute")
            await asyncio.sleep(0.2)
        for number in range(1, TOPICS + 1):
            name = f"topic{number}"
            await admin.create_topic(name, partition_count=PARTITIONS, replication_factor=REPLICATION_FACTOR)
        await asyncio.sleep(SETTLE_S)
        topics = (await admin.describe_cluster()).topics
        return sum(len(part.isr) == REPLICATION_FACTOR for topic in topics for part in topic.partitions.values())


def cpu_shares(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> list[float]:
    """Which share of one core each process takes."""

    def used() -> list[float]:
        times = [psutil.Process(process.pid).cpu_times() for process in processes]
        return [each.user + each.system for each in times]

    begun, before = time.monotonic(), used()
    time.sleep(seconds)
    after, elapsed_s = used(), time.monotonic() - begun
    return [round((later - earlier) / elapsed_s, 4) for earlier, later in zip(before, after, strict=True)]


def measure(seconds: float) -> Mapping[str, object]:
    """Run the cluster and take its figures."""
    with running(BROKERS) as brokers:
        in_sync = asyncio.run(create_topics(brokers.addresses[0]))
        shares = cpu_shares(brokers.processes, seconds)
        rss_mb = [round(psutil.Process(process.pid).memory_info().rss / (1 << 20), 1) for process in brokers.processes]
    return {
        "brokers": BROKERS,
        "partitions": TOPICS * PARTITIONS,
        "replication_factor": REPLICATION_FACTOR,
        "partitions_in_sync": in_sync,
        "seconds": seconds,
        "idle_share_of_a_core": shares,
        "rss_mb": rss_mb,
    }


@click.command()
@click.option("--seconds", type=click.FloatRange(1), default=30.0, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-cluster.json"))
def main(seconds: float, output: Path) -> None:
    """Measure an idle cluster, print the figures and write them as JSON."""
    found = measure(seconds)
    click.echo(f"{found['partitions_in_sync']} of {found['partitions']} partitions in sync on {BROKERS} brokers")
    click.echo(f"an idle broker takes of one core: {found['idle_share_of_a_core']}")
    write_result(output, idle_cluster=found)


if __name__ == "__main__":
    main()
