"""How long nobody can write when a leader is killed: to a topic, and to a key-value store, by default settings.

Owns the measurement and its figures in ``store/bench-failover.json``. Three brokers are three processes on this
machine. Whoever leads is killed (SIGKILL), sometimes the active controller in the same process, as it falls; the wait
is from then to the acknowledgement of a write that was begun at once. The next kill comes when the killed one is back,
and everything is in sync again.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import click

from benchmarks.brokers import Brokers, running
from benchmarks.result import write_result
from benchmarks.write_path import BROKERS, BUSY, create, wait_for_brokers
from replica.client.admin import Admin
from replica.client.failures import ClusterUnreachableError
from replica.client.groups.key_value import KeyValueClient
from replica.client.groups.quorum import describe_quorum
from replica.client.producer import Producer
from replica.core.messages import DescribeQuorumResponse
from replica.ids import ReplicaId

STORE = "store"
LAG_MAX_MS = 1000
"""How long ago every voter of a log has fetched at most when all is well."""
SETTLE_S = 1.0
GIVE_UP_S = 120

Write = Callable[[], Awaitable[object]]
Leader = Callable[[], Awaitable[ReplicaId]]


async def quorum_in_sync(brokers: Brokers, group: str | None) -> DescribeQuorumResponse:
    """Wait until all voters of a log follow its leader, and return how they stand."""
    deadline_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < deadline_s:
        try:
            described = await describe_quorum(brokers.addresses, group)
        except ClusterUnreachableError:
            continue
        fetched = [voter.last_fetch_ms_ago for voter in described.current_voters]
        if sum(ago is not None and ago < LAG_MAX_MS for ago in fetched) >= BROKERS - 1:
            return described
        await asyncio.sleep(0.2)
    raise click.ClickException(f"the voters of {group or 'the metadata log'} were not in sync within {GIVE_UP_S} s")


async def controller_id(brokers: Brokers) -> ReplicaId:
    """Name the active controller, once all voters follow it."""
    return _leader_of(await quorum_in_sync(brokers, None))


def _leader_of(described: DescribeQuorumResponse) -> ReplicaId:
    assert described.current_leader is not None, described
    assert described.current_leader.leader_id is not None, described
    return described.current_leader.leader_id


async def partition_leader(admin: Admin) -> ReplicaId:
    """Name who leads the partition, once all of its replicas are in sync."""
    deadline_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < deadline_s:
        (topic,) = (await admin.describe_cluster(topics=[BUSY])).topics
        partition = topic.partitions[0]
        if len(partition.isr) == BROKERS and partition.leader_id is not None:
            return partition.leader_id
        await asyncio.sleep(0.2)
    raise click.ClickException(f"{BUSY} was not in sync within {GIVE_UP_S} s")


async def kill_and_write(brokers: Brokers, leader: Leader, write: Write) -> Mapping[str, object]:
    """Kill who leads, and tell how long it took until a write was acknowledged; then let it come back."""
    killed, controller = await leader(), await controller_id(brokers)
    await asyncio.sleep(SETTLE_S)
    await write()
    begun = time.monotonic()
    brokers.kill(killed)
    await write()
    waited_s = time.monotonic() - begun
    brokers.start(killed)
    await asyncio.sleep(LAG_MAX_MS / 1000)  # From then on only fetches of its new process count as recent.
    found = {"waited_s": round(waited_s, 3), "killed": killed, "was_controller": killed == controller}
    click.echo(json.dumps(found), err=True)
    return found


def summary(kills: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Gather the waits of one kind of write."""
    waited = [float(str(kill["waited_s"])) for kill in kills]
    return {"median_s": round(statistics.median(waited), 3), "worst_s": max(waited), "kills": list(kills)}


async def measure(brokers: Brokers, kills: int) -> Mapping[str, object]:
    """Kill the leader of the topic so often, then that of the store."""
    async with (
        Admin(brokers.addresses) as admin,
        Producer(brokers.addresses) as producer,
        KeyValueClient(brokers.addresses, STORE) as store,
    ):
        await wait_for_brokers(admin)
        await create(admin, BUSY, partitions=1)

        async def send() -> object:
            return await producer.send(BUSY, b"v")

        async def put() -> object:
            return await store.put(b"key", b"v")

        async def topic_leader() -> ReplicaId:
            await wait_for_brokers(admin)
            return await partition_leader(admin)

        async def store_leader() -> ReplicaId:
            return _leader_of(await quorum_in_sync(brokers, STORE))

        topic = [await kill_and_write(brokers, topic_leader, send) for _ in range(kills)]
        key_value = [await kill_and_write(brokers, store_leader, put) for _ in range(kills)]
    return {"topic": summary(topic), "key_value": summary(key_value)}


@click.command()
@click.option("--kills", type=click.IntRange(1), default=20, show_default=True, help="Of each kind.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("store/bench-failover.json"))
def main(kills: int, output: Path) -> None:
    """Kill leaders under writers, print the waits and write them as JSON."""
    with running(BROKERS, "--group", f"{STORE}=key-value") as brokers:
        figures = asyncio.run(measure(brokers, kills))
    for name, figure in figures.items():
        assert isinstance(figure, dict), figure
        click.echo(f"{name}: median {figure['median_s']} s, worst {figure['worst_s']} s")
    write_result(output, **figures)


if __name__ == "__main__":
    main()
