"""What consumers cost that have read everything: the share of a core that a leader takes while they wait on it.

Owns the measurement and its figures in ``store/bench-idle-consumers.json``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.cluster import cpu_shares
from benchmarks.result import write_result
from benchmarks.write_path import BROKERS, BUSY, create, wait_for_brokers
from replica.client.admin import Admin
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.reading import OffsetReset
from replica.ids import TopicPartition

POLL_MS = 1000
CONNECTIONS_MAX = 4000
"""Above what the consumers have: whoever is refused dials again and again, and that is not what is measured here."""


async def _wait(consumer: Consumer) -> None:
    while True:
        await consumer.poll(POLL_MS)


async def measure(brokers: Brokers, counts: Sequence[int], seconds: float) -> list[Mapping[str, object]]:
    """One round for each number of consumers, which only ever grows."""
    rounds: list[Mapping[str, object]] = []
    config = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST)
    async with Admin(brokers.addresses[0]) as admin, AsyncExitStack() as stack:
        await wait_for_brokers(admin)
        await create(admin, BUSY, 1)
        waiting: list[asyncio.Task[None]] = []
        for count in counts:
            for _ in range(count - len(waiting)):
                consumer = await stack.enter_async_context(Consumer(brokers.addresses, config))
                consumer.assign([TopicPartition(BUSY, 0)])
                waiting.append(asyncio.create_task(_wait(consumer)))
            await asyncio.sleep(seconds / 2)
            shares = await asyncio.to_thread(cpu_shares, brokers.processes, seconds)
            rounds.append({"idle_consumers": count, "shares_of_a_core": shares})
            click.echo(json.dumps(rounds[-1]))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return rounds


@click.command()
@click.option("--consumers", default="0,1000", show_default=True, help="Numbers of consumers, rising.")
@click.option("--seconds", type=click.FloatRange(1), default=60.0, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path("store/bench-idle-consumers.json"))
def main(consumers: str, seconds: float, output: Path) -> None:
    """Measure a leader beside idle consumers, print the figures and write them as JSON."""
    with running(BROKERS, "--connections-max", str(CONNECTIONS_MAX)) as brokers:
        rounds = asyncio.run(measure(brokers, sorted(int(each) for each in consumers.split(",")), seconds))
    write_result(output, idle_consumers=rounds)


if __name__ == "__main__":
    main()
