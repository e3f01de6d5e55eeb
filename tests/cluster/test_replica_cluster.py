"""Three real replica processes behind proxied links."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.cluster.topic_client import ClientOptions, TopicClient
from nemesis.errors import NodeFailedError, NotDoneError
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.faults.links import CLIENTS, LinkMode
from nemesis.faults.shapes import isolate
from nemesis.history import KILLED_FROM_OUTSIDE, METADATA_LOG
from nemesis.workload.ending import why_not_converged
from replica.ids import ReplicaId
from replica.storage import open_directory
from replica.voters import Voter, VoterSet
from tests.cluster.stage import Forking

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0
NAME = "topic1-0"
FAST = ReplicaOptions(
    topics=TopicOptions(partitions=1),
    timing=Timing(election_timeout_ms=300, fetch_timeout_ms=600, fetch_max_wait_ms=100, broker_session_timeout_ms=1500),
    client=ClientOptions(client_timeout_ms=8000),
)


@asynccontextmanager
async def running(place: Path | LocalHost, options: ReplicaOptions = FAST) -> AsyncIterator[ReplicaCluster]:
    """An open cluster in a folder or on a host, closed whatever happens."""
    host = place if isinstance(place, LocalHost) else Forking(place, options.nodes)
    cluster = ReplicaCluster(host, options)
    try:
        await cluster.open()
        yield cluster
    finally:
        await cluster.close()


async def wait_partition(cluster: ReplicaCluster, holds: Callable[[PartitionState], bool]) -> PartitionState:
    """Wait until what is decided about the one partition is as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while not ((state := await cluster.cluster_state()) and holds(state.partitions[NAME])):
            await asyncio.sleep(0.02)
    return state.partitions[NAME]


async def wait_leader(cluster: ReplicaCluster, *others_than: int) -> int:
    """Wait for a leader, other than these, and return it."""
    partition = await wait_partition(cluster, lambda of: of.leader not in (None, *others_than))
    assert partition.leader is not None
    return partition.leader


async def wait_converged(cluster: ReplicaCluster) -> None:
    """Wait until all replicas are in sync and have everything."""
    state: ClusterState | None = None
    async with asyncio.timeout(PATIENCE_S):
        while True:
            replicas = await cluster.replica_states()
            state = await cluster.cluster_state()
            if why_not_converged((NAME,), state, replicas) is None:
                return
            await asyncio.sleep(0.02)


async def append(client: TopicClient, values: Sequence[int]) -> dict[int | None, int]:
    """Append values one after the other; returns them by offset."""
    return {(await client.append(NAME, value)).offset: value for value in values}


@pytest.mark.long
async def test_a_cluster_lives_through_kill_pause_partition_and_stop(tmp_path: Path) -> None:
    """What is acknowledged before and after each fault is in every replica's log at the end, and nothing is left over.

    One test for one cluster, since starting it is what takes the time.
    """
    host = LocalHost(tmp_path, FAST.nodes)
    async with running(host) as cluster:
        await cluster.create_logs()
        client = cluster.client()
        first = await wait_leader(cluster)
        acknowledged = await append(client, range(5))

        assert await cluster.kill(first)
        assert not cluster.is_running(first)
        second = await wait_leader(cluster, first)
        await cluster.start(first)
        acknowledged |= await append(client, range(5, 8))

        assert await cluster.pause(second)
        third = await wait_leader(cluster, second)
        assert await cluster.resume(second)
        await wait_converged(cluster)

        await cluster.links.cut("a", isolate(cluster.nodes, [third]), LinkMode.BLACKHOLE)
        await wait_leader(cluster, third)
        await cluster.links.heal("a")
        await wait_converged(cluster)
        acknowledged |= await append(client, range(8, 11))

        fourth = await wait_leader(cluster)
        assert await cluster.stop(fourth)
        await wait_leader(cluster, fourth)
        await cluster.start(fourth)
        await wait_converged(cluster)

        os.kill(host.pids[third], signal.SIGKILL)
        await wait_partition(cluster, lambda of: third not in of.isr)
        await cluster.start(third)
        await wait_converged(cluster)

        polled = await client.poll(NAME, 0)
        dumps = {dump.node: dump for node in cluster.nodes for dump in await cluster.dumps(node)}
        names = [dump.topic_partition for dump in await cluster.dumps(third)]
        pids = list(host.pids.values())
        await client.close()

    assert acknowledged.items() <= dict(polled.records).items()
    assert names == [METADATA_LOG, NAME]
    assert all(dump.complete and dump.batches == dumps[1].batches for dump in dumps.values())
    assert all(batch.producer_id is not None for batch in dumps[1].batches)
    reports = cluster.reports()
    epochs = [of.epoch for of in reports if (of.event, of.topic_partition) == ("became-leader", NAME)]
    assert [report.node for report in reports if report.event == KILLED_FROM_OUTSIDE] == [third]
    assert len(epochs) >= 5
    assert epochs == sorted(epochs, key=lambda epoch: epoch or 0)
    assert {"isr-shrunk", "isr-expanded"} & {report.event for report in reports}
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("acks", ["1", "0"])
async def test_less_than_all_can_be_asked_for(acks: str, tmp_path: Path) -> None:
    """With acks of 1 an append says where it stands, with 0 nobody does; both are in the log in the end."""
    options = replace(FAST, client=ClientOptions(acks=acks, idempotence=False))
    async with running(tmp_path, options) as cluster:
        await cluster.create_logs()
        client = cluster.client()
        done = await client.append(NAME, 7)
        async with asyncio.timeout(PATIENCE_S):
            while not (polled := await client.poll(NAME, 0)).records:
                await asyncio.sleep(0.02)
        dumped = [dump for dump in await cluster.dumps(1) if dump.topic_partition == NAME]
        await client.close()

    assert polled.records == ((0, 7),)
    assert done.offset == (0 if acks == "1" else None)
    assert dumped[0].batches[0].producer_id is None


