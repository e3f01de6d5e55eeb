"""Whole batches out of a partition and into one, as they are: for who keeps records and does not look into them.

Owns the two ways. Out go the batches below an end that was committed, of one topic id, by a leader that still has what
was read before. In goes each batch once and in its order, by an idempotent producer of its own; what it is told is
compared with where the batch must stand, so that nobody else's records come between unnoticed. A batch that bears the
time of its append is written anew, since only leaders may write such.

Source: Kafka's MirrorMaker, ``RemoteLogManager``; KIP-98 for five batches in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from replica.client.asking import Failed, repeated, unanswered
from replica.client.cluster_view import ClusterView
from replica.client.controller_calls import ControllerCalls
from replica.client.failures import ReadFailedError
from replica.client.leader_calls import LeaderCalls
from replica.client.producer_values import ProducerIdentity
from replica.core.log.recovered import PRODUCER_BATCHES_KEPT
from replica.core.messages import (
    CurrentLeader,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, TopicId, TopicPartition
from replica.records import CorruptRecordError, RecordBatch, decode_records, encode_batch, increment_sequence
from replica.records import parse_batches as parsed
from replica.rpc.transport import TransportError

FETCH_BYTES = 4 << 20
ACKS_ALL = -1


class BatchReader:
    """Reads the batches of the partitions of one topic."""

    def __init__(self, view: ClusterView, topic_id: TopicId) -> None:
        self._view = view
        self._topic_id = topic_id
        self._leaders = LeaderCalls(view)

    async def offset(self, name: TopicPartition, *, latest: bool) -> Offset:
        """Where the partition begins, or the end of what is committed. Raises ReadFailedError."""
        question = self._leaders.offsets_question(name, latest=latest)
        answer = await self._leaders.ask(name, question, ListOffsetsResponse, self._view.deadline())
        assert answer.offset is not None, answer
        return answer.offset

    async def batches(
        self, name: TopicPartition, start: Offset, end: Offset, last_epoch: Epoch | None
    ) -> AsyncIterator[RecordBatch]:
        """Yield the batches from the one that holds ``start`` up to ``end``, which must be committed.

        ``last_epoch`` is that of the record below ``start``, where that was read before. Raises ReadFailedError, also
        where the log has been cut below ``start`` since.
        """
        while start < end:
            for batch in await self._fetched(name, start, last_epoch):
                if batch.base_offset >= end:
                    return
                yield batch
                start, last_epoch = batch.end_offset, batch.leader_epoch

    async def _fetched(self, name: TopicPartition, start: Offset, last_epoch: Epoch | None) -> tuple[RecordBatch, ...]:
        answer, _ = await repeated(
            lambda: self._fetch(name, start, last_epoch),
            self._view.deadline(),
            self._view.config.backoff(),
            late=f"{name}: no records from offset {start} on",
        )
        if isinstance(answer, Failed):
            raise ReadFailedError(answer.reason, error=answer.error)
        return answer

    async def _fetch(
        self, name: TopicPartition, start: Offset, last_epoch: Epoch | None
    ) -> tuple[RecordBatch, ...] | Failed:
        leader = await self._leaders.find(name, self._view.deadline())
        if isinstance(leader, Failed):
            return leader
        assert leader.leader_id is not None, leader
        try:
            answer = await self._view.call(
                leader.leader_id, self._request(name, start, last_epoch, leader), self._view.config.request_timeout_ms
            )
        except TransportError as error:
            self._leaders.on_unreachable(name)
            return unanswered(error)
        assert isinstance(answer, FetchResponse), answer
        part = answer.answer_for(name)
        if part.error is not ErrorCode.NONE:
            return self._leaders.on_error(name, part.error, part.current_leader, f"broker {leader.leader_id}")
        return _batches_of(name, part, start)

    def _request(
        self, name: TopicPartition, start: Offset, last_epoch: Epoch | None, leader: CurrentLeader
    ) -> FetchRequest:
        part = FetchPartition(
            topic_partition=name,
            topic_id=self._topic_id,
            fetch_offset=start,
            current_leader_epoch=leader.leader_epoch,
            last_fetched_epoch=last_epoch,
            max_bytes=FETCH_BYTES,
        )
        return FetchRequest(partitions=(part,), max_bytes=FETCH_BYTES, cluster_id=self._view.config.cluster_id)


def _batches_of(name: TopicPartition, part: FetchedPartition, start: Offset) -> tuple[RecordBatch, ...] | Failed:
    """What came; a leader that does not know yet that it is committed has nothing."""
    if part.diverging_epoch is not None:
        reason = f"{name}: what was read before offset {start} is not in its log any more"
        return Failed(reason=reason, is_final=True)
    try:
        batches = parsed(part.records)
    except CorruptRecordError as error:
        return Failed(reason=f"{name}: what came from offset {start} on is damaged: {error}")
    return batches or Failed(reason=f"{name}: there is nothing from offset {start} on")


class BatchWriter:
    """Writes batches into the partitions of one topic, which nobody else writes to."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._leaders = LeaderCalls(view)
        self._controller = ControllerCalls(view)

    async def write(self, name: TopicPartition, batches: Iterable[RecordBatch]) -> Offset:
        """Append batches in their order, from offset 0 on; returns where the partition ends.

        Raises ReadFailedError: then some of them stand there. CorruptRecordError for one that cannot be read.
        """
        request = InitProducerIdRequest(cluster_id=self._view.config.cluster_id)
        answer = await self._controller.ask(request, InitProducerIdResponse)
        assert answer.producer_id is not None, answer
        assert answer.producer_epoch is not None, answer
        producer = ProducerIdentity(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
        numbered, end_offset, count = _numbered(batches, producer), Offset(0), 1
        while window := list(islice(numbered, count)):
            await self._settle(name, window)
            # The first goes alone: of a producer that it does not know yet, a leader takes any batch.
            end_offset, count = window[-1].end_offset, PRODUCER_BATCHES_KEPT
        return end_offset

    async def _settle(self, name: TopicPartition, window: list[RecordBatch]) -> None:
        """Send as many batches as a leader remembers, until all of them stand there."""
        left = list(window)

        async def attempt() -> bool | Failed:
            answers = await asyncio.gather(*(self._send(name, batch) for batch in left))
            left[:] = [batch for batch, failed in zip(left, answers, strict=True) if failed is not None]
            # The first says why: those behind it came too early, as one may that has overtaken the first.
            failed = next((failed for failed in answers if failed is not None), None)
            if failed is None:
                return True
            overtook = answers[0] is None and failed.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return replace(failed, is_final=False) if overtook else failed

        answer, _ = await repeated(
            attempt, self._view.deadline(), self._view.config.backoff(), late=f"{name}: not written"
        )
        if isinstance(answer, Failed):
            raise ReadFailedError(answer.reason, error=answer.error)

    async def _send(self, name: TopicPartition, batch: RecordBatch) -> Failed | None:
        leader = await self._leaders.find(name, self._view.deadline())
        if isinstance(leader, Failed):
            return leader
        assert leader.leader_id is not None, leader
        timeout_ms = self._view.config.request_timeout_ms
        request = ProduceRequest(
            topic_partition=name,
            acks=ACKS_ALL,
            timeout_ms=timeout_ms,
            records=batch.stamped(base_offset=Offset(0), leader_epoch=Epoch(-1)).data,
            cluster_id=self._view.config.cluster_id,
            current_leader_epoch=leader.leader_epoch,
        )
        try:
            answer = await self._view.call(leader.leader_id, request, timeout_ms)
        except TransportError as error:
            self._leaders.on_unreachable(name)
            return unanswered(error)
        assert isinstance(answer, ProduceResponse), answer
        if answer.error is not ErrorCode.NONE:
            return self._leaders.on_error(name, answer.error, answer.current_leader, f"broker {leader.leader_id}")
        if answer.base_offset != batch.base_offset:
            where = f"what belongs to offset {batch.base_offset} stands at {answer.base_offset}"
            return Failed(reason=f"{name}: somebody else writes to it: {where}", is_final=True)
        return None


def _numbered(batches: Iterable[RecordBatch], producer: ProducerIdentity) -> Iterator[RecordBatch]:
    """Let batches count from offset 0 and sequence 0 on, as this producer's."""
    offset, sequence = Offset(0), 0
    for batch in batches:
        mine = (_at_create_time(batch) if batch.has_log_append_time else batch).produced_by(
            producer.producer_id, producer.producer_epoch, sequence
        )
        yield mine.stamped(base_offset=offset, leader_epoch=Epoch(-1))
        offset = Offset(offset + batch.record_count)
        sequence = increment_sequence(sequence, batch.record_count)


def _at_create_time(batch: RecordBatch) -> RecordBatch:
    """The same records, each with its own time."""
    return encode_batch(decode_records(batch), base_offset=batch.base_offset, compression=batch.compression)
