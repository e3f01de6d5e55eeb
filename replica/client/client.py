"""The client of one log: finds the leader, repeats what is safe to repeat, and tells *not written* from *unknown*.

Owns deadlines and retries. Dials only the addresses it was given, so that every link can run through a proxy; a leader
that its table does not name is not followed. Judging one attempt is ``outcomes``' work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

from replica.client.failures import NotWrittenError, OffsetOutOfRangeError, OutcomeUnknownError, ReadFailedError
from replica.client.leadership import LeaderGuess
from replica.client.outcomes import RETRIABLE, Outcome, produce_outcome
from replica.client.values import DumpedLog, Fetched, ListedOffset, Produced
from replica.core.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId, TopicPartition
from replica.records import CorruptRecordError, Record, RecordBatch, decode_records, encode_batch, parse_batches
from replica.server.addresses import AddressTable
from replica.server.channels import MESSAGE_BYTES_MAX
from replica.server.transport import GrpcTransport, TransportError

ACKS_ALL = -1
BATCH_BYTES_MAX = MESSAGE_BYTES_MAX // 4
"""No larger batch is sent: a server's own limit is lower, but a message that gRPC refuses has no clear outcome."""
DUMP_BYTES_MAX = 1 << 20
DUMPED_BATCHES_MAX = 10_000_000

ResponseT = TypeVar("ResponseT", bound=Response)

LeaderAnswer = FetchedPartition | ListOffsetsResponse | OffsetForLeaderEpochResponse | DescribeQuorumResponse
"""What only a log's leader says of it."""

AnswerT = TypeVar("AnswerT", bound=LeaderAnswer)


class Transport(Protocol):
    """The way to the replicas."""

    async def call(self, replica_id: ReplicaId, request: Request, timeout_ms: int) -> Response:
        """Send one request; raises NotAppliedError if it certainly did nothing, TransportError if that is unknown."""

    async def close(self) -> None:
        """Give the connections back."""


