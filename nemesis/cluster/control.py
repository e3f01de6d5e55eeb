"""The harness's own look at the replicas: what each says of itself and of the cluster, and what it holds.

Owns the calls, each to one replica and each once, through links that no fault touches. A replica that does not answer
at once is passed over: looking must not wait for what is broken.

The log of a replicated state machine is told in the words of a topic-partition: faults are aimed, and replicas are
waited for, in one way for both. The replicas of a group are those that vote at first, also while one of them does not.
Nobody decides who of them is in sync; here it is whoever follows the leader and has all that it knows to be committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from nemesis.cluster.system import Dump, DumpedBatch, ReplicaState
from nemesis.cluster.topic_client import decode_value, named
from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import ClusterState, PartitionState, Registration
from nemesis.history import METADATA_LOG
from nemesis.history.record_batches import DamagedError, RecordBatch, batches_in, values_of
from replica.core.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
    Request,
    Response,
)
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import GrpcTransport, TransportError

LOOK_TIMEOUT_MS = 400
DUMP_TIMEOUT_MS = 5000
DUMP_RETRY_S = 0.1
DUMP_TRIES = 10
DUMP_BYTES_MAX = 1 << 20
DUMPED_BATCHES_MAX = 10_000_000
_LOOKED_FOR = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE})


class Transport(Protocol):
    """The way to single replicas."""

    async def call(self, replica_id: ReplicaId, request: Request, timeout_ms: int) -> Response:
        """Send one request and return its answer; raises TransportError when none came in time."""

    async def close(self) -> None:
        """Give the connections back."""


class Control:
    """Calls of single replicas; ``addresses`` is where they are dialled, by gRPC unless ``transport`` does it."""

    def __init__(
        self, addresses: Mapping[int, str], transport: Transport | None = None, tls: TlsFiles | None = None
    ) -> None:
        self._transport: Transport = transport or GrpcTransport(lambda replica_id: addresses[replica_id], tls=tls)

    async def close(self) -> None:
        """Give the connections back."""
        await self._transport.close()

    async def answers(self, node: int) -> bool:
        """Whether a replica serves."""
        return await self._described(node, METADATA_LOG) is not None

    async def directory_id(self, node: int, topic_partition: str) -> str | None:
        """The id of a replica's disk; absent if it does not answer for this log."""
        described = await self._described(node, topic_partition)
        return None if described is None else described.directory_id

    async def cluster_state(self, nodes: Iterable[int]) -> ClusterState | None:
        """What the one of ``nodes`` that has read most of the metadata says; absent if none answers."""
        answers = await asyncio.gather(*(self._described_cluster(node) for node in nodes))
        known = [answer for answer in answers if answer is not None and answer.metadata_offset is not None]
        newest = max(known, key=lambda answer: answer.metadata_offset or Offset(0), default=None)
        return None if newest is None else _cluster_state(newest)

    async def replica_states(self, wanted: Iterable[tuple[int, str]]) -> tuple[ReplicaState, ...]:
        """How nodes see their own replicas, for pairs of node and topic-partition; those that answer."""
        states = await asyncio.gather(*(self._replica_state(node, name) for node, name in wanted))
        return tuple(state for state in states if state is not None)

    async def _described_cluster(self, node: int) -> DescribeClusterResponse | None:
        with suppress(TransportError):
            answer = await self._call(node, DescribeClusterRequest(topics=None), LOOK_TIMEOUT_MS)
            if isinstance(answer, DescribeClusterResponse) and answer.error is ErrorCode.NONE:
                return answer
        return None

    async def _described(
        self, node: int, topic_partition: str, timeout_ms: int = LOOK_TIMEOUT_MS
    ) -> DescribeReplicaResponse | None:
        with suppress(TransportError):
            request = DescribeReplicaRequest(topic_partition=named(topic_partition))
            answer = await self._call(node, request, timeout_ms)
            if isinstance(answer, DescribeReplicaResponse) and answer.error is ErrorCode.NONE:
                return answer
        return None

    async def _replica_state(self, node: int, topic_partition: str) -> ReplicaState | None:
        answer = await self._described(node, topic_partition)
        if answer is None:
            return None
        leader = answer.leader
        return ReplicaState(
            node=node,
            topic_partition=topic_partition,
            role=answer.role,
            epoch=-1 if leader is None else leader.leader_epoch,
            leader_id=None if leader is None else leader.leader_id,
            high_watermark=answer.high_watermark,
            log_end_offset=answer.log_end_offset or 0,
        )

    async def dump(self, node: int, topic_partition: str, *, has_values: bool) -> Dump:
        """A replica's whole log, patiently; whether its records are values of the workload. Raises NodeFailedError."""
        for _ in range(DUMP_TRIES):
            dump = await self._dump(node, topic_partition, has_values=has_values)
            if dump is not None:
                return dump
        raise NodeFailedError(
            f"the log {topic_partition} of replica {node} cannot be read: its beginning does not stay"
        )

    async def _dump(self, node: int, topic_partition: str, *, has_values: bool) -> Dump | None:
        """The log as it is read once; None where its beginning was deleted meanwhile."""
        described = await self._described_patiently(node, topic_partition)
        if described is None:
            raise NodeFailedError(f"the log {topic_partition} of replica {node} cannot be read: it does not answer")
        start = described.log_start_offset or Offset(0)
        batches: list[RecordBatch] = []
        position = start
        while True:
            answer = await self._dumped(node, named(topic_partition), position)
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                return None
            try:
                batches += batches_in(answer.records)
            except DamagedError as error:
                raise NodeFailedError(f"the log {topic_partition} of replica {node} is damaged: {error}") from error
            position = Offset(batches[-1].last_offset + 1) if batches else start
            if not answer.records or len(batches) >= DUMPED_BATCHES_MAX:
                break
        end = position if answer.log_end_offset is None else answer.log_end_offset
        return Dump(
            node=node,
            topic_partition=topic_partition,
            batches=tuple(dumped_batch(batch, has_values=has_values) for batch in batches),
            high_watermark=answer.high_watermark,
            log_start_offset=start,
            log_end_offset=end,
            complete=position == end,
        )

    async def _described_patiently(self, node: int, topic_partition: str) -> DescribeReplicaResponse | None:
        """As ``_described``; on a busy machine an answer, or a connection, may take longer than a look."""
        deadline_s = asyncio.get_running_loop().time() + DUMP_TIMEOUT_MS / 1000
        while (left_s := deadline_s - asyncio.get_running_loop().time()) > 0:
            described = await self._described(node, topic_partition, max(1, int(left_s * 1000)))
            if described is not None:
                return described
            await asyncio.sleep(DUMP_RETRY_S)
        return None

    async def _dumped(self, node: int, name: TopicPartition, position: Offset) -> DumpLogResponse:
        request = DumpLogRequest(topic_partition=name, offset=position, max_bytes=DUMP_BYTES_MAX)
        try:
            answer = await self._call(node, request, DUMP_TIMEOUT_MS)
        except TransportError as error:
            raise NodeFailedError(f"the log {name} of replica {node} cannot be read: {error}") from error
        if not isinstance(answer, DumpLogResponse) or answer.error not in _LOOKED_FOR:
            raise NodeFailedError(f"the log {name} of replica {node} cannot be read: {answer}")
        return answer

    async def _call(self, node: int, request: Request, timeout_ms: int) -> Response:
        return await self._transport.call(ReplicaId(node), request, timeout_ms)


