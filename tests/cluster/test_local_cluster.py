"""Three real replica processes behind proxied links."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from nemesis.cluster.local import LocalCluster, LocalOptions
from nemesis.cluster.system import NodeFailedError, NodeState, UnknownOutcomeError, leader_of
from nemesis.faults.links import CLIENTS, LinkMode
from nemesis.faults.shapes import isolate
from nemesis.workload.ending import has_converged

pytestmark = pytest.mark.cluster

PATIENCE_S = 20.0
FAST = LocalOptions(election_timeout_ms=300, fetch_timeout_ms=600, fetch_max_wait_ms=100)


@asynccontextmanager
async def running(folder: Path, options: LocalOptions = FAST) -> AsyncIterator[LocalCluster]:
    """An open cluster, closed whatever happens."""
    cluster = LocalCluster(folder, options)
    try:
        await cluster.open()
        yield cluster
    finally:
        await cluster.close()


async def wait_states(cluster: LocalCluster, holds: Callable[[Sequence[NodeState]], bool]) -> Sequence[NodeState]:
    """Wait until the states of the replicas that answer are as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds(states := await cluster.states()):
            await asyncio.sleep(0.02)
    return states


async def wait_leader(cluster: LocalCluster, *others_than: int) -> int:
    """Wait for a leader, other than these, and return it."""
    states = await wait_states(cluster, lambda states: leader_of(states) not in (None, *others_than))
    leader = leader_of(states)
    assert leader is not None
    return leader


async def test_a_cluster_lives_through_kill_pause_and_partition(tmp_path: Path) -> None:
    """What is acknowledged before and after each fault is in every replica's log at the end, and nothing is left over.

    One test for one cluster, since starting it is what takes the time.
    """
    async with running(tmp_path) as cluster:
        client = cluster.client()
        first = await wait_leader(cluster)
        acknowledged = {(await client.append(value)).offset: value for value in range(5)}

        assert await cluster.kill(first)
        assert not cluster.is_running(first)
        second = await wait_leader(cluster, first)
        await cluster.start(first)

        assert cluster.pause(second)
        third = await wait_leader(cluster, second)
        assert cluster.resume(second)

        cluster.links.cut("a", isolate(cluster.nodes, [third]), LinkMode.BLACKHOLE)
        await wait_leader(cluster, third)
        cluster.links.heal("a")
        await wait_states(cluster, lambda states: has_converged(states, 3))
        acknowledged |= {(await client.append(value)).offset: value for value in range(5, 8)}
        await wait_states(cluster, lambda states: has_converged(states, 3))

        os.kill(cluster.pids[third], signal.SIGKILL)
        await wait_states(cluster, lambda states: len(states) == 2)
        await cluster.start(third)
        await wait_states(cluster, lambda states: has_converged(states, 3))

        polled = await client.poll(0)
        dumps = [await cluster.dump(node) for node in cluster.nodes]
        pids = list(cluster.pids.values())
        await client.close()

    assert acknowledged.items() <= dict(polled.records).items()
    assert all(dump.complete and dump.batches == dumps[0].batches for dump in dumps)
    epochs = [report.epoch for report in cluster.reports() if report.event == "became-leader"]
    assert [report.node for report in cluster.reports() if report.event == "died"] == [third]
    assert len(epochs) >= 4
    assert epochs == sorted(epochs, key=lambda epoch: epoch or 0)
    assert not any(psutil.pid_exists(pid) for pid in pids)


async def test_clients_can_be_cut_off_alone(tmp_path: Path) -> None:
    """A leader that no client reaches goes on leading, and clients succeed again when the link heals."""
    async with running(tmp_path) as cluster:
        leader = await wait_leader(cluster)
        client = cluster.client()
        assert (await client.append(1)).node == leader
        cluster.links.cut("a", [(CLIENTS, leader)], LinkMode.RESET)
        cut_off = asyncio.create_task(client.append(2))
        await asyncio.wait([cut_off], timeout=0.5)
        if cut_off.done():
            # It went out on the old connection before the reset was noticed there; the next one finds none.
            assert isinstance(cut_off.exception(), UnknownOutcomeError)
            cut_off = asyncio.create_task(client.append(3))
            await asyncio.wait([cut_off], timeout=0.5)
        assert not cut_off.done()

        cluster.links.heal("a")

        assert (await cut_off).node == leader
        await client.close()


async def test_a_replica_that_does_not_start_says_where_to_look(tmp_path: Path) -> None:
    """A server that ends at once makes the start fail with the node, its exit code and its log file."""
    options = LocalOptions(server=("/bin/false",))

    with pytest.raises(NodeFailedError, match=r"replica \d ended with 1: see .*replica.log"):
        async with running(tmp_path, options):
            pass
