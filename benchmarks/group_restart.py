"""How a state machine's log stays short, and how soon it is back: millions of small commands, then a restart.

Owns the measurement and its figures in ``store/bench-groups.json``. Three real replicas with the key-value store as
their machine, on one machine. The commands add 1 to one of some keys, numbered in a session, so that a request whose
answer was lost is sent again and nothing is added twice; now and then the store's old revisions are compacted, as
whoever runs a store does. After half of them and at the end it is told how much each replica has on disk.
Then all replicas are killed at once and started again: *back* is the time from there to the first linearizable read.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.result import write_result
from replica.client import KeyValueClient
from replica.client.connections import Endpoint, GrpcConnections, bootstrap_endpoints
from replica.core.messages import ApplyRequest, ApplyResponse
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.machines import Answered, ClientSession, OpenSession, Outcome, SessionOpened, decode_outcome, encode_entry
from replica.machines.key_value import commands, encode_command, prefix
from replica.rpc.transport import TransportError

REPLICAS = 3
GROUP = TopicPartition("kv", 0)
KEYS = 1000
BATCH = 1000
"""How many commands one request carries."""
REQUESTS_AHEAD = 4
COMPACT_EVERY = 20
"""After how many requests the old revisions go."""
REVISIONS_KEPT = 10_000
TIMEOUT_MS = 20_000
SESSION_TTL_MS = 3_600_000
UP_S_MAX = 120


class Writer:
    """Sends requests to whoever leads, again and again until they are answered; each command is applied once."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._endpoints = deque(bootstrap_endpoints(addresses))
        self._connections = GrpcConnections()
        self._session: ClientSession | None = None

    async def open(self) -> None:
        """Open the session."""
        (outcome,) = await self._applied(lambda: (encode_entry(OpenSession(ttl_ms=SESSION_TTL_MS)),))
        if not isinstance(outcome, SessionOpened):
            raise click.ClickException(f"no session: {outcome}")
        self._session = ClientSession(outcome.session_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def apply(self, *given: commands.Command) -> None:
        """Have commands applied once each; anything else than that ends the measurement."""
        session = self._session
        assert session is not None, "the writer is not open"
        sequences = [session.begin(encode_command(command)) for command in given]
        outcomes = await self._applied(lambda: tuple(encode_entry(session.entry(sequence)) for sequence in sequences))
        for sequence, outcome in zip(sequences, outcomes, strict=True):
            if not isinstance(outcome, Answered):
                raise click.ClickException(f"a command ended with {outcome}")
            session.settle(sequence)

    async def _applied(self, entries: Callable[[], tuple[bytes, ...]]) -> tuple[Outcome, ...]:
        deadline_s = time.monotonic() + UP_S_MAX
        while True:
            endpoint = self._endpoints[0]
            request = ApplyRequest(topic_partition=GROUP, entries=entries(), timeout_ms=TIMEOUT_MS)
            response = await self._ask(endpoint, request)
            if response is not None and response.error is ErrorCode.NONE:
                return tuple(map(decode_outcome, response.outcomes))
            if time.monotonic() > deadline_s:
                raise click.ClickException(f"nobody led within {UP_S_MAX} s")
            if self._endpoints[0] is endpoint:
                self._endpoints.rotate()
            await asyncio.sleep(0.1)

    async def _ask(self, endpoint: Endpoint, request: ApplyRequest) -> ApplyResponse | None:
        try:
            response = await self._connections.call(endpoint, request, TIMEOUT_MS)
        except TransportError:
            return None
        assert isinstance(response, ApplyResponse), response
        return response


def _increments(number: int) -> tuple[commands.Command, ...]:
    keys = (b"key%d" % ((number * BATCH + place) % KEYS) for place in range(BATCH))
    return tuple(commands.Increment(key=key) for key in keys)


async def write(addresses: Iterable[str], requests: range) -> None:
    """Apply so many requests of increments, some of them at a time."""
    writer = Writer(addresses)
    numbers = iter(requests)

    async def one_after_the_other() -> None:
        for number in numbers:
            await writer.apply(*_increments(number))
            revision = number * BATCH - REVISIONS_KEPT
            if number % COMPACT_EVERY == 0 and revision > 0:
                await writer.apply(commands.Compact(revision=revision))

    try:
        await writer.open()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(REQUESTS_AHEAD):
                tasks.create_task(one_after_the_other())
    finally:
        await writer.close()


async def total(addresses: Iterable[str]) -> int:
    """The sum of all keys, read linearizably, as soon as somebody answers."""
    async with KeyValueClient(addresses) as store:
        answer = await store.range(prefix(b"key"), timeout_ms=UP_S_MAX * 1000)
        return sum(int(pair.value) for pair in answer.result.found)


def disk_bytes(brokers: Brokers) -> list[int]:
    """What each replica has on disk for the group, files that wait for their deletion included."""
    return [_size(brokers.folder / f"{number}") for number in range(1, REPLICAS + 1)]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(operations: int, snapshot_bytes: int) -> Mapping[str, object]:
    """Write, look, kill, start, read."""
    requests = operations // BATCH
    options = (
        "--group",
        f"{GROUP.topic}=key-value",
        "--group-snapshot-max-record-bytes-between",
        f"{snapshot_bytes}",
        "--log-segment-bytes",
        f"{snapshot_bytes // 4}",
        "--file-delete-delay-ms",
        "1000",
    )
    with running(REPLICAS, *options) as brokers:
        begun = time.monotonic()
        asyncio.run(write(brokers.addresses, range(requests // 2)))
        halfway = disk_bytes(brokers)
        asyncio.run(write(brokers.addresses, range(requests // 2, requests)))
        write_s = time.monotonic() - begun
        at_end = disk_bytes(brokers)
        expected = asyncio.run(total(brokers.addresses))
        brokers.kill_all()
        begun = time.monotonic()
        brokers.start_all()
        found = asyncio.run(total(brokers.addresses))
        back_s = time.monotonic() - begun
    if not expected == found == requests * BATCH:
        raise click.ClickException(f"{requests * BATCH} were added, {expected} read before the kill, {found} after")
    return {
        "commands": requests * BATCH,
        "replicas": REPLICAS,
        "snapshot_max_record_bytes_between": snapshot_bytes,
        "write_seconds": round(write_s, 2),
        "commands_a_second": round(requests * BATCH / write_s),
        "disk_mb_halfway": [round(size / 1e6, 2) for size in halfway],
        "disk_mb_at_end": [round(size / 1e6, 2) for size in at_end],
        "back_seconds": round(back_s, 2),
    }


@click.command()
@click.option("--operations", type=click.IntRange(2 * BATCH), default=1_000_000, show_default=True)
@click.option("--snapshot-bytes", type=click.IntRange(64 << 10), default=20 << 20, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-groups.json"))
def main(operations: int, snapshot_bytes: int, output: Path) -> None:
    """Measure a group under millions of commands, print the figures and write them as JSON."""
    found = measure(operations, snapshot_bytes)
    click.echo(f"{found['commands']} commands, {found['commands_a_second']} a second")
    click.echo(f"on disk, in MB: halfway {found['disk_mb_halfway']}, at the end {found['disk_mb_at_end']}")
    click.echo(f"all killed and back with a linearizable read after {found['back_seconds']} s, nothing lost")
    write_result(output, groups=found)


if __name__ == "__main__":
    main()
