"""Real processes that are brokers and controllers: partitions outlive their leaders, and a stop moves them first."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replica.ids import ReplicaId
from tests.server.local_cluster import LocalCluster
from tests.server.topics import Topics, all_in_sync

pytestmark = pytest.mark.cluster

ONE, TWO = ReplicaId(1), ReplicaId(2)
KAFKAS_SESSION_TIMEOUT_S = 9.0


@asynccontextmanager
async def running(
    folder: Path, *, size: int = 3, options: Iterable[object] = ()
) -> AsyncIterator[tuple[LocalCluster, Topics]]:
    """A cluster that runs, and what asks it about its topic."""
    with LocalCluster(folder, size=size) as cluster:
        cluster.format()
        cluster.start(options=options)
        async with Topics(cluster.addresses) as topics:
            yield cluster, topics


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
        for number in after:
            assert written[number].items() <= (await topics.read(number)).items()

        cluster.start(leader)
        await topics.wait_partitions(all_in_sync)
        for number in after:
            await topics.wait_same_copies(topics.log(number))


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
        assert ended["resigned"]["handed_over"] is True
        marker = json.loads((cluster.data_dir(leader) / ".kafka_cleanshutdown").read_text())
        (registered,) = [line for line in lines if line["event"] == "broker_registered" and line["broker_id"] == leader]
        assert marker["brokerEpoch"] == registered["broker_epoch"]
        after = await topics.partitions()
        assert all(one.leader_id != leader and leader not in one.isr for one in after.values())

        cluster.start(leader)
        await topics.wait_partitions(all_in_sync)


async def test_a_cluster_may_leave_flushing_to_the_system(tmp_path: Path) -> None:
    """With --log-flush os a cluster starts and acknowledges."""
    async with running(tmp_path, size=1, options=("--log-flush", "os")) as (cluster, topics):
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        offset = await topics.write(0, "quick")
        assert await topics.read(0) == {offset: "quick"}
        assert cluster.stop(ONE) == 0


async def test_one_process_controls_and_another_is_the_broker(tmp_path: Path) -> None:
    """A broker that is no voter follows the metadata, serves, and is known to the controller by where it registered."""
    with LocalCluster(tmp_path, size=2, voters=1) as cluster:
        cluster.format()
        cluster.start(ONE, options=("--roles", "controller"))
        where = ("--advertised-address", cluster.addresses[TWO])
        cluster.start(TWO, options=("--roles", "broker", *where))
        async with Topics(cluster.addresses) as topics:
            await topics.create(partitions=1, replication_factor=1, min_isr=1)
            offset = await topics.write(0, "far")
            assert await topics.read(0) == {offset: "far"}
            controller, broker = [await topics.describe(replica_id) for replica_id in cluster.ids]
            assert controller is not None
            assert broker is not None
            assert (controller.role, broker.role) == ("leader", "follower")
            assert controller.addresses == cluster.addresses
            assert [cluster.stop(TWO), cluster.stop(ONE)] == [0, 0]


async def test_the_only_broker_is_let_go_by_a_controller_elsewhere(tmp_path: Path) -> None:
    """A replica that leads no quorum log, and beside which no broker is registered, asks before it ends."""
    with LocalCluster(tmp_path, size=2, voters=1) as cluster:
        cluster.format()
        async with Topics(cluster.addresses) as topics:
            cluster.start(ONE, options=("--roles", "controller"))
            cluster.start(TWO, options=("--roles", "broker", "--advertised-address", cluster.addresses[TWO]))
            await topics.create(partitions=1, replication_factor=1, min_isr=1)
            await topics.wait_partitions(all_in_sync)
            assert cluster.stop(TWO) == 0
            ended = {line["event"]: line for line in cluster.lines(TWO)}
            assert ("resigned" in ended and ended["resigned"]["handed_over"]) is True
            assert "broker_leaving" in [line["event"] for line in cluster.lines(ONE)]
