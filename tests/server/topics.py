"""Topics on real replica processes, for tests: create one, write to it, read it, and see who leads and controls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Self, TypeVar

from replica.core import messages as m
from replica.core.metadata.records import PartitionRegistration
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import decode_records, encode_batch, parse_batches
from replica.rpc.transport import GrpcTransport, TransportError
from tests.server.local_cluster import PATIENCE_SECONDS

T = TypeVar("T")


class Topics:
    """Asks the replicas at ``addresses`` about one topic, whoever of them answers, and about the metadata log."""

    def __init__(self, addresses: Mapping[ReplicaId, str], topic: str = "t") -> None:
        self._ids = tuple(addresses)
        self._topic = topic
        self._transport = GrpcTransport(addresses.__getitem__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def create(self, *, partitions: int, replication_factor: int, min_isr: int) -> None:
        """Create the topic as soon as a controller has that many brokers."""
        request = m.CreateTopicRequest(
            name=self._topic,
            partition_count=partitions,
            replication_factor=replication_factor,
            configs={"min.insync.replicas": str(min_isr)},
        )

        async def ask() -> bool:
            answers = [await self.ask(replica_id, request) for replica_id in self._ids]
            done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            return any(isinstance(answer, m.CreateTopicResponse) and answer.error in done for answer in answers)

        await eventually(ask, bool)

    async def partitions(self) -> Mapping[int, PartitionRegistration]:
        """The topic's partitions as the first replica that answers sees them; none while it knows of none."""
        for replica_id in self._ids:
            answer = await self.ask(replica_id, m.DescribeClusterRequest())
            if isinstance(answer, m.DescribeClusterResponse):
                return next((topic.partitions for topic in answer.topics if topic.name == self._topic), {})
        return {}

    async def wait_partitions(
        self, holds: Callable[[Mapping[int, PartitionRegistration]], bool]
    ) -> Mapping[int, PartitionRegistration]:
        """Wait until there are partitions and they are as wanted."""
        return await eventually(self.partitions, lambda found: bool(found) and holds(found))

    async def write(self, partition: int, value: str) -> Offset:
        """Append one value with acks=all at whoever leads, again and again until it is acknowledged."""

        async def attempt() -> Offset | None:
            found = (await self.partitions()).get(partition)
            if found is None or found.leader_id is None:
                return None
            request = m.ProduceRequest(
                topic_partition=self.log(partition),
                acks=-1,
                timeout_ms=2000,
                records=encode_batch([value.encode()]).data,
            )
            answer = await self.ask(found.leader_id, request)
            return answer.base_offset if isinstance(answer, m.ProduceResponse) else None

        acknowledged = await eventually(attempt, lambda offset: offset is not None)
        assert acknowledged is not None
        return acknowledged

    async def read(self, partition: int) -> dict[Offset, str]:
        """What is committed in a partition, by offset, as its leader serves it to a consumer."""
        found = await eventually(lambda: self._read(partition), lambda values: values is not None)
        assert found is not None
        return found

    async def _read(self, partition: int) -> dict[Offset, str] | None:
        found = (await self.partitions()).get(partition)
        if found is None or found.leader_id is None:
            return None
        values: dict[Offset, str] = {}
        next_offset = Offset(0)
        while True:
            answer = await self.ask(found.leader_id, self._fetch(partition, next_offset))
            part = answer.answer_for(self.log(partition)) if isinstance(answer, m.FetchResponse) else None
            if part is None or part.error is not ErrorCode.NONE:
                return None
            batches = parse_batches(part.records)
            if not batches:
                return values
            for batch in batches:
                values |= {record.offset: (record.value or b"").decode() for record in decode_records(batch)}
            next_offset = batches[-1].end_offset

    def _fetch(self, partition: int, offset: Offset) -> m.FetchRequest:
        return m.FetchRequest(partitions=(m.FetchPartition(topic_partition=self.log(partition), fetch_offset=offset),))

    def log(self, partition: int) -> TopicPartition:
        """The name of a partition of the topic."""
        return TopicPartition(self._topic, partition)

    async def wait_same_copies(self, log: TopicPartition) -> None:
        """Wait until every replica holds the same batches of a log, to its end, and knows all of it to be committed."""

        async def copies() -> set[m.DumpLogResponse | None]:
            return {await self._dump(replica_id, log) for replica_id in self._ids}

        def are_one(seen: set[m.DumpLogResponse | None]) -> bool:
            (copy,) = seen if len(seen) == 1 else (None,)
            if copy is None or not copy.records:
                return False
            return parse_batches(copy.records)[-1].end_offset == copy.log_end_offset == copy.high_watermark

        await eventually(copies, are_one)

    async def _dump(self, replica_id: ReplicaId, log: TopicPartition) -> m.DumpLogResponse | None:
        """A replica's copy of a log that is not long."""
        answer = await self.ask(replica_id, m.DumpLogRequest(topic_partition=log, offset=Offset(0), max_bytes=1 << 20))
        return answer if isinstance(answer, m.DumpLogResponse) else None

    async def describe(self, replica_id: ReplicaId) -> m.DescribeReplicaResponse | None:
        """How a replica sees the metadata log."""
        answer = await self.ask(replica_id, m.DescribeReplicaRequest(topic_partition=METADATA_LOG))
        return answer if isinstance(answer, m.DescribeReplicaResponse) else None

    async def wait_controller(self, replica_ids: Iterable[ReplicaId]) -> ReplicaId:
        """Wait until these replicas agree that one of them leads the metadata log, and return it."""
        wanted = list(replica_ids)

        async def leaders() -> set[m.CurrentLeader | None]:
            states = [await self.describe(replica_id) for replica_id in wanted]
            return {None if state is None else state.leader for state in states}

        (leader,) = await eventually(
            leaders, lambda seen: len(seen) == 1 and all(one is not None and one.leader_id in wanted for one in seen)
        )
        assert leader is not None
        assert leader.leader_id is not None
        return leader.leader_id

    async def ask(self, replica_id: ReplicaId, request: m.Request) -> m.Response | None:
        """Ask one replica; None if it does not answer."""
        try:
            return await self._transport.call(replica_id, request, 3000)
        except TransportError:
            return None


def all_in_sync(partitions: Mapping[int, PartitionRegistration]) -> bool:
    """Whether every partition has a leader and all its replicas in sync."""
    return all(sorted(one.isr) == sorted(one.replicas) and one.leader_id is not None for one in partitions.values())


async def eventually(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """Look until what is seen holds, and return it; fail with what was seen last when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds(seen := await look()):
        assert time.monotonic() < deadline, f"not reached within {PATIENCE_SECONDS} s; last seen: {seen}"
        await asyncio.sleep(0.02)
    return seen
