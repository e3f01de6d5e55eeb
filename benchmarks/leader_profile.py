"""Where the leader's processor time goes: with one write in flight, and with writes in bulk.

Owns the measurement, its figures in ``store/bench-leader-profile.json`` and its table in docs/performance.md. py-spy
looks at the leader's stacks from outside, a few hundred times a second, and a look counts for the innermost function in
Python: what gRPC and uvloop do in C and Cython counts for the function that has called them. Threads that wait are left
out. Three brokers with default settings, and one client.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypedDict

import click

from benchmarks.brokers import Brokers, running
from benchmarks.peers.table import with_table
from benchmarks.result import write_result
from benchmarks.write_path import create, wait_for_brokers
from replica.client.admin import Admin
from replica.client.producer import Producer
from replica.client.producer_config import ProducerConfig

BROKERS = 3
LOOKS_A_SECOND = 200
RECORD_BYTES, BATCH, BATCHES_IN_FLIGHT = 100, 100_000, 4
SETTLING_S = 2.0
MARKERS = ("<!-- leader-profile: begin -->", "<!-- leader-profile: end -->")
WRITES_AN_ANSWER = "ReplicaService._answer "
PARTS: Mapping[str, str] = {
    "runners.py": "event loop: uvloop, and gRPC's calls coming in and going out",
    WRITES_AN_ANSWER: "answers handed to gRPC",
    "files.py": "reads, writes and flushes of files",
    "replica/storage": "the log's bookkeeping of its files",
    "replica/records": "batches checked and read",
    "replica/core": "the protocol",
    "replica/rpc": "messages encoded and decoded",
    "replica/server": "requests and effects handed on",
}
"""By what is in the innermost frame, the first that fits, the part of the work that it is."""
OTHER = "libraries"
WAITING = ("concurrent/futures/thread.py", "threading.py")


class Profile(TypedDict):
    """How much was written while the leader was looked at, and the share of each part of its time."""

    records_per_s: int
    shares: Mapping[str, float]


Work = Callable[[Producer, str, float], Awaitable[int]]


async def one_in_flight(producer: Producer, topic: str, seconds: float) -> int:
    """Write one record after the other; how many."""
    written, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        await producer.send(topic, bytes(RECORD_BYTES))
        written += 1
    return written


async def bulk(producer: Producer, topic: str, seconds: float) -> int:
    """Write as many records as go; how many."""
    written, end = 0, time.monotonic() + seconds
    values = [bytes(RECORD_BYTES)] * BATCH
    waiting = deque(producer.send_many(topic, values) for _ in range(BATCHES_IN_FLIGHT))
    while waiting:
        await waiting.popleft()
        written += BATCH
        if time.monotonic() < end:
            waiting.append(producer.send_many(topic, values))
    return written


WORKS: Mapping[str, Work] = {"one in flight": one_in_flight, "bulk": bulk}


def shares(stacks: str) -> dict[str, float]:
    """The share of each part, from lines of frames, the innermost last, each with its number of looks."""
    counts: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, looks = line.rpartition(" ")
        innermost = frames.rpartition(";")[2]
        if not any(name in innermost for name in WAITING):
            counts[next((part for key, part in PARTS.items() if key in innermost), OTHER)] += int(looks)
    return {part: round(count / counts.total(), 3) for part, count in counts.most_common()}


async def profiled(brokers: Brokers, name: str, seconds: float, program: str, scratch: Path) -> Profile:
    """The leader while it is given work, after a while of the same."""
    async with Admin(brokers.addresses[0]) as admin:
        await wait_for_brokers(admin)
        topic = name.replace(" ", "-")
        await create(admin, topic, 1)
        (described,) = (await admin.describe_cluster(topics=[topic])).topics
        (leader_id,) = {partition.leader_id for partition in described.partitions.values()}
    process = brokers.processes[int(leader_id or 0) - 1]
    async with Producer(brokers.addresses, ProducerConfig(linger_ms=0)) as producer:
        await WORKS[name](producer, topic, SETTLING_S)
        stacks = scratch / "stacks"
        looking = ("record", "--pid", str(process.pid), "--rate", str(LOOKS_A_SECOND), "--duration", f"{seconds:.0f}")
        told = ("--format", "raw", "--nonblocking", "--output", str(stacks))
        with subprocess.Popen((program, *looking, *told), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            begun = time.monotonic()
            written = await WORKS[name](producer, topic, seconds + 1)
            took_s = time.monotonic() - begun
    return Profile(records_per_s=round(written / took_s), shares=shares(stacks.read_text(encoding="utf-8")))


def table_of(profiles: Mapping[str, Profile]) -> str:
    """The shares side by side."""
    parts = dict.fromkeys(part for profile in profiles.values() for part in profile["shares"])
    rows = [("part of the leader's processor time", *profiles), ("---",) * (1 + len(profiles))]
    rows += [(part, *(f"{one['shares'].get(part, 0):.1%}" for one in profiles.values())) for part in parts]
    rows.append(("records a second", *(f"{one['records_per_s']:,}" for one in profiles.values())))
    lines = (f"| {' | '.join(row)} |" for row in rows)
    return "Written by `python -m benchmarks.leader_profile`.\n\n" + "\n".join(lines)


@click.command()
@click.option("--seconds", type=click.FloatRange(1), default=12.0, show_default=True, help="Of each kind of work.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("store/bench-leader-profile.json"))
@click.option("--table", type=click.Path(path_type=Path, exists=True), help="Write the shares into this page.")
def main(seconds: float, output: Path, table: Path | None) -> None:
    """Look at a leader under each kind of work, print the shares and write them as JSON."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        raise click.ClickException("py-spy is not installed: pip install -e '.[peers]'")
    output.parent.mkdir(parents=True, exist_ok=True)
    with running(BROKERS) as brokers:
        profiles = {name: asyncio.run(profiled(brokers, name, seconds, program, output.parent)) for name in WORKS}
    shown = table_of(profiles)
    click.echo(shown)
    write_result(output, leader_profile=profiles)
    if table is not None:
        table.write_text(with_table(table.read_text(encoding="utf-8"), shown, MARKERS), encoding="utf-8")


if __name__ == "__main__":
    main()
