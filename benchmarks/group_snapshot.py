"""How long a replica stands still while it takes a snapshot of a large state machine.

Owns the measurement and its figures in ``store/bench-snapshots.json``. Three real replicas with the key-value store as
their machine, on one machine. The store is filled until a snapshot is nearly due; then one small write follows the
other, until every replica has stored one. *Stood still* is the longest time from then on that the event loop of a
replica did not run, by its own lines (``event_loop_stalled``), which tell of what is above 100 ms; *slowest write* is
what a client has waited for meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.group_restart import GROUP, REPLICAS, REQUESTS_AHEAD, UP_S_MAX, Writer
from benchmarks.result import write_result
from replica.machines.key_value import commands

BATCH = 200
"""How many puts one request carries."""
NEARLY = 0.97
"""How much of what a snapshot is taken after is written before the measurement begins."""
PAUSE_S = 0.01
CALM_S = 3
"""How long after the filling nothing is done: what it has left behind is over then."""


def _puts(number: int, value: bytes) -> tuple[commands.Command, ...]:
    return tuple(commands.Put(key=b"key%09d" % (number * BATCH + place), value=value) for place in range(BATCH))


async def fill(brokers: Brokers, value_bytes: int, log_bytes: int) -> int:
    """Put new keys until the log of the first replica has so many bytes; return how many keys those are."""
    writer = Writer(brokers.addresses)
    value = bytes(value_bytes)
    requests = 0

    async def one_after_the_other() -> None:
        nonlocal requests
        while requests % 50 or _size(brokers.folder / "1" / str(GROUP)) < log_bytes:
            requests += 1
            await writer.apply(*_puts(requests, value))

    try:
        await writer.open()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(REQUESTS_AHEAD):
                tasks.create_task(one_after_the_other())
    finally:
        await writer.close()
    return requests * BATCH


async def write_until_stored(brokers: Brokers, value_bytes: int, begun_at: list[int]) -> list[float]:
    """Write on, one small request after the other, until all have a snapshot; how long each write has taken."""
    writer = Writer(brokers.addresses)
    took_s: list[float] = []
    deadline_s = time.monotonic() + 5 * UP_S_MAX
    command = commands.Put(key=b"probe", value=bytes(32 * value_bytes))
    try:
        await writer.open()
        while not all(_events(brokers, begun_at, "snapshot_stored")):
            if time.monotonic() > deadline_s:
                raise click.ClickException("not every replica has taken a snapshot")
            begun_s = time.monotonic()
            await writer.apply(command)
            took_s.append(time.monotonic() - begun_s)
            await asyncio.sleep(PAUSE_S)
    finally:
        await writer.close()
    return took_s


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def _events(brokers: Brokers, begun_at: list[int], name: str) -> list[list[Mapping[str, object]]]:
    """The lines of this name that each replica has written since."""
    return [
        [line for line in _lines(brokers.log_file(number + 1), begun_at[number]) if line.get("event") == name]
        for number in range(REPLICAS)
    ]


def _lines(file: Path, begun_at: int) -> Iterator[Mapping[str, object]]:
    with file.open("rb") as log:
        log.seek(begun_at)
        for line in log:
            if line.startswith(b"{") and line.endswith(b"}\n"):
                yield json.loads(line)


def measure(state_mb: int, value_bytes: int) -> Mapping[str, object]:
    """Fill, begin to look, write until all have a snapshot."""
    snapshot_bytes = state_mb * 1_000_000
    options = (
        "--group",
        f"{GROUP.topic}=key-value",
        "--group-snapshot-max-record-bytes-between",
        f"{snapshot_bytes}",
    )
    with running(REPLICAS, *options) as brokers:
        keys = asyncio.run(fill(brokers, value_bytes, int(NEARLY * snapshot_bytes)))
        time.sleep(CALM_S)
        begun_at = [brokers.log_file(number + 1).stat().st_size for number in range(REPLICAS)]
        took_s = asyncio.run(write_until_stored(brokers, value_bytes, begun_at))
        time.sleep(1)
        stalls = [
            max((int(str(line["delay_ms"])) for line in lines), default=0)
            for lines in _events(brokers, begun_at, "event_loop_stalled")
        ]
        stored = [lines[0]["size_bytes"] for lines in _events(brokers, begun_at, "snapshot_stored")]
        roles = [len(lines) for lines in _events(brokers, begun_at, "role_changed")]
    return {
        "replicas": REPLICAS,
        "keys": keys,
        "value_bytes": value_bytes,
        "snapshot_bytes": stored,
        "stood_still_ms": stalls,
        "roles_changed": roles,
        "writes": len(took_s),
        "slowest_write_ms": round(max(took_s) * 1000),
    }


@click.command()
@click.option("--state-mb", type=click.IntRange(1), default=300, show_default=True)
@click.option("--value-bytes", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-snapshots.json"))
def main(state_mb: int, value_bytes: int, output: Path) -> None:
    """Measure how long replicas stand still for a snapshot of a large store, print it and write it as JSON."""
    found = measure(state_mb, value_bytes)
    click.echo(f"{found['keys']} keys, snapshots of {found['snapshot_bytes']} bytes")
    click.echo(f"longest that each loop did not run, in ms (0: below 100): {found['stood_still_ms']}")
    click.echo(f"slowest of {found['writes']} writes: {found['slowest_write_ms']} ms")
    click.echo(f"changes of role meanwhile: {found['roles_changed']}")
    write_result(output, group_snapshot=found)


if __name__ == "__main__":
    main()