class ReplicaClient:
    """An async client of one log. ``addresses`` is all it dials. Use it within one event loop, and close it.

    ``request_timeout_ms`` is the deadline of a whole call with all its retries, unless the call has its own;
    ``retry_backoff_ms`` the pause between two attempts.
    """

    def __init__(
        self,
        addresses: Mapping[ReplicaId, str],
        *,
        topic: str = "log",
        partition: int = 0,
        cluster_id: str | None = None,
        request_timeout_ms: int = 5000,
        retry_backoff_ms: int = 50,
        transport: Transport | None = None,
    ) -> None:
        table = AddressTable(advertised=addresses, overrides={})
        self._topic_partition = TopicPartition(topic, partition)
        self._cluster_id = cluster_id
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._guess = LeaderGuess(addresses)
        self._transport: Transport = GrpcTransport(table.address_of) if transport is None else transport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls in flight fail."""
        await self._transport.close()

    async def produce(
        self, values: Sequence[bytes], *, acks: int = ACKS_ALL, timeout_ms: int | None = None
    ) -> Produced:
        """Append ``values`` as one batch. Raises NotWrittenError, or OutcomeUnknownError with its cause.

        Attempts that certainly left nothing in the log are repeated until the deadline; the first that is in doubt
        ends the call.
        """
        batch = encode_batch(values, timestamp_ms=time.time_ns() // 1_000_000)
        if batch.size_bytes > BATCH_BYTES_MAX:
            raise NotWrittenError(f"a batch of {batch.size_bytes} bytes is above {BATCH_BYTES_MAX}; split it")
        deadline = _Deadline(self._request_timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            asked = self._guess.target
            attempt = await self._try_produce(asked, batch.data, acks, deadline.left_ms())
            reason = f"replica {asked}: {_reason(attempt)}"
            match produce_outcome(attempt):
                case Outcome.WRITTEN:
                    assert isinstance(attempt, ProduceResponse), attempt
                    self._guess.on_success(asked)
                    return Produced(base_offset=attempt.base_offset, leader_epoch=attempt.leader_epoch, leader_id=asked)
                case Outcome.UNKNOWN:
                    self._guess.on_failure(asked)
                    raise OutcomeUnknownError(f"the write may have been applied: {reason}") from _cause(attempt)
                case Outcome.REFUSED:
                    raise NotWrittenError(f"not written: {reason}")
                case Outcome.RETRY:
                    await self._before_retry(asked, attempt, deadline)
            if deadline.is_over():
                raise NotWrittenError(f"not written within {deadline.timeout_ms} ms: {reason}") from _cause(attempt)

    async def fetch(
        self,
        offset: Offset | int,
        *,
        max_wait_ms: int = 500,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
        timeout_ms: int | None = None,
    ) -> Fetched:
        """Read committed records from ``offset``, waiting up to ``max_wait_ms`` for ``min_bytes`` of them.

        Raises OffsetOutOfRangeError or ReadFailedError.
        """
        start = Offset(offset)
        asked, response = await self._ask_leader(
            FetchRequest(
                partitions=(
                    FetchPartition(topic_partition=self._topic_partition, fetch_offset=start, max_bytes=max_bytes),
                ),
                cluster_id=self._cluster_id,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
            ),
            FetchedPartition,
            (self._request_timeout_ms if timeout_ms is None else timeout_ms) + max_wait_ms,
        )
        batches = _parse(response.records, asked)
        return Fetched(
            records=tuple(record for record in _records_of(batches, asked) if record.offset >= start),
            high_watermark=response.high_watermark,
            next_offset=max(start, batches[-1].end_offset) if batches else start,
            leader_id=asked,
        )

    async def list_offsets(self, *, latest: bool) -> ListedOffset:
        """Ask for the end of what may be read (``latest``) or the start of the log. Raises ReadFailedError."""
        asked, response = await self._ask_leader(
            ListOffsetsRequest(topic_partition=self._topic_partition, latest=latest, cluster_id=self._cluster_id),
            ListOffsetsResponse,
            self._request_timeout_ms,
        )
        if response.offset is None:
            raise ReadFailedError(f"replica {asked} answered ListOffsets without an offset")
        return ListedOffset(offset=response.offset, leader_epoch=response.leader_epoch, leader_id=asked)

    async def offset_for_leader_epoch(self, epoch: Epoch | int) -> EpochEndOffset | None:
        """Ask where ``epoch`` ends in the leader's log; absent if the epoch is undefined. Raises ReadFailedError."""
        _, response = await self._ask_leader(
            OffsetForLeaderEpochRequest(
                topic_partition=self._topic_partition, leader_epoch=Epoch(epoch), cluster_id=self._cluster_id
            ),
            OffsetForLeaderEpochResponse,
            self._request_timeout_ms,
        )
        return response.answer

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """Return the leader's view of its quorum. Raises ReadFailedError."""
        request = DescribeQuorumRequest(topic_partition=self._topic_partition, cluster_id=self._cluster_id)
        _, response = await self._ask_leader(request, DescribeQuorumResponse, self._request_timeout_ms)
        return response

    async def describe_replica(self, replica_id: ReplicaId) -> DescribeReplicaResponse:
        """Return one replica's own state, leading or not. Raises ReadFailedError."""
        request = DescribeReplicaRequest(topic_partition=self._topic_partition)
        return await self._ask(replica_id, request, DescribeReplicaResponse)

    async def dump_log(self, replica_id: ReplicaId) -> DumpedLog:
        """Read one replica's whole log, committed or not. Raises ReadFailedError."""
        described = await self.describe_replica(replica_id)
        start = described.log_start_offset or Offset(0)
        batches: list[RecordBatch] = []
        position = start
        while True:
            response = await self._ask(
                replica_id,
                DumpLogRequest(topic_partition=self._topic_partition, offset=position, max_bytes=DUMP_BYTES_MAX),
                DumpLogResponse,
            )
            batches += _parse(response.records, replica_id)
            position = batches[-1].end_offset if batches else start
            if not response.records or len(batches) >= DUMPED_BATCHES_MAX:
                break
        end = position if response.log_end_offset is None else response.log_end_offset
        return DumpedLog(
            replica_id=replica_id,
            batches=tuple(batches),
            high_watermark=response.high_watermark,
            log_start_offset=start,
            log_end_offset=end,
            epochs=described.epochs,
            complete=position == end,
        )

    async def _try_produce(
        self, asked: ReplicaId, records: bytes, acks: int, timeout_ms: int
    ) -> ProduceResponse | TransportError:
        request = ProduceRequest(
            topic_partition=self._topic_partition,
            acks=acks,
            timeout_ms=timeout_ms,
            records=records,
            cluster_id=self._cluster_id,
        )
        try:
            response = await self._transport.call(asked, request, timeout_ms)
        except TransportError as error:
            return error
        assert isinstance(response, ProduceResponse), response
        return response

    async def _ask_leader(
        self, request: Request, answer_type: type[AnswerT], timeout_ms: int
    ) -> tuple[ReplicaId, AnswerT]:
        """Ask whoever leads, again and again until the deadline: reading twice does no harm."""
        deadline = _Deadline(timeout_ms)
        while True:
            asked = self._guess.target
            attempt = await self._try_leader(asked, request, answer_type, deadline.left_ms())
            if not isinstance(attempt, TransportError):
                if attempt.error is ErrorCode.NONE:
                    self._guess.on_success(asked)
                    return asked, attempt
                _check_retriable(asked, request, attempt)
            await self._before_retry(asked, attempt, deadline)
            if deadline.is_over():
                raise ReadFailedError(
                    f"no answer within {timeout_ms} ms; last from replica {asked}: {_reason(attempt)}",
                    error=None if isinstance(attempt, TransportError) else attempt.error,
                )

    async def _try_leader(
        self, asked: ReplicaId, request: Request, answer_type: type[AnswerT], timeout_ms: int
    ) -> AnswerT | TransportError:
        try:
            response = await self._transport.call(asked, request, timeout_ms)
        except TransportError as error:
            return error
        answer = response.answer_for(self._topic_partition) if isinstance(response, FetchResponse) else response
        assert isinstance(answer, answer_type), answer
        return answer

    async def _ask(self, replica_id: ReplicaId, request: Request, response_type: type[ResponseT]) -> ResponseT:
        """Ask this very replica, once."""
        try:
            response = await self._transport.call(replica_id, request, self._request_timeout_ms)
        except TransportError as error:
            raise ReadFailedError(str(error)) from error
        if response.error is not ErrorCode.NONE:
            raise ReadFailedError(f"replica {replica_id} answered {response.error}", error=response.error)
        assert isinstance(response, response_type), response
        return response

    async def _before_retry(
        self, asked: ReplicaId, attempt: ProduceResponse | LeaderAnswer | TransportError, deadline: _Deadline
    ) -> None:
        """Learn from the failure whom to ask next, and pause unless there is news to act upon."""
        if isinstance(attempt, TransportError):
            self._guess.on_failure(asked)
        elif self._guess.on_hint(asked, attempt.current_leader):
            return
        await asyncio.sleep(min(self._retry_backoff_ms, deadline.left_ms()) / 1000)


