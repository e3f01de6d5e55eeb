"""The key-value client on real replicas: what counts once also counts once when the leader is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica.client import ClientError, KeyValueClient, Node, ReadFrom, ViewConfig
from replica.client.groups.quorum import describe_quorum
from replica.machines.key_value import KeyValue
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster

pytestmark = pytest.mark.cluster

TASKS, PER_TASK = 10, 60
VIEW = ViewConfig(api_timeout_ms=int(PATIENCE_SECONDS * 1000))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three replicas with a key-value store."""
    with LocalCluster(tmp_path, size=3) as cluster:
        cluster.format()
        cluster.start(options=("--group", "kv=key-value"))
        yield cluster


async def wait_ready(store: KeyValueClient) -> None:
    """Wait until the store answers."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await store.put(b"n", b"0")
        except ClientError:
            assert time.monotonic() < deadline, "the store does not come up"
        else:
            return


async def test_every_increment_counts_once_through_a_crash(cluster: LocalCluster) -> None:
    """The leader is killed in the middle: the sum is the number of calls, and a watch tells all numbers in order."""
    seen: list[int] = []
    bootstrap = list(cluster.addresses.values())
    async with KeyValueClient(bootstrap, view_config=VIEW) as store:
        await wait_ready(store)
        begin = (await store.get_revised(b"n")).result.found
        assert begin is not None

        async def increment() -> None:
            for _ in range(PER_TASK):
                await store.increment(b"n")

        async def follow() -> None:
            async for changes in store.watch(b"n", from_revision=begin.mod_revision + 1):
                seen.extend(int(event.value) for event in changes.events if isinstance(event, KeyValue))
                if seen[-1] == TASKS * PER_TASK:
                    return

        following = asyncio.create_task(follow())
        counting = [asyncio.create_task(increment()) for _ in range(TASKS)]
        while not seen:
            await asyncio.sleep(0.01)
        leader = (await describe_quorum(bootstrap, "kv", view_config=VIEW)).current_leader
        assert leader is not None
        assert leader.leader_id is not None
        cluster.kill(leader.leader_id)
        await asyncio.gather(*counting)
        await following
        for node in Node:
            found = (await store.get_revised(b"n", read_from=ReadFrom(node=node))).result.found
            assert found is not None
            assert (found.value, found.version) == (b"600", begin.version + TASKS * PER_TASK)
    assert seen == list(range(1, TASKS * PER_TASK + 1))
