"""Topics on three real replica processes, for tests with Spark: create, write, look, and kill the leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from replica.client import Admin, ClientError, Consumer, ConsumerConfig, OffsetReset, Producer, ViewConfig
from replica.client.values import ConsumerRecord
from replica.core.metadata.records import PartitionRegistration
from replica.ids import ReplicaId, TopicPartition
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster

ValueT = TypeVar("ValueT")
VIEW = ViewConfig(metadata_timeout_ms=500, request_timeout_ms=3000, api_timeout_ms=30_000)


class Live:
    """The processes, and blocking calls to them."""

    def __init__(self, folder: Path) -> None:
        self._processes = LocalCluster(folder, size=3)

    @property
    def servers(self) -> str:
        """What clients begin with: all addresses, since any of them may be killed."""
        return ",".join(self._processes.addresses.values())

    def start(self) -> None:
        """Format and start, and wait until all brokers are active."""
        self._processes.format()
        self._processes.start()
        self._eventually(self._active_brokers, lambda count: count == 3)

    def close(self) -> None:
        """End the processes."""
        self._processes.close()

    def create(self, topic: str, *, partitions: int = 1, replication_factor: int = 3, **configs: str) -> None:
        """Create a topic, and wait until it is known to have leaders."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}

        async def ask(admin: Admin) -> None:
            await admin.create_topic(
                topic, partition_count=partitions, replication_factor=replication_factor, configs=settings
            )

        asyncio.run(self._with_admin(ask))
        for number in range(partitions):
            self.wait(TopicPartition(topic, number), lambda found: found.leader_id is not None)

    def write(self, topic: str, values: Iterable[bytes], *, partition: int | None = None) -> None:
        """Write records, each acknowledged by all in sync."""

        async def write() -> None:
            async with Producer(self.servers, view_config=VIEW) as producer:
                for delivery in [producer.send(topic, value, partition=partition) for value in values]:
                    await delivery

        asyncio.run(write())

    def read(self, topic: str) -> list[ConsumerRecord]:
        """All committed records of a topic, by a plain consumer."""

        async def read() -> list[ConsumerRecord]:
            config = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST)
            async with Consumer(self.servers, config, view_config=VIEW) as consumer:
                names = await consumer.partitions_of(topic)
                consumer.assign(names)
                ends = await consumer.end_offsets(names)
                records: list[ConsumerRecord] = []
                while len(records) < sum(ends.values()):
                    records += await consumer.poll(1000)
                return records

        return asyncio.run(read())

    def kill(self, replica_id: ReplicaId) -> None:
        """SIGKILL."""
        self._processes.kill(replica_id)

    def restart(self, replica_id: ReplicaId) -> None:
        """Start a replica that was killed."""
        self._processes.start(replica_id)

    def leader(self, name: TopicPartition) -> ReplicaId:
        """Who leads a partition."""
        leader_id = self.wait(name, lambda found: found.leader_id is not None).leader_id
        assert leader_id is not None, name
        return leader_id

    def kill_leader(self, name: TopicPartition) -> ReplicaId:
        """SIGKILL whoever leads a partition."""
        leader_id = self.leader(name)
        self.kill(leader_id)
        return leader_id

    def wait(self, name: TopicPartition, holds: Callable[[PartitionRegistration], bool]) -> PartitionRegistration:
        """Wait until what is decided about a partition is as wished."""

        async def look() -> PartitionRegistration | None:
            return await self._with_admin(lambda admin: self._registration(admin, name))

        found = self._eventually(look, lambda registration: registration is not None and holds(registration))
        assert found is not None, name
        return found

    async def _registration(self, admin: Admin, name: TopicPartition) -> PartitionRegistration | None:
        described = await admin.describe_cluster(timeout_ms=2000)
        topics = {topic.name: topic.partitions for topic in described.topics}
        return topics.get(name.topic, {}).get(name.partition)

    async def _active_brokers(self) -> int:
        described = await self._with_admin(lambda admin: admin.describe_cluster(timeout_ms=2000))
        return sum(broker.is_active for broker in described.brokers)

    async def _with_admin(self, ask: Callable[[Admin], Awaitable[ValueT]]) -> ValueT:
        async with Admin(self.servers, VIEW) as admin:
            return await ask(admin)

    def _eventually(self, look: Callable[[], Awaitable[ValueT]], holds: Callable[[ValueT], bool]) -> ValueT:
        """Look again and again until it is as wished."""

        async def looking() -> ValueT:
            deadline = time.monotonic() + 2 * PATIENCE_SECONDS
            while time.monotonic() < deadline:
                try:
                    if holds(seen := await look()):
                        return seen
                except ClientError:
                    continue
                await asyncio.sleep(0.05)
            raise AssertionError("it does not come to be as wished")

        return asyncio.run(looking())
