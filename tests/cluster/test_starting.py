"""What meets in one replica: two that start it, a new disk in the place of a damaged one, the end of all others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.disks.damage import CUT, DiskPart
from nemesis.disks.place import place_in
from nemesis.errors import NodeFailedError
from replica.ids import ReplicaId
from replica.storage import format_directory
from replica.voters import VoterSet

REFUSED = 3
TOPICS = TopicOptions(replication_factor=1, min_insync_replicas=1)


async def test_who_starts_a_replica_that_another_is_starting_hears_what_comes_of_it(tmp_path: Path) -> None:
    """A process that is there need not serve: this one ends before it does, and both are told so."""
    options = ReplicaOptions(nodes=1, topics=TOPICS, server=("-c", f"raise SystemExit({REFUSED})"))
    host = new_host(ClusterKind.LOCAL, tmp_path, 1)
    await host.open()
    try:
        cluster = ReplicaCluster(host, options)
        heard = await asyncio.gather(cluster.start(1), cluster.start(1), return_exceptions=True)
    finally:
        await host.close()

    assert [type(error) for error in heard] == [NodeFailedError, NodeFailedError]
    assert all(f"ended with {REFUSED}" in str(error) for error in heard)


async def test_damage_goes_with_the_disk_that_is_replaced(tmp_path: Path) -> None:
    """A wiped disk is sound: nobody waits for its repair."""
    host = new_host(ClusterKind.LOCAL, tmp_path, 1)
    await host.open()
    try:
        cluster = ReplicaCluster(host, ReplicaOptions(nodes=1, topics=TOPICS))
        data = place_in(host.folder(1)).data
        format_directory(data, cluster_id="nemesis", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
        await host.run(1, (host.python, "-c", "import time; time.sleep(600)"), host.folder(1) / "log")
        assert await cluster.disks.damage(1, DiskPart.STATE, CUT, 1) is not None
        assert cluster.disks.is_damaged(1)
        await cluster.wipe(1)
        assert not cluster.disks.is_damaged(1)
    finally:
        await host.close()


async def test_a_replica_with_a_clock_of_its_own_does_not_start(tmp_path: Path) -> None:
    """Who starts it looks at the time of its first line: this one tells of a time before all others."""
    says = 'import time; print(\'{"event": "started", "address": "h:1", "monotonic_ns": 1}\', flush=True)'
    options = ReplicaOptions(nodes=1, topics=TOPICS, server=("-c", f"{says}; time.sleep(600)"))
    host = new_host(ClusterKind.LOCAL, tmp_path, 1)
    await host.open()
    try:
        with pytest.raises(NodeFailedError, match="started at 1 ns of the monotonic clock"):
            await ReplicaCluster(host, options).start(1)
    finally:
        await host.close()


class Patient(LocalHost):
    """A host that remembers how long each node had to stop."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count)
        self.had_s: list[float] = []

    async def stop(self, node: int, grace_s: float) -> bool:
        """Note it."""
        self.had_s.append(grace_s)
        return await super().stop(node, grace_s)


async def test_the_end_of_a_cluster_waits_for_no_hand_over(tmp_path: Path) -> None:
    """Of replicas that are all stopped the last has nobody to hand over to, and is ended before it gives that up."""
    host, options = Patient(tmp_path, 3), ReplicaOptions()
    await host.open()
    await ReplicaCluster(host, options).close()

    assert len(host.had_s) == 3
    assert max(host.had_s) < options.timing.handover_wait_ms / 1000
