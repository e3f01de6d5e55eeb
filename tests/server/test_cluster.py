"""Three real processes: who leads the metadata log dies, stops or is frozen, and nothing that was decided is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from replica.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import Offset
from tests.server.local_cluster import LocalCluster
from tests.server.topics import Topics, all_in_sync

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three formatted replicas that run."""
    with LocalCluster(tmp_path) as cluster:
        cluster.format()
        cluster.start()
        yield cluster


@pytest.fixture
async def topics(cluster: LocalCluster) -> AsyncIterator[Topics]:
    """A topic of one partition, all of whose replicas are in sync."""
    async with Topics(cluster.addresses) as topics:
        await topics.create(partitions=1, replication_factor=3, min_isr=2)
        await topics.wait_partitions(all_in_sync)
        yield topics


async def write(topics: Topics, *values: str) -> dict[Offset, str]:
    """Write values one after another, and tell at which offsets they were acknowledged."""
    return {await topics.write(0, value): value for value in values}


async def test_all_killed_and_started_again_hold_what_was_acknowledged(cluster: LocalCluster, topics: Topics) -> None:
    """After a kill of every process at once, the restarted cluster reads back every acknowledged write."""
    written = await write(topics, *"abc")
    for replica_id in cluster.ids:
        cluster.kill(replica_id)
    cluster.start()
    written |= await write(topics, "d")
    assert written.items() <= (await topics.read(0)).items()
    await topics.wait_partitions(all_in_sync)
    await topics.wait_same_copies(topics.log(0))


async def test_a_controller_that_stops_hands_over(cluster: LocalCluster, topics: Topics) -> None:
    """A controller asked to stop exits with 0 after another leads, and leaves the marker of a clean stop."""
    written = await write(topics, "a")
    controller = await topics.wait_controller(cluster.ids)
    assert cluster.stop(controller) == 0
    events = {line["event"]: line for line in cluster.lines(controller)}
    assert events["resigned"]["handed_over"] is True
    assert events["stopped"]["replica_id"] == controller
    assert (cluster.data_dir(controller) / ".kafka_cleanshutdown").exists()
    assert written.items() <= (await topics.read(0)).items()


async def test_log_lines_tell_who_led_when(cluster: LocalCluster, topics: Topics) -> None:
    """Every line is JSON with replica_id, time of day and monotonic time, and the role change names its epoch."""
    controller = await topics.wait_controller(cluster.ids)
    described = await topics.ask(controller, DescribeQuorumRequest(topic_partition=METADATA_LOG))
    assert isinstance(described, DescribeQuorumResponse)
    assert described.current_leader is not None
    lines = cluster.lines(controller)
    assert all(line["replica_id"] == controller and line["time_ns"] > 0 for line in lines)
    assert all(0 < line["monotonic_ns"] <= time.monotonic_ns() for line in lines)
    changes = [line for line in lines if line["event"] == "role_changed" and line["log"] == str(METADATA_LOG)]
    led = [line for line in changes if line["role"] == "leader"]
    assert (led[-1]["epoch"], led[-1]["leader_id"]) == (described.current_leader.leader_epoch, controller)


async def test_a_paused_controller_is_replaced_and_follows_when_it_wakes(cluster: LocalCluster, topics: Topics) -> None:
    """A controller that is frozen loses its place; awake again it follows, holds the same logs, and logs no error."""
    controller = await topics.wait_controller(cluster.ids)
    written = await write(topics, "a")
    cluster.processes[controller].send_signal(signal.SIGSTOP)
    others = [replica_id for replica_id in cluster.ids if replica_id != controller]
    assert await topics.wait_controller(others) != controller
    cluster.processes[controller].send_signal(signal.SIGCONT)
    written |= await write(topics, "b")
    await topics.wait_partitions(all_in_sync)
    for log in (METADATA_LOG, topics.log(0)):
        await topics.wait_same_copies(log)
    assert written.items() <= (await topics.read(0)).items()
    assert [line for line in cluster.lines(controller) if line["level"] == "error"] == []
