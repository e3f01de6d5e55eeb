"""Real processes that may open few files: idle clients, and more partitions than descriptors, take no broker away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from replica.core import messages as m
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.records import decode_records, encode_batch, parse_batches
from replica.rpc.channels import CONNECTIONS_MAX, channel_options
from replica.server.descriptors import descriptor_budget
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster
from tests.server.topics import Topics, all_in_sync

pytestmark = pytest.mark.cluster

ONE, THREE = ReplicaId(1), ReplicaId(3)
DESCRIPTORS = 256
BUDGET = descriptor_budget(DESCRIPTORS, connections_max=CONNECTIONS_MAX, listeners=1)
CLIENTS = 300
FEW, PARTITIONS = 160, 180
"""Descriptors and partitions, where there are more of these."""
OFTEN = ("--replica-high-watermark-checkpoint-interval-ms", "50", "--log-flush-offset-checkpoint-interval-ms", "50")
"""Files are opened for a moment all the time."""
PATIENT = (
    *("--election-timeout-ms", "2000", "--fetch-timeout-ms", "4000", "--request-timeout-ms", "3000"),
    *("--broker-session-timeout-ms", "9000", "--replica-lag-time-max-ms", "10000"),
)
"""To make hundreds of logs at once takes its time."""


@asynccontextmanager
async def running(
    folder: Path,
    size: int,
    *,
    with_peer_listeners: bool = False,
    descriptors: int = DESCRIPTORS,
    options: Iterable[object] = OFTEN,
) -> AsyncIterator[tuple[LocalCluster, Topics]]:
    """A cluster whose replicas have few descriptors, and what asks it about its topic."""
    with LocalCluster(folder, size=size, with_peer_listeners=with_peer_listeners) as cluster:
        cluster.format()
        cluster.start(descriptors=descriptors, options=options)
        async with Topics(cluster.addresses) as topics:
            yield cluster, topics


def new_channel(cluster: LocalCluster, replica_id: ReplicaId) -> grpc.aio.Channel:
    """A client of a replica, which has no connection yet."""
    return grpc.aio.insecure_channel(cluster.addresses[replica_id], options=channel_options())


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
        channels = [await idle.enter_async_context(new_channel(cluster, ONE)) for _ in range(CLIENTS)]
        for number in range(100):
            dial(channels)
            written |= {await topics.write(0, f"beside {number}"): f"beside {number}"}
            await asyncio.sleep(0.05)
        (line,) = [line for line in cluster.lines(ONE) if line["event"] == "descriptors_divided"]
        assert (line["limit"], line["connections"]) == (DESCRIPTORS, BUDGET.connections)
        assert BUDGET.connections // 2 < dial(channels) < BUDGET.connections
        assert ended(cluster) == []
        assert await topics.read(0) == written


async def test_idle_clients_do_not_keep_replicas_from_each_other(tmp_path: Path) -> None:
    """With a listener of their own: one that is killed comes back into every ISR while clients take all they can."""
    async with running(tmp_path, size=3, with_peer_listeners=True) as (cluster, topics), AsyncExitStack() as idle:
        await topics.create(partitions=1, replication_factor=3, min_isr=2)
        await topics.wait_partitions(all_in_sync)
        await topics.wait_controller(cluster.ids)  # The writer has a connection to each before others take them all.
        clients = [new_channel(cluster, replica_id) for replica_id in cluster.ids for _ in range(CLIENTS // 3)]
        channels = [await idle.enter_async_context(channel) for channel in clients]
        dial(channels)
        await topics.write(0, "beside them")
        cluster.kill(THREE)
        await topics.wait_partitions(lambda found: THREE not in found[0].isr)
        cluster.start(THREE, descriptors=DESCRIPTORS, options=OFTEN)
        dial(channels)
        await topics.wait_partitions(all_in_sync)
        assert ended(cluster) == []


def test_a_start_with_too_few_is_refused(tmp_path: Path) -> None:
    """In one sentence, and before anything is written."""
    with LocalCluster(tmp_path, size=1) as cluster:
        cluster.format()
        before = sorted(cluster.data_dir(ONE).rglob("*"))
        cluster.start(descriptors=100)
        assert cluster.processes[ONE].wait(PATIENCE_SECONDS) == 1
    assert ended(cluster) == ["this process may open 100 files; a replica needs 128 at least (ulimit -n, LimitNOFILE)"]
    assert sorted(cluster.data_dir(ONE).rglob("*")) == before


async def write_to_all(topics: Topics, value: str) -> None:
    """Append a value to each partition with acks=all, again until it is acknowledged."""
    found: Mapping[int, PartitionRegistration] = {}

    async def attempt(number: int) -> bool:
        leader_id = found[number].leader_id
        request = m.ProduceRequest(
            topic_partition=topics.log(number), acks=-1, timeout_ms=3000, records=encode_batch([value.encode()]).data
        )
        answer = None if leader_id is None else await topics.ask(leader_id, request)
        return isinstance(answer, m.ProduceResponse) and answer.error is ErrorCode.NONE

    left = list(range(PARTITIONS))
    while left:
        found = await topics.wait_partitions(all_in_sync)
        done = await asyncio.gather(*(attempt(number) for number in left))
        left = [number for number, is_done in zip(left, done, strict=True) if not is_done]


async def read_all(topics: Topics) -> dict[int, list[str]]:
    """The values in each partition, in order; one that came twice, because no answer had come in time, once."""
    found = await topics.wait_partitions(all_in_sync)
    values: dict[int, list[str]] = {}
    for leader_id in {one.leader_id for one in found.values()}:
        assert leader_id is not None
        led = [topics.log(number) for number, one in found.items() if one.leader_id == leader_id]
        parts = tuple(m.FetchPartition(topic_partition=log, fetch_offset=Offset(0)) for log in led)
        answer = await topics.ask(leader_id, m.FetchRequest(partitions=parts, max_bytes=1 << 20))
        assert isinstance(answer, m.FetchResponse)
        for part in answer.partitions:
            records = [record for batch in parse_batches(part.records) for record in decode_records(batch)]
            texts = [(record.value or b"").decode() for record in records]
            values[part.topic_partition.partition] = list(dict.fromkeys(texts))
    return values


@pytest.mark.long
async def test_more_partitions_than_descriptors(tmp_path: Path) -> None:
    """A topic of 180 partitions takes writes to all, on three brokers that are killed and started again meanwhile."""
    async with running(tmp_path, size=3, descriptors=FEW, options=PATIENT) as (cluster, topics):
        await topics.create(partitions=PARTITIONS, replication_factor=3, min_isr=2)
        await topics.wait_partitions(lambda found: len(found) == PARTITIONS and all_in_sync(found))
        await write_to_all(topics, "before")
        for replica_id in cluster.ids:
            cluster.kill(replica_id)
        cluster.start(descriptors=FEW, options=PATIENT)
        await write_to_all(topics, "after")
        assert await read_all(topics) == {number: ["before", "after"] for number in range(PARTITIONS)}
        assert ended(cluster) == []
