"""Real processes that may open 256 files: idle clients, and more partitions than descriptors, take no broker away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from replica.ids import ReplicaId
from replica.server.channels import CONNECTIONS_MAX, channel_options
from replica.server.descriptors import descriptor_budget
from tests.server.local_cluster import LocalCluster
from tests.server.topics import Topics, all_in_sync

pytestmark = pytest.mark.cluster

ONE = ReplicaId(1)
DESCRIPTORS = 256
BUDGET = descriptor_budget(DESCRIPTORS, connections_max=CONNECTIONS_MAX, listeners=1)
CLIENTS = 300
PARTITIONS = 300
OFTEN = ("--replica-high-watermark-checkpoint-interval-ms", "50", "--log-flush-offset-checkpoint-interval-ms", "50")
"""Files are opened for a moment all the time."""


@asynccontextmanager
async def running(folder: Path, size: int) -> AsyncIterator[tuple[LocalCluster, Topics]]:
    """A cluster whose replicas have few descriptors, and what asks it about its topic."""
    cluster = LocalCluster(folder, size=size)
    topics = Topics(cluster.addresses)
    cluster.format()
    cluster.start(descriptors=DESCRIPTORS, options=OFTEN)
    try:
        yield cluster, topics
    finally:
        await topics.close()
        cluster.close()


def dial(channels: Iterable[grpc.aio.Channel]) -> int:
    """Let all connect that do not, and count those that do."""
    states = [channel.get_state(try_to_connect=True) for channel in channels]
    return states.count(grpc.ChannelConnectivity.READY)


def ended(cluster: LocalCluster) -> list[object]:
    """What replicas have said of why they have stopped, or have not started."""
    lines = [line for replica_id in cluster.ids for line in cluster.lines(replica_id)]
    return [line["reason"] for line in lines if line["event"] in {"halted", "start_refused"}]


async def test_idle_clients_leave_a_broker_to_its_writer(tmp_path: Path) -> None:
    """300 connections that stay open and ask nothing are refused above what there is; an honest writer is served on."""
    async with running(tmp_path, size=1) as (cluster, topics), AsyncExitStack() as idle:
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        await topics.wait_partitions(all_in_sync)
        written = {await topics.write(0, "before"): "before"}
        channels = []
        for _ in range(CLIENTS):
            channel = grpc.aio.insecure_channel(cluster.addresses[ONE], options=channel_options())
            channels.append(await idle.enter_async_context(channel))
        for number in range(100):
            dial(channels)
            written |= {await topics.write(0, f"beside {number}"): f"beside {number}"}
            await asyncio.sleep(0.05)
        (line,) = [line for line in cluster.lines(ONE) if line["event"] == "descriptors_divided"]
        assert (line["limit"], line["connections"]) == (DESCRIPTORS, BUDGET.connections)
        assert BUDGET.connections // 2 < dial(channels) < BUDGET.connections
        assert ended(cluster) == []
        assert await topics.read(0) == written


async def test_more_partitions_than_descriptors(tmp_path: Path) -> None:
    """A topic of 300 partitions takes writes to all, on three brokers that are killed and started again meanwhile."""
    async with running(tmp_path, size=3) as (cluster, topics):
        await topics.create(partitions=PARTITIONS, replication_factor=3, min_isr=2)
        await topics.wait_partitions(lambda found: len(found) == PARTITIONS and all_in_sync(found))
        await asyncio.gather(*(topics.write(number, f"a{number}") for number in range(PARTITIONS)))
        for replica_id in cluster.ids:
            cluster.kill(replica_id)
        cluster.start(descriptors=DESCRIPTORS, options=OFTEN)
        await topics.wait_partitions(all_in_sync)
        await asyncio.gather(*(topics.write(number, f"b{number}") for number in range(PARTITIONS)))
        for number in range(PARTITIONS):
            # A write that was not answered in time is tried again.
            assert list(dict.fromkeys((await topics.read(number)).values())) == [f"a{number}", f"b{number}"]
        assert ended(cluster) == []
