"""Leaders that are killed in a cluster of real processes are replaced by evidence of their end, before any timeout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.client.groups.key_value import KeyValueClient
from replica.client.groups.quorum import describe_quorum
from replica.ids import ReplicaId
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster
from tests.server.topics import Topics, all_in_sync

pytestmark = pytest.mark.cluster

PATIENT_MS = int(PATIENCE_SECONDS * 10_000)
"""By then every test has failed: what happens earlier, no timeout has brought about."""
OPTIONS = (
    *("--fetch-timeout-ms", PATIENT_MS),
    *("--broker-session-timeout-ms", PATIENT_MS),
    *("--replica-lag-time-max-ms", PATIENT_MS),
    *("--group", "store=key-value"),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three replicas that run, and are patient with who is silent."""
    with LocalCluster(tmp_path) as cluster:
        cluster.format()
        cluster.start(options=OPTIONS)
        yield cluster


async def leader_of(cluster: LocalCluster, group: str | None) -> ReplicaId:
    """Name who leads a group, or the metadata log."""
    described = await describe_quorum(list(cluster.addresses.values()), group)
    assert described.current_leader is not None
    assert described.current_leader.leader_id is not None
    return described.current_leader.leader_id


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "other"])
async def test_a_topic_is_written_after_its_leader_was_killed(cluster: LocalCluster, is_controller: bool) -> None:
    """The controller fences it, or the next controller does: neither waits for a session to end."""
    topics = Topics(cluster.addresses)
    await topics.create(partitions=3, replication_factor=3, min_isr=2)
    partitions = await topics.wait_partitions(all_in_sync)
    controller = await leader_of(cluster, None)
    killed = next(
        (number, registration.leader_id)
        for number, registration in partitions.items()
        if (registration.leader_id == controller) is is_controller and registration.leader_id is not None
    )
    await topics.write(killed[0], "before")
    cluster.kill(killed[1])
    offset = await topics.write(killed[0], "after")
    assert (await topics.read(killed[0]))[offset] == "after"
    await topics.close()


async def test_a_store_is_written_after_its_leader_was_killed(cluster: LocalCluster) -> None:
    """Its voters elect another without waiting for a fetch timeout."""
    async with KeyValueClient(list(cluster.addresses.values()), "store") as store:
        await store.put(b"key", b"before")
        killed = await leader_of(cluster, "store")
        cluster.kill(killed)
        await store.put(b"key", b"after")
        assert await leader_of(cluster, "store") != killed


async def test_a_broker_that_is_started_again_does_not_wait_for_its_session_to_end(cluster: LocalCluster) -> None:
    """The controller knows that its last process has ended, and lets the next one in."""
    topics = Topics(cluster.addresses)
    await topics.create(partitions=1, replication_factor=3, min_isr=2)
    await topics.wait_partitions(all_in_sync)
    controller = await leader_of(cluster, None)
    killed = next(replica_id for replica_id in cluster.ids if replica_id != controller)
    cluster.kill(killed)
    await topics.wait_partitions(lambda partitions: killed not in partitions[0].isr)
    cluster.start(killed, options=OPTIONS)
    await topics.wait_partitions(all_in_sync)
    await topics.close()
