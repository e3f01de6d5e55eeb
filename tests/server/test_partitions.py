"""Real processes that are brokers and controllers: partitions outlive their leaders, and a stop moves them first."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replica.core import messages as m
from replica.core.metadata.records import PartitionRegistration
from replica.ids import Offset, ReplicaId, TopicPartition
from tests.server.local_cluster import LocalCluster
from tests.server.topics import BROKER_TIMING, Topics, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

ONE, TWO = ReplicaId(1), ReplicaId(2)
KAFKAS_SESSION_TIMEOUT_S = 9.0

Partitions = Mapping[int, PartitionRegistration]


@asynccontextmanager
async def running(
    folder: Path, *, size: int = 3, options: Iterable[object] = ()
) -> AsyncIterator[tuple[LocalCluster, Topics]]:
    """A cluster that runs, and what asks it about its topic."""
    cluster = LocalCluster(folder, size=size)
    topics = Topics(cluster.addresses)
    cluster.format()
    cluster.start(options=(*BROKER_TIMING, *options))
    try:
        yield cluster, topics
    finally:
        await topics.close()
        cluster.close()


def all_in_sync(partitions: Partitions) -> bool:
    return all(sorted(one.isr) == sorted(one.replicas) and one.leader_id is not None for one in partitions.values())


async def test_acknowledged_records_outlive_the_leader_of_their_partition(tmp_path: Path) -> None:
    """A killed leader is replaced when its session ends, nothing acknowledged is lost, and it rejoins every ISR."""
    async with running(tmp_path) as (cluster, topics):
        await topics.create(partitions=3, replication_factor=3, min_isr=2)
        before = await topics.wait_partitions(all_in_sync)
        assert sorted(one.leader_id or 0 for one in before.values()) == cluster.ids
        written = {number: {await topics.write(number, f"a{number}"): f"a{number}"} for number in before}

        leader = before[0].leader_id
        assert leader is not None
        cluster.kill(leader)
        killed_s = time.monotonic()
        after = await topics.wait_partitions(
            lambda now: all(one.leader_id not in (None, leader) for one in now.values())
        )
        assert time.monotonic() - killed_s < KAFKAS_SESSION_TIMEOUT_S
        assert after[0].leader_epoch > before[0].leader_epoch
        for number in after:
            written[number][await topics.write(number, f"b{number}")] = f"b{number}"
        for number, one in after.items():
            assert one.leader_id is not None
            assert written[number].items() <= (await topics.read(number, one.leader_id)).items()

        cluster.start(leader, options=BROKER_TIMING)
        await topics.wait_partitions(all_in_sync)
        for number in after:
            await wait_same_copies(topics, cluster, number)


async def wait_same_copies(topics: Topics, cluster: LocalCluster, partition: int) -> None:
    """Wait until every replica holds the same records of a partition and knows as much of them to be committed."""

    async def copies() -> set[tuple[bytes, Offset | None] | None]:
        answers = [await topics.dump(replica_id, partition) for replica_id in cluster.ids]
        return {None if answer is None else (answer.records, answer.high_watermark) for answer in answers}

    await eventually(copies, lambda seen: len(seen) == 1 and None not in seen)


async def test_a_graceful_stop_moves_leaders_before_the_process_ends(tmp_path: Path) -> None:
    """A broker that is told to stop leads nothing and is in no ISR when it ends, says who it was, and comes back."""
    async with running(tmp_path, options=("--stop-grace-ms", "1")) as (cluster, topics):
        await topics.create(partitions=3, replication_factor=3, min_isr=2)
        before = await topics.wait_partitions(all_in_sync)
        leader = before[0].leader_id
        assert leader is not None
        await topics.write(0, "kept")
        assert cluster.stop(leader) == 0

        lines = cluster.lines(leader)
        ended = {line["event"]: line for line in lines}
        (moved,) = [line for line in lines if line["event"] == "role_changed" and line["log"] == "t-0"][-1:]
        assert (moved["role"], moved["time_ns"] < ended["stopped"]["time_ns"]) == ("follower", True)
        assert ended["resigned"]["handed_over"] is True
        marker = json.loads((cluster.data_dir(leader) / ".kafka_cleanshutdown").read_text())
        (registered,) = [line for line in lines if line["event"] == "broker_registered" and line["broker_id"] == leader]
        assert marker["brokerEpoch"] == registered["broker_epoch"]
        after = await topics.partitions()
        assert all(one.leader_id != leader and leader not in one.isr for one in after.values())

        cluster.start(leader, options=BROKER_TIMING)
        await topics.wait_partitions(all_in_sync)


async def test_a_cluster_may_leave_flushing_to_the_system(tmp_path: Path) -> None:
    """With --log-flush os a cluster starts and acknowledges."""
    async with running(tmp_path, size=1, options=("--log-flush", "os")) as (cluster, topics):
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        offset = await topics.write(0, "quick")
        assert await topics.read(0, ONE) == {offset: "quick"}
        assert cluster.stop(ONE) == 0


async def test_one_process_controls_and_another_is_the_broker(tmp_path: Path) -> None:
    """A broker that is no voter follows the metadata, serves, and is known to the controller by where it registered."""
    cluster = LocalCluster(tmp_path, size=2, voters=1)
    cluster.format()
    cluster.start(ONE, options=("--roles", "controller", *BROKER_TIMING))
    where = ("--advertised-address", cluster.addresses[TWO])
    cluster.start(TWO, options=("--roles", "broker", *where, *BROKER_TIMING))
    topics = Topics(cluster.addresses)
    try:
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        offset = await topics.write(0, "far")
        assert await topics.read(0, TWO) == {offset: "far"}
        described = await topics.ask(ONE, m.DescribeReplicaRequest(topic_partition=TopicPartition("log", 0)))
        assert isinstance(described, m.DescribeReplicaResponse)
        assert described.addresses == cluster.addresses
        assert [cluster.stop(TWO), cluster.stop(ONE)] == [0, 0]
    finally:
        await topics.close()
        cluster.close()
