"""The workload's client over ours: appends of one value each, polls from a position, honest outcomes.

Owns the values' form and the translation of errors into *definitely not done* and *unknown*. Each process of the
workload has a client of its own, with its own connections, its own producer id and its own opinion of who leads: after
a partition some still talk to the old leader, as long as that one answers. A poll is one Fetch and not a consumer's
``poll``: what was fetched ahead of time would be recorded as read when it was handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemesis.cluster.system import UNREADABLE_VALUE, Appended, Polled
from nemesis.errors import DeletedError, NotDoneError, UnknownOutcomeError
from nemesis.history.record_batches import DamagedError, batches_in, values_of
from replica.client.asking import Failed, repeated, unanswered
from replica.client.clock import Deadline
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.failures import NotWrittenError, OutcomeUnknownError
from replica.client.leader_calls import LeaderCalls
from replica.client.producer import Producer
from replica.client.producer_config import Acks, ProducerConfig
from replica.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
)
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import TransportError

POLL_BYTES_MAX = 64 << 10
POLL_WAIT_MS = 20
"""A poll at the end of the log comes back soon: a process that waits does not append."""
RETRY_MS = 50
RETRY_MS_MAX = 200
ACKS = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How the workload's clients write. ``client_timeout_ms`` bounds one operation with all its attempts.

    With ``idempotence`` a batch whose fate is unknown is sent again with its number; else it is not sent again.
    """

    acks: str = "all"
    idempotence: bool = True
    client_timeout_ms: int = 2500
    client_request_timeout_ms: int = 1000

    def producer_config(self) -> ProducerConfig:
        """The settings of a process's producer."""
        return ProducerConfig(
            acks=ACKS[self.acks],
            linger_ms=0,
            enable_idempotence=self.idempotence,
            max_block_ms=self.client_timeout_ms,
            request_timeout_ms=self.client_request_timeout_ms,
            delivery_timeout_ms=self.client_timeout_ms,
            retry_backoff_ms=RETRY_MS,
            retry_backoff_max_ms=RETRY_MS_MAX,
        )


class TopicClient:
    """One process's client of all topics. ``addresses`` is all it dials, by TLS where it is given files."""

    def __init__(
        self,
        addresses: Mapping[int, str],
        *,
        cluster_id: str,
        options: ClientOptions,
        tls: TlsFiles | None = None,
    ) -> None:
        config = ViewConfig(
            cluster_id=cluster_id,
            tls=tls,
            dial={ReplicaId(node): address for node, address in addresses.items()},
            request_timeout_ms=options.client_request_timeout_ms,
            api_timeout_ms=options.client_timeout_ms,
            metadata_timeout_ms=options.client_request_timeout_ms // 2,
            retry_backoff_ms=RETRY_MS,
            retry_backoff_max_ms=RETRY_MS_MAX,
        )
        self._view = ClusterView(addresses.values(), config)
        self._leaders = LeaderCalls(self._view)
        self._producer = Producer(addresses.values(), options.producer_config(), view_config=config)

    async def append(self, topic_partition: str, value: int) -> Appended:
        """Append one value, in a batch of its own."""
        name = named(topic_partition)
        try:
            done = await self._producer.send(name.topic, encode_value(value), partition=name.partition)
        except NotWrittenError as error:
            raise NotDoneError(str(error)) from error
        except OutcomeUnknownError as error:
            raise UnknownOutcomeError(str(error)) from error
        return Appended(offset=done.offset, leader_epoch=done.leader_epoch)

    async def poll(self, topic_partition: str, offset: int) -> Polled:
        """Read on from ``offset``, of whoever leads."""
        name, deadline = named(topic_partition), self._view.deadline()
        answer, _ = await repeated(
            lambda: self._fetch(name, offset, deadline), deadline, self._view.config.backoff(), late="no answer"
        )
        if isinstance(answer, Failed):
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._check_deleted(name, offset, deadline)
            raise NotDoneError(answer.reason)
        return answer

    async def _check_deleted(self, name: TopicPartition, offset: int, deadline: Deadline) -> None:
        """Raise DeletedError if the log begins above the offset."""
        start = await self._leaders.ask_once(name, self._leaders.offsets_question(name), ListOffsetsResponse, deadline)
        if not isinstance(start, Failed) and start.offset is not None and offset < start.offset:
            raise DeletedError(start.offset)

    async def _fetch(self, name: TopicPartition, offset: int, deadline: Deadline) -> Polled | Failed:
        """Ask the leader once."""
        leader = await self._leaders.find(name, deadline)
        if isinstance(leader, Failed):
            return leader
        assert leader.leader_id is not None, leader
        part = FetchPartition(
            topic_partition=name,
            fetch_offset=Offset(offset),
            current_leader_epoch=leader.leader_epoch,
            max_bytes=POLL_BYTES_MAX,
        )
        request = FetchRequest(
            partitions=(part,),
            cluster_id=self._view.config.cluster_id,
            max_wait_ms=POLL_WAIT_MS,
            max_bytes=POLL_BYTES_MAX,
        )
        timeout_ms = deadline.left_ms(self._view.config.request_timeout_ms)
        try:
            response = await self._view.call(leader.leader_id, request, timeout_ms)
        except TransportError as error:
            self._leaders.on_unreachable(name)
            return unanswered(error)
        assert isinstance(response, FetchResponse), response
        answer = response.answer_for(name)
        if answer.error is not ErrorCode.NONE:
            who = f"broker {leader.leader_id}"
            return self._leaders.on_error(name, answer.error, answer.current_leader, who)
        return _polled(answer, offset, leader.leader_id)

    async def close(self) -> None:
        """Give the connections and the producer id back; what was not answered stays unknown."""
        await self._producer.close(timeout_ms=1)
        await self._view.close()


def _polled(answer: FetchedPartition, offset: int, node: int) -> Polled | Failed:
    try:
        batches = tuple(batches_in(answer.records))
        records = [
            (batch.base_offset + place, decode_value(value))
            for batch in batches
            if not batch.is_control
            for place, value in enumerate(values_of(batch))
        ]
    except DamagedError as error:
        return Failed(reason=f"broker {node} sent damaged records: {error}", is_final=True)
    return Polled(
        records=tuple((at, value) for at, value in records if at >= offset),
        high_watermark=answer.high_watermark,
        next_offset=max(offset, batches[-1].last_offset + 1) if batches else offset,
        node=node,
    )


def named(topic_partition: str) -> TopicPartition:
    """``orders-3`` as topic and number."""
    topic, _, number = topic_partition.rpartition("-")
    return TopicPartition(topic, int(number))


def encode_value(value: int) -> bytes:
    """Decimal digits, so that a person who dumps a log can read it."""
    return b"%d" % value


def decode_value(data: bytes | None) -> int:
    """The value; ``UNREADABLE_VALUE`` for what ``encode_value`` never made."""
    return int(data) if data is not None and data.isdigit() else UNREADABLE_VALUE
