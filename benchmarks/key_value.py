"""What the key-value store does: puts and linearizable gets, one in flight and many.

Owns the measurement and its figures in ``store/bench-key-value.json``. Three real replicas with default settings and
one client; each round is warm before its clock starts.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import click

from benchmarks.brokers import running
from benchmarks.result import write_result
from replica.client import KeyValueClient

REPLICAS = 3
GROUP = "kv"
VALUE = b"v" * 100
KEYS = 1_000
IN_FLIGHT = (1, 256)

Work = Callable[[KeyValueClient, int], Awaitable[object]]


async def put(client: KeyValueClient, number: int) -> object:
    """Write one key."""
    return await client.put(_key(number), VALUE)


async def get(client: KeyValueClient, number: int) -> object:
    """Read one key, linearizably."""
    return await client.get(_key(number))


def _key(number: int) -> bytes:
    return b"%d" % (number % KEYS)


async def _round(client: KeyValueClient, work: Work, in_flight: int, seconds: float) -> Mapping[str, float]:
    """Do the work for so long, with so many calls open at a time."""
    took: list[float] = []
    end_s = time.perf_counter() + seconds

    async def worker(first: int) -> None:
        number = first
        while (begun := time.perf_counter()) < end_s:
            await work(client, number)
            took.append((time.perf_counter() - begun) * 1000)
            number += in_flight

    begun_s = time.perf_counter()
    await asyncio.gather(*(worker(first) for first in range(in_flight)))
    per_s = len(took) / (time.perf_counter() - begun_s)
    return {"per_s": round(per_s, 1), "p50_ms": round(statistics.median(took), 3)}


async def measure(addresses: str, seconds: float) -> list[Mapping[str, object]]:
    """Each kind of work, with each number of calls in flight."""
    rows: list[Mapping[str, object]] = []
    async with KeyValueClient(addresses, GROUP) as client:
        for name, work in (("put", put), ("get", get)):
            for in_flight in IN_FLIGHT:
                await _round(client, work, in_flight, seconds / 4)
                found = await _round(client, work, in_flight, seconds)
                rows.append({"work": name, "in_flight": in_flight, **found})
                click.echo(json.dumps(rows[-1]))
    return rows


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="How long a round takes.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-key-value.json"))
def main(seconds: float, output: Path) -> None:
    """Measure the key-value store, print the figures and write them as JSON."""
    with running(REPLICAS, "--group", f"{GROUP}=key-value") as brokers:
        rows = asyncio.run(measure(",".join(brokers.addresses), seconds))
    write_result(output, key_value=rows)


if __name__ == "__main__":
    main()
