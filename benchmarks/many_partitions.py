"""What many partitions take of three brokers: to be created, to stand idle, to fail over, and to stop.

Owns the measurement and its figures in ``store/bench-many-partitions.json``. *All take writes* is when a record of each
partition is acknowledged by all in sync. *Stalls* are the times that a broker's event loop did not run, by its own
lines (``event_loop_stalled``), which tell of what is above 100 ms, with how much of that its thread has computed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.cluster import cpu_shares
from benchmarks.result import write_result
from benchmarks.write_path import BROKERS, BUSY, wait_for_brokers
from replica.client.admin import Admin
from replica.client.failures import WriteError
from replica.client.producer import Producer

SETTLE_S = 10
"""How long nothing is done before the idle cluster is looked at."""
GIVE_UP_S = 300


async def write_to_all(producer: Producer, partitions: int) -> float:
    """Write to each partition until it has taken a record; return how many seconds that took in all."""
    begun = time.monotonic()
    left = set(range(partitions))

    async def write(partition: int) -> None:
        while time.monotonic() < begun + GIVE_UP_S:
            try:
                await producer.send(BUSY, b"v", partition=partition)
            except WriteError:
                await asyncio.sleep(0.1)
            else:
                left.discard(partition)
                return

    await asyncio.gather(*map(write, range(partitions)))
    if left:
        raise click.ClickException(f"{len(left)} partitions took no write within {GIVE_UP_S} s")
    return round(time.monotonic() - begun, 2)


def stalls(brokers: Brokers, begun_at: list[int]) -> list[list[str]]:
    """Tell of each broker's stalls since its log had that size: milliseconds, and computed milliseconds of those."""
    found: list[list[str]] = []
    for number, begun in enumerate(begun_at, 1):
        lines = brokers.log_file(number).read_bytes()[begun:].decode().splitlines()
        told = [json.loads(line) for line in lines if '"event_loop_stalled"' in line]
        found.append([f"{line['delay_ms']} ({line['computed_ms']})" for line in told])
    return found


def sizes(brokers: Brokers) -> list[int]:
    """How large the brokers' own logs are."""
    return [brokers.log_file(number).stat().st_size for number in range(1, len(brokers.addresses) + 1)]


async def measure(brokers: Brokers, partitions: int, seconds: float) -> Mapping[str, object]:
    """Create, stand idle, kill one, and stop one of the others."""
    figures: dict[str, object] = {"partitions": partitions}
    async with Admin(brokers.addresses[0]) as admin, Producer(brokers.addresses) as producer:
        await wait_for_brokers(admin)
        at, begun = sizes(brokers), time.monotonic()
        await admin.create_topic(BUSY, partition_count=partitions, replication_factor=BROKERS)
        figures["created_s"] = round(time.monotonic() - begun, 2)
        await write_to_all(producer, partitions)
        figures["all_take_writes_s"] = round(time.monotonic() - begun, 2)
        figures["stalls_while_created_ms"] = stalls(brokers, at)
        await asyncio.sleep(SETTLE_S)
        figures["idle_shares_of_a_core"] = await asyncio.to_thread(cpu_shares, brokers.processes, seconds)
        at = sizes(brokers)
        brokers.processes[0].kill()
        figures["failed_over_s"] = await write_to_all(producer, partitions)
        figures["stalls_while_failed_over_ms"] = stalls(brokers, at)
    begun = time.monotonic()
    brokers.processes[1].terminate()
    await asyncio.to_thread(brokers.processes[1].wait)
    figures["clean_stop_s"] = round(time.monotonic() - begun, 2)
    return figures


@click.command()
@click.option("--partitions", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seconds", type=click.FloatRange(1), default=10.0, show_default=True, help="Of standing idle.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("store/bench-many-partitions.json"))
def main(partitions: int, seconds: float, output: Path) -> None:
    """Measure three brokers with many partitions, print the figures and write them as JSON."""
    with running(BROKERS) as brokers:
        figures = asyncio.run(measure(brokers, partitions, seconds))
    click.echo(json.dumps(figures))
    write_result(output, **figures)


if __name__ == "__main__":
    main()
