"""Three real processes: they elect, replicate, lose their leader, come back, and hold the same log."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.client import DumpedLog, OutcomeUnknownError, ReplicaClient
from replica.core.messages import DescribeReplicaResponse
from replica.ids import ReplicaId
from tests.server.local_cluster import LocalCluster, wait_leader, wait_state

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three formatted replicas that run."""
    cluster = LocalCluster(tmp_path)
    cluster.format()
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.close()


async def write(client: ReplicaClient, *values: str) -> None:
    for value in values:
        await client.produce([value.encode()], timeout_ms=20_000)


async def write_in_the_end(client: ReplicaClient, value: str) -> None:
    """Write a value that a leader may take that has been replaced without knowing it: such a write is lost for good."""
    while True:
        try:
            return await write(client, value)
        except OutcomeUnknownError:
            continue


async def read_all(client: ReplicaClient) -> list[str]:
    """Read every committed value from the start to the leader's high watermark."""
    end = (await client.list_offsets(latest=True)).offset
    values: list[str] = []
    offset = 0
    while offset < end:
        fetched = await client.fetch(offset)
        values += [(record.value or b"").decode() for record in fetched.records]
        offset = fetched.next_offset
    return values


def have_converged(states: list[DescribeReplicaResponse]) -> bool:
    ends = {(state.log_end_offset, state.flushed_end_offset, state.high_watermark) for state in states}
    return len(ends) == 1 and states[0].high_watermark == states[0].log_end_offset


async def dumps(client: ReplicaClient, ids: list[ReplicaId]) -> list[DumpedLog]:
    return [await client.dump_log(replica_id) for replica_id in ids]


async def test_what_was_acknowledged_outlives_its_leader(cluster: LocalCluster) -> None:
    """A killed leader is replaced, all it had acknowledged is still read, and it catches up when it comes back."""
    async with cluster.client(request_timeout_ms=20_000) as client:
        leader = await wait_leader(client, cluster.ids)
        await write(client, "a", "b", "c")
        cluster.kill(leader)
        others = [replica_id for replica_id in cluster.ids if replica_id != leader]
        assert await wait_leader(client, others) != leader
        await write(client, "d")
        assert await read_all(client) == ["a", "b", "c", "d"]
        cluster.start(leader)
        await wait_state(client, cluster.ids, have_converged)
        first, *rest = await dumps(client, cluster.ids)
        assert first.complete
        assert all(dump.batches == first.batches and dump.epochs == first.epochs for dump in rest)


async def test_all_killed_and_started_again_hold_what_was_acknowledged(cluster: LocalCluster) -> None:
    """After a kill of every process at once, the restarted cluster reads back every acknowledged write."""
    async with cluster.client(request_timeout_ms=20_000) as client:
        await write(client, *"abc")
        for replica_id in cluster.ids:
            cluster.kill(replica_id)
        cluster.start()
        await write(client, "d")
        assert await read_all(client) == ["a", "b", "c", "d"]


async def test_a_leader_that_stops_hands_over(cluster: LocalCluster) -> None:
    """A leader asked to stop exits with 0 after another leads, and leaves the marker of a clean stop."""
    async with cluster.client(request_timeout_ms=20_000) as client:
        await write(client, "a")
        leader = await wait_leader(client, cluster.ids)
        assert cluster.stop(leader) == 0
        events = {line["event"]: line for line in cluster.lines(leader)}
        assert events["resigned"]["handed_over"] is True
        assert events["stopped"]["replica_id"] == leader
        assert (cluster.data_dir(leader) / ".kafka_cleanshutdown").exists()
        assert await read_all(client) == ["a"]


async def test_log_lines_tell_who_led_when(cluster: LocalCluster) -> None:
    """Every line is JSON with replica_id and time_ns, and the leader's role change names its epoch."""
    async with cluster.client(request_timeout_ms=20_000) as client:
        leader = await wait_leader(client, cluster.ids)
        described = await client.describe_quorum()
    lines = cluster.lines(leader)
    assert all(line["replica_id"] == leader and line["time_ns"] > 0 for line in lines)
    led = [line for line in lines if line["event"] == "role_changed" and line["role"] == "leader"]
    assert described.current_leader is not None
    assert (led[-1]["epoch"], led[-1]["leader_id"]) == (described.current_leader.leader_epoch, leader)


async def test_a_paused_leader_is_replaced_and_follows_when_it_wakes(cluster: LocalCluster) -> None:
    """A leader that is frozen loses its place; awake again it follows, holds the same log, and has logged only JSON."""
    async with cluster.client(request_timeout_ms=20_000) as client:
        leader = await wait_leader(client, cluster.ids)
        await write(client, "a")
        cluster.processes[leader].send_signal(signal.SIGSTOP)
        others = [replica_id for replica_id in cluster.ids if replica_id != leader]
        assert await wait_leader(client, others) != leader
        cluster.processes[leader].send_signal(signal.SIGCONT)
        await write_in_the_end(client, "b")
        await wait_state(client, cluster.ids, have_converged)
        assert await read_all(client) == ["a", "b"]
    assert [line["level"] for line in cluster.lines(leader) if line["level"] == "error"] == []
