"""Snapshots of the metadata in a real cluster: its log stays small, and a disk that is empty is filled with one."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.server.local_cluster import LocalCluster
from tests.server.topics import Topics, eventually

pytestmark = pytest.mark.cluster

OPTIONS = (
    *("--metadata-log-max-record-bytes-between-snapshots", "2000"),
    *("--log-segment-bytes", "1024"),
    *("--election-timeout-ms", "1000"),
    *("--fetch-timeout-ms", "2000"),
    *("--request-timeout-ms", "2000"),
    *("--broker-session-timeout-ms", "4000"),
)
"""A snapshot every few topics, some segments in between, and more patience than processes need that are killed."""
OBSERVER = ReplicaId(4)


class Life:
    """Three voters, a broker beside them, and an administrator who asks whoever decides."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.topics = Topics(cluster.addresses)
        self._controller = cluster.voters[0]

    def start(self, *replica_ids: ReplicaId) -> None:
        """Start these replicas."""
        for replica_id in replica_ids:
            address = self.cluster.addresses[OBSERVER]
            role = ("--roles", "broker", "--advertised-address", address) if replica_id == OBSERVER else ()
            self.cluster.start(replica_id, options=(*OPTIONS, *role))

    async def decide(self, request: m.CreateTopicRequest | m.DeleteTopicRequest) -> None:
        """Ask one after the other until it is done."""
        done = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

        async def ask() -> bool:
            answer = await self.topics.ask(self._controller, request)
            if isinstance(answer, m.CreateTopicResponse | m.DeleteTopicResponse) and answer.error in done:
                return True
            voters = self.cluster.voters
            self._controller = voters[(voters.index(self._controller) + 1) % len(voters)]
            return False

        await eventually(ask, bool)

    async def churn(self, times: int) -> None:
        """Create topics of three partitions and delete them again."""
        for number in range(times):
            name = f"churn{number}"
            await self.decide(m.CreateTopicRequest(name=name, partition_count=3, replication_factor=1))
            await self.decide(m.DeleteTopicRequest(name=name))

    async def image(self, replica_id: ReplicaId) -> tuple[Any, ...] | None:
        """What a replica knows of the cluster: how far, brokers and topics; absent while it does not answer."""
        answer = await self.topics.ask(replica_id, m.DescribeClusterRequest())
        if not isinstance(answer, m.DescribeClusterResponse):
            return None
        return answer.metadata_offset, answer.brokers, answer.topics

    async def wait_same_image(self) -> None:
        """Wait until all know the same, and that all four brokers are there."""

        async def images() -> list[tuple[Any, ...] | None]:
            return [await self.image(replica_id) for replica_id in self.cluster.ids]

        def are_one(seen: list[tuple[Any, ...] | None]) -> bool:
            first = seen[0]
            if first is None or any(image != first for image in seen):
                return False
            return len(first[1]) == len(self.cluster.ids) and all(broker.is_active for broker in first[1])

        await eventually(images, are_one)

    def files(self, replica_id: ReplicaId, suffix: str) -> list[Path]:
        """The files of one kind in the folder of the metadata log."""
        folder = self.cluster.data_dir(replica_id) / str(METADATA_LOG)
        return sorted(path for path in folder.iterdir() if path.suffix == suffix)

    async def wait_two_snapshots(self, replica_id: ReplicaId) -> None:
        """Wait until a replica has two snapshots: while it takes another the oldest is still there."""

        async def snapshots() -> int:
            return len(self.files(replica_id, ".checkpoint"))

        await eventually(snapshots, lambda number: number == 2)

    def metadata_bytes(self, replica_id: ReplicaId) -> int:
        """How much the metadata log takes on a disk, but for what is only waiting to be removed."""
        return sum(path.stat().st_size for kind in (".log", ".checkpoint") for path in self.files(replica_id, kind))

    def installed(self, replica_id: ReplicaId) -> list[str]:
        """Which logs a replica has begun anew at a leader's snapshot."""
        lines = self.cluster.lines(replica_id)
        return [line["log"] for line in lines if line["event"] == "snapshot_installed"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Four formatted replicas, of which three are voters."""
    with LocalCluster(tmp_path, 4, voters=3) as cluster:
        cluster.format()
        yield cluster


@pytest.fixture
async def life(cluster: LocalCluster) -> AsyncIterator[Life]:
    """All four run, and know of each other."""
    life = Life(cluster)
    life.start(*cluster.ids)
    await life.wait_same_image()
    yield life
    await life.topics.close()


async def test_the_metadata_log_stays_small_and_fills_an_empty_disk(life: Life) -> None:
    """However many topics come and go, disks hold two snapshots and little more; who has lost its own loads one."""
    cluster = life.cluster
    await life.decide(m.CreateTopicRequest(name="kept", partition_count=3, replication_factor=3))
    sizes = []
    for _ in range(3):
        await life.churn(8)
        await life.wait_same_image()
        sizes.append(max(life.metadata_bytes(replica_id) for replica_id in cluster.ids))
    assert max(sizes) < 2 * min(sizes)
    for replica_id in cluster.ids:
        assert life.files(replica_id, ".log")[0].stem > f"{60:020d}"
        await life.wait_two_snapshots(replica_id)
    assert life.installed(OBSERVER) == []

    cluster.kill(OBSERVER)
    shutil.rmtree(cluster.data_dir(OBSERVER))
    cluster.format_one(OBSERVER)
    await life.churn(5)
    life.start(OBSERVER)
    await life.wait_same_image()
    assert life.installed(OBSERVER) == [str(METADATA_LOG)]

    controller = await life.topics.wait_controller(cluster.ids)
    for replica_id in (controller, OBSERVER):
        cluster.kill(replica_id)
        life.start(replica_id)
    await life.churn(2)
    await life.wait_same_image()
    image = await life.image(OBSERVER)
    assert image is not None
    assert [topic.name for topic in image[2]] == ["kept"]
    assert not {"halted", "start_refused"} & {line["event"] for id in cluster.ids for line in cluster.lines(id)}
