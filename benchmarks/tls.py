"""What mutual TLS and access control lists cost: records in bulk, and the time of one in flight, with and without.

Owns the measurement and its figures in ``store/bench-tls.json``. Two clusters of three brokers with default settings
run side by side and are measured by turns, so that other load on the machine affects both alike.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.result import write_result
from benchmarks.write_path import BROKERS, create, wait_for_brokers
from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.failures import ClusterUnreachableError
from replica.client.producer import Producer
from replica.core.metadata.acls import Acl, Operation, PatternType, Permission, ResourceType

TOPIC = "topic"
ADMIN, CLIENT = "admin", "client"
VALUE = b"v" * 100
BULK_S_MAX = 60.0
WRITE = Acl(
    principal=f"User:{CLIENT}",
    permission=Permission.ALLOW,
    operation=Operation.WRITE,
    resource_type=ResourceType.TOPIC,
    pattern_type=PatternType.LITERAL,
    name=TOPIC,
)


async def _prepare(brokers: Brokers) -> None:
    """Create the topic; where there are certificates, let the client write to it and do nothing else."""
    async with Admin(brokers.addresses, ViewConfig(tls=brokers.files_of(ADMIN))) as admin:
        is_there = False
        while not is_there:
            with suppress(ClusterUnreachableError):  # Nobody listens yet.
                await wait_for_brokers(admin)
                is_there = True
        if brokers.certificates is not None:
            await admin.create_acls([WRITE])
        await create(admin, TOPIC, 1)


async def _bulk(producer: Producer, records: int) -> float:
    """Records a second, from the first call to the last acknowledgement."""
    begun = time.perf_counter()
    async with asyncio.timeout(BULK_S_MAX):
        await producer.send_many(TOPIC, [VALUE] * records)
    return records / (time.perf_counter() - begun)


async def _one_in_flight(producer: Producer, seconds: float) -> float:
    """The median time of a write, in milliseconds."""
    took, end_s = [], time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end_s:
        await producer.send(TOPIC, VALUE)
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)


async def measure(clusters: dict[str, Brokers], *, rounds: int, records: int, seconds: float) -> dict[str, object]:
    """The median of each figure over all rounds, and every round; a first round warms up and does not count."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in clusters}
    async with AsyncExitStack() as open_:
        producers = {}
        for name, brokers in clusters.items():
            await _prepare(brokers)
            view = ViewConfig(tls=brokers.files_of(CLIENT))
            producers[name] = await open_.enter_async_context(Producer(brokers.addresses, view_config=view))
        for number in range(rounds + 1):
            for name, producer in producers.items():
                figures = {
                    "bulk_records_per_s": round(await _bulk(producer, records), 1),
                    "p50_ms": round(await _one_in_flight(producer, seconds), 3),
                }
                if number:
                    found[name].append(figures)
                    click.echo(json.dumps({"cluster": name, **figures}))
    medians = {
        name: {key: statistics.median(one[key] for one in of_it) for key in of_it[0]} for name, of_it in found.items()
    }
    return {"medians": medians, "rounds": found}


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--records", type=click.IntRange(1), default=100_000, show_default=True, help="In bulk, each round.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="One in flight, each round."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-tls.json"))
def main(rounds: int, records: int, seconds: float, output: Path) -> None:
    """Measure with and without mutual TLS and access control lists by turns, print the figures, write them as JSON."""
    with ExitStack() as open_:
        clusters = {
            "plain": open_.enter_context(running(BROKERS)),
            "mutual TLS and ACLs": open_.enter_context(running(BROKERS, certificates=(ADMIN, CLIENT))),
        }
        figures = asyncio.run(measure(clusters, rounds=rounds, records=records, seconds=seconds))
    click.echo(json.dumps(figures["medians"]))
    write_result(output, tls=figures)


if __name__ == "__main__":
    main()