async def test_clients_can_be_cut_off_alone(tmp_path: Path) -> None:
    """A leader that no client reaches leads for longer than its session, and clients succeed when the link heals.

    Its session is not as short as others' here: a busy machine may keep it from its heartbeats for a while as well.
    """
    patient = replace(
        FAST,
        timing=replace(FAST.timing, broker_session_timeout_ms=4000),
        client=ClientOptions(client_timeout_ms=30_000),
    )
    async with running(tmp_path, patient) as cluster:
        await cluster.create_logs()
        leader = await wait_leader(cluster)
        client = cluster.client()
        await client.append(NAME, 1)
        await cluster.links.cut("a", frozenset({(CLIENTS, leader)}), LinkMode.RESET)
        cut_off = asyncio.create_task(client.append(NAME, 2))
        await asyncio.wait([cut_off], timeout=6.0)
        assert not cut_off.done()
        assert await wait_leader(cluster) == leader

        await cluster.links.heal("a")

        assert (await cut_off).offset == 1
        await client.close()


async def test_a_poll_beyond_the_end_has_read_nothing(tmp_path: Path) -> None:
    """What no leader can answer is told as not done."""
    async with running(tmp_path) as cluster:
        await cluster.create_logs()
        client = cluster.client()
        with pytest.raises(NotDoneError, match="OFFSET_OUT_OF_RANGE"):
            await client.poll(NAME, 99)
        await client.close()


async def test_a_replica_that_does_not_start_says_where_to_look(tmp_path: Path) -> None:
    """A server that ends at once makes the start fail with the node, its exit code and its log file."""
    options = ReplicaOptions(server=("-c", "raise SystemExit(1)"))

    with pytest.raises(NodeFailedError, match=r"replica \d ended with 1: see .*replica.log"):
        async with running(tmp_path, options):
            pass


async def test_a_wiped_disk_has_no_vote(tmp_path: Path) -> None:
    """Disks are formatted with all nodes as voters where voters can change; a disk in their place is nobody's voter."""
    lone = replace(FAST, nodes=1, topics=TopicOptions(replication_factor=1, min_insync_replicas=1))

    def found() -> tuple[VoterSet | None, str]:
        directory = open_directory(tmp_path / "nodes" / "1" / "data")
        directory.close(clean=False)
        return directory.initial_voters, directory.directory_id

    async with running(tmp_path, lone) as cluster:
        with pytest.raises(NodeFailedError, match="replica 1 runs: its disk cannot be wiped"):
            await cluster.wipe(1)
        await cluster.kill(1)
        voters, directory_id = found()
        address = cluster.addresses(CLIENTS)[1]
        assert voters == VoterSet((Voter(replica_id=ReplicaId(1), directory_id=directory_id, address=address),))
        await cluster.wipe(1)
        voters, fresh_id = found()
        assert (voters, fresh_id == directory_id) == (VoterSet(()), False)
        await cluster.start(1)