class _Deadline:
    """How much time a call has left, in whole milliseconds of at least 1, so that it always suits a timeout."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._end = time.monotonic() + timeout_ms / 1000

    def left_ms(self) -> int:
        return max(1, int((self._end - time.monotonic()) * 1000))

    def is_over(self) -> bool:
        return time.monotonic() >= self._end


def _check_retriable(asked: ReplicaId, request: Request, answer: LeaderAnswer) -> None:
    """Raise what asking again cannot cure."""
    if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE and isinstance(request, FetchRequest):
        assert isinstance(answer, FetchedPartition), answer
        raise OffsetOutOfRangeError(
            request.partitions[0].fetch_offset,
            log_start_offset=answer.log_start_offset,
            high_watermark=answer.high_watermark,
        )
    if answer.error not in RETRIABLE:
        raise ReadFailedError(f"replica {asked} answered {answer.error}", error=answer.error)


def _parse(records: bytes, asked: ReplicaId) -> tuple[RecordBatch, ...]:
    try:
        return parse_batches(records)
    except CorruptRecordError as error:
        raise ReadFailedError(f"replica {asked} sent damaged batches: {error}") from error


def _records_of(batches: Sequence[RecordBatch], asked: ReplicaId) -> list[Record]:
    """Decode all but the protocol's own batches."""
    try:
        return [record for batch in batches if not batch.is_control for record in decode_records(batch)]
    except CorruptRecordError as error:
        raise ReadFailedError(f"replica {asked} sent damaged records: {error}") from error


def _reason(attempt: ProduceResponse | LeaderAnswer | TransportError) -> str:
    return str(attempt) if isinstance(attempt, TransportError) else attempt.error.value


def _cause(attempt: ProduceResponse | LeaderAnswer | TransportError) -> TransportError | None:
    return attempt if isinstance(attempt, TransportError) else None
