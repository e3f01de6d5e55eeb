"""What brings records to a consumer: positions are looked up, checked against the leader, and fetched from.

Owns the tasks that are under way; partitions that wait for nothing are asked for together, in as few Fetches per broker
as may be. A leader finds a truncation by the epoch in the Fetch itself. A follower cannot: it may not have heard of an
epoch yet. So a follower is asked only where the leader of the present epoch has named it, which had compared the epochs
by then.
Source: Kafka's ``Fetcher``, ``OffsetFetcher``; KIP-74, KIP-320, KIP-392.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from replica.bounds import FETCH_PARTITIONS_MAX
from replica.client.asking import Failed, unanswered
from replica.client.cluster_view import ClusterView
from replica.client.consumer_config import ConsumerConfig
from replica.client.failures import (
    LogTruncatedError,
    NoOffsetError,
    OffsetOutOfRangeError,
    ReadFailedError,
    UnreadableBatchError,
)
from replica.client.leader_calls import LeaderCalls
from replica.client.reading import OffsetReset, Reading
from replica.core.messages import (
    CurrentLeader,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
)
from replica.errors import ErrorCode
from replica.ids import EpochEndOffset, Offset, ReplicaId, TopicId, TopicPartition
from replica.records import CorruptRecordError, claimed_offsets, scan_batches
from replica.rpc.transport import TransportError

FOLLOWER_PAUSE_MS = 5000
"""How long a partition is read from its leader after a follower could not serve it."""

PREFERRED_MAX_AGE_MS = 300_000
"""How long a follower is read before the leader is asked again whom it would name (``metadata.max.age.ms``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One partition of a Fetch that is under way: who leads, and as of which seek it was asked for."""

    reading: Reading
    generation: int
    leader: CurrentLeader

    @property
    def is_current(self) -> bool:
        """Whether the reader is still where it was."""
        return self.reading.generation == self.generation


class Fetcher:
    """The fetching half of a consumer."""

    def __init__(
        self,
        view: ClusterView,
        config: ConsumerConfig,
        leaders: LeaderCalls,
        readings: Mapping[TopicPartition, Reading],
    ) -> None:
        self._view = view
        self._config = config
        self._leaders = leaders
        self._readings = readings
        self._tasks: set[asyncio.Task[None]] = set()
        self._mistake: BaseException | None = None
        """Our own, in one of the tasks: nobody is to wait for it in vain."""
        self.progress = asyncio.Event()
        """Set whenever something that was under way has come to an end."""

    async def close(self) -> None:
        """Stop everything that is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def next_retry_ms(self) -> int | None:
        """When a partition that has failed is to be tried again; absent if none has."""
        return min((reading.retry_at_ms for reading in self._waiting()), default=None)

    def start(self) -> None:
        """Start what can be started: whatever a partition needs that is neither under way nor to be retried later."""
        if self._mistake is not None:
            raise self._mistake
        now_ms = self._view.clock.now_ms()
        by_broker: dict[ReplicaId, list[Asked]] = {}
        for reading in [reading for reading in self._waiting() if reading.retry_at_ms <= now_ms]:
            source = self._started(reading)
            if source is not None:
                leader = self._leader(reading)
                asked = Asked(reading=reading, generation=reading.generation, leader=leader)
                by_broker.setdefault(source, []).append(asked)
        for broker_id, partitions in by_broker.items():
            for asked in partitions:
                asked.reading.is_busy = True
            for first in range(0, len(partitions), FETCH_PARTITIONS_MAX):
                some = partitions[first : first + FETCH_PARTITIONS_MAX]
                # The request is made now: by the time its task begins, a reader may have gone elsewhere.
                self._spawn(self._fetch(broker_id, some, self._request(broker_id, some)))

    def _started(self, reading: Reading) -> ReplicaId | None:
        """Start what a partition needs before it can be fetched; if that is nothing, return from whom it is fetched."""
        name = reading.topic_partition
        self._view.on_epoch(name, reading.last_epoch)
        self._view.on_topic(name.topic, reading.topic_id)
        if reading.offset is None:
            self._begin(reading, self._locate(reading))
        elif self._leaders.is_stale(name):
            self._begin(reading, self._find(reading))
        elif self._is_of_later_topic(reading):
            self._leaders.on_unreachable(name)
            self._on_failed(reading, Failed(reason="only an earlier topic of that name is known"))
        elif self._is_of_earlier_topic(reading):
            self._on_truncated(reading, None, "the topic was deleted and created again")
        else:
            return self._source(reading, self._leader(reading))
        return None

    def _leader(self, reading: Reading) -> CurrentLeader:
        leader = self._view.leader(reading.topic_partition)
        assert leader is not None, reading.topic_partition
        return _fenced(reading, leader)

    def _waiting(self) -> Iterable[Reading]:
        return [
            reading
            for reading in self._readings.values()
            if not reading.is_busy and reading.is_empty and reading.error is None
        ]

    def _begin(self, reading: Reading, work: Coroutine[Any, Any, None]) -> None:
        reading.is_busy = True
        self._spawn(self._released(reading, reading.generation, work))

    async def _released(self, reading: Reading, generation: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ReadFailedError as error:
            if reading.generation == generation:
                reading.error = error
        finally:
            if reading.generation == generation:
                reading.is_busy = False

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._mistake = self._mistake or task.exception()
        self.progress.set()

    # --- where to read from -----------------------------------------------------------------------------------------

    def _source(self, reading: Reading, leader: CurrentLeader) -> ReplicaId:
        """Choose whom to fetch from: the follower that the leader of this epoch has named lately, else the leader."""
        assert leader.leader_id is not None, leader
        if reading.preferred is None or not reading.is_validated(leader.leader_epoch):
            return leader.leader_id
        if self._view.clock.now_ms() >= reading.preferred_until_ms:
            reading.preferred = None
        elif not self._is_in_sync(reading, reading.preferred):
            self._read_from_leader(reading)
        return leader.leader_id if reading.preferred is None else reading.preferred

    def _is_in_sync(self, reading: Reading, broker_id: ReplicaId) -> bool:
        registration, broker = self._view.partition(reading.topic_partition), self._view.brokers.get(broker_id)
        return registration is not None and broker_id in registration.isr and broker is not None and not broker.fenced

    def _is_of_later_topic(self, reading: Reading) -> bool:
        """Whether the view is behind: ids of topics grow."""
        return reading.topic_id is not None and self._topic_id(reading) < reading.topic_id

    def _is_of_earlier_topic(self, reading: Reading) -> bool:
        topic_id = self._topic_id(reading)
        if reading.topic_id is None:
            reading.topic_id = topic_id
        return reading.topic_id < topic_id

    def _topic_id(self, reading: Reading) -> TopicId:
        image = self._view.topic(reading.topic_partition.topic)
        assert image is not None, reading.topic_partition
        return image.topic_id

    # --- positions --------------------------------------------------------------------------------------------------

    async def _find(self, reading: Reading) -> None:
        leader = await self._leaders.find(reading.topic_partition, self._view.deadline())
        if isinstance(leader, Failed):
            self._on_failed(reading, leader)

    async def _locate(self, reading: Reading) -> None:
        """Look up where to begin."""
        generation, reset = reading.generation, reading.reset or self._config.auto_offset_reset
        if reset is OffsetReset.NONE:
            raise NoOffsetError(reading.topic_partition)
        latest = reset is OffsetReset.LATEST
        question = self._leaders.offsets_question(reading.topic_partition, latest=latest)
        answer = await self._leaders.ask_once(
            reading.topic_partition, question, ListOffsetsResponse, self._view.deadline()
        )
        if reading.generation != generation:
            return
        if isinstance(answer, Failed):
            self._on_failed(reading, answer)
            return
        assert answer.offset is not None, answer
        reading.seek(answer.offset, answer.leader_epoch if latest else None)
        reading.failing_since_ms = None

    # --- fetching ---------------------------------------------------------------------------------------------------

    async def _fetch(self, broker_id: ReplicaId, partitions: list[Asked], request: FetchRequest) -> None:
        timeout_ms = self._view.config.request_timeout_ms + self._config.wait_ms
        try:
            response = await self._view.call(broker_id, request, timeout_ms)
        except TransportError as error:
            for asked in partitions:
                self._leaders.on_unreachable(asked.reading.topic_partition)
                self._release(asked, broker_id, unanswered(error))
            return
        assert isinstance(response, FetchResponse), response
        for asked in partitions:
            if not asked.is_current:
                continue
            answer = response.answer_for(asked.reading.topic_partition)
            try:
                self._release(asked, broker_id, await self._take(asked, broker_id, answer))
            except ReadFailedError as error:
                self._release(asked, broker_id, None)
                if asked.is_current:
                    asked.reading.error = error

    def _release(self, asked: Asked, broker_id: ReplicaId, failed: Failed | None) -> None:
        """Let the partition be asked for again, at once or after a pause."""
        if not asked.is_current:
            return
        asked.reading.is_busy = False
        if failed is not None:
            self._on_failed(asked.reading, failed)
            if broker_id != asked.leader.leader_id:
                self._read_from_leader(asked.reading)

    def _request(self, broker_id: ReplicaId, partitions: list[Asked]) -> FetchRequest:
        parts = []
        for asked in partitions:
            assert asked.reading.offset is not None, asked
            asks_leader = broker_id == asked.leader.leader_id
            parts.append(
                FetchPartition(
                    topic_partition=asked.reading.topic_partition,
                    topic_id=asked.reading.topic_id,
                    fetch_offset=asked.reading.offset,
                    current_leader_epoch=asked.leader.leader_epoch,
                    last_fetched_epoch=asked.reading.last_epoch if asks_leader else None,
                    max_bytes=self._config.max_partition_fetch_bytes,
                )
            )
        now_ms = self._view.clock.now_ms()
        only_leader = any(asked.reading.leader_only_until_ms > now_ms for asked in partitions)
        return FetchRequest(
            partitions=tuple(parts),
            rack_id=None if only_leader else self._config.client_rack,
            cluster_id=self._view.config.cluster_id,
            max_wait_ms=self._config.wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
        )

    async def _take(self, asked: Asked, broker_id: ReplicaId, answer: FetchedPartition) -> Failed | None:
        """Take one partition's answer. Raises ReadFailedError for what the reader has to know."""
        reading = asked.reading
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE and broker_id != asked.leader.leader_id:
            self._read_from_leader(reading)  # It may lag behind; what the leader says counts.
            return None
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._on_out_of_range(asked)
            return None
        if answer.error is not ErrorCode.NONE:
            return self._leaders.on_error(
                reading.topic_partition, answer.error, answer.current_leader, f"broker {broker_id}"
            )
        reading.failing_since_ms = None
        if answer.diverging_epoch is not None:
            self._on_epoch_end(reading, answer.diverging_epoch)
            return None
        reading.on_validated(asked.leader.leader_epoch)
        if answer.preferred_read_replica is not None:
            self._prefer(reading, answer.preferred_read_replica)
        try:
            reading.add(scan_batches(answer.records))
        except CorruptRecordError as error:
            reason = f"broker {broker_id} sent damaged records: {error}"
            raise _unreadable(reading, answer.records, reason) from error
        return None

    def _prefer(self, reading: Reading, follower_id: ReplicaId) -> None:
        """Ask a follower from now on, unless our view has it that it cannot serve."""
        if self._is_in_sync(reading, follower_id):
            reading.preferred = follower_id
            reading.preferred_until_ms = self._view.clock.now_ms() + PREFERRED_MAX_AGE_MS
        else:
            self._read_from_leader(reading)

    def _read_from_leader(self, reading: Reading) -> None:
        reading.preferred = None
        reading.leader_only_until_ms = self._view.clock.now_ms() + FOLLOWER_PAUSE_MS

    # --- what goes wrong --------------------------------------------------------------------------------------------

    def _on_failed(self, reading: Reading, failed: Failed) -> None:
        """Try again after a pause, if it helps; tell once nothing has worked for as long as a call may take."""
        if failed.is_final:
            reading.error = ReadFailedError(failed.reason, error=failed.error)
            return
        now_ms, limit_ms = self._view.clock.now_ms(), self._view.config.api_timeout_ms
        if reading.failing_since_ms is None:
            reading.failing_since_ms = now_ms
        reading.retry_at_ms = now_ms + self._view.config.retry_backoff_ms
        if now_ms - reading.failing_since_ms >= limit_ms:
            reading.failing_since_ms = None
            reading.error = ReadFailedError(
                f"{reading.topic_partition} could not be read for {limit_ms} ms; last: {failed.reason}",
                error=failed.error,
            )

    async def _on_out_of_range(self, asked: Asked) -> None:
        """Begin anew if the policy allows that, else raise OffsetOutOfRangeError with the log's bounds."""
        reading = asked.reading
        if self._config.auto_offset_reset is not OffsetReset.NONE:
            reading.forget_position(self._config.auto_offset_reset)
            return
        offset, name = reading.offset, reading.topic_partition
        assert offset is not None, name
        raise OffsetOutOfRangeError(
            offset,
            log_start_offset=await self._bound(name, latest=False),
            high_watermark=await self._bound(name, latest=True),
            topic_partition=name,
        )

    async def _bound(self, name: TopicPartition, *, latest: bool) -> Offset | None:
        """Where a log begins or ends, if its leader says so at once."""
        question = self._leaders.offsets_question(name, latest=latest)
        answer = await self._leaders.ask_once(name, question, ListOffsetsResponse, self._view.deadline())
        return None if isinstance(answer, Failed) else answer.offset

    def _on_epoch_end(self, reading: Reading, end: EpochEndOffset) -> bool:
        """Compare what was read with where the leader's log leaves it. Returns whether it was truncated."""
        divergence = reading.divergence(end)
        if divergence is None:
            return False
        self._on_truncated(reading, EpochEndOffset(end.epoch, divergence), "")
        return True

    def _on_truncated(self, reading: Reading, divergent: EpochEndOffset | None, reason: str) -> None:
        """Go back to where the log was cut if the policy allows that, else have the reader told."""
        assert reading.offset is not None, reading.topic_partition
        if self._config.auto_offset_reset is OffsetReset.NONE:
            reading.error = LogTruncatedError(reading.topic_partition, reading.offset, divergent, reason)
        elif divergent is None:
            reading.forget_position(self._config.auto_offset_reset)
        else:
            reading.go_back(divergent.end_offset)


def _unreadable(reading: Reading, records: bytes, reason: str) -> UnreadableBatchError:
    """Name the batch at the position by what its header says of offsets, if that fits the position."""
    assert reading.offset is not None, reading.topic_partition
    base_offset, end_offset = claimed_offsets(records) or (reading.offset, reading.offset)
    if not base_offset <= reading.offset < end_offset:
        return UnreadableBatchError(reading.topic_partition, reading.offset, None, reason)
    return UnreadableBatchError(reading.topic_partition, base_offset, end_offset, reason)


def _fenced(reading: Reading, leader: CurrentLeader) -> CurrentLeader:
    """Have a leader answer only if it is in the epoch of what was read, or in a later one (KIP-320).

    One that was deposed without knowing it would have us believe a truncation. It refuses by UNKNOWN_LEADER_EPOCH, and
    a new view is asked for.
    """
    return CurrentLeader(leader_id=leader.leader_id, leader_epoch=reading.believed_from(leader.leader_epoch))