def _cluster_state(answer: DescribeClusterResponse) -> ClusterState:
    return ClusterState(
        controller=None if answer.controller is None else answer.controller.leader_id,
        active=frozenset(broker.broker_id for broker in answer.brokers if broker.is_active),
        partitions={
            f"{topic.name}-{number}": PartitionState(
                replicas=tuple(partition.replicas),
                isr=tuple(partition.isr),
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
            )
            for topic in answer.topics
            for number, partition in sorted(topic.partitions.items())
        },
        registrations={
            broker.broker_id: Registration(number=broker.broker_epoch, disk=broker.directory_id)
            for broker in answer.brokers
        },
    )


def dumped_batch(batch: RecordBatch, *, has_values: bool) -> DumpedBatch:
    """A batch in the words of a run; ``has_values`` says that its records are values of the workload."""
    numbered = batch.producer_id >= 0
    return DumpedBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        crc=batch.crc,
        is_control=batch.is_control,
        values=_values(batch) if has_values and not batch.is_control else None,
        producer_id=batch.producer_id if numbered else None,
        producer_epoch=batch.producer_epoch if numbered else None,
        base_sequence=batch.base_sequence if numbered else None,
    )


def _values(batch: RecordBatch) -> tuple[int, ...] | None:
    try:
        return tuple(map(decode_value, values_of(batch)))
    except DamagedError:
        return None


LEADER = "leader"


def group_states(
    states: Iterable[ReplicaState], names: Sequence[str], voters: tuple[int, ...]
) -> Mapping[str, PartitionState]:
    """What the replicas of each of these logs say together; a log of which nobody says anything is absent."""
    told = list(states)
    own = {name: [state for state in told if state.topic_partition == name] for name in names}
    return {name: _of_group(found, voters) for name, found in own.items() if found}


def _of_group(states: Sequence[ReplicaState], voters: tuple[int, ...]) -> PartitionState:
    epoch = max(state.epoch for state in states)
    leader = next((state for state in states if state.epoch == epoch and state.role == LEADER), None)
    in_sync = [state.node for state in states if leader is not None and _is_in_sync(state, leader)]
    return PartitionState(
        replicas=voters,
        isr=tuple(sorted(in_sync)),
        leader=None if leader is None else leader.node,
        leader_epoch=epoch,
    )


def _is_in_sync(state: ReplicaState, leader: ReplicaState) -> bool:
    follows = state.epoch == leader.epoch and state.leader_id == leader.node
    return follows and leader.high_watermark is not None and state.log_end_offset >= leader.high_watermark
