"""Reading records: partitions are assigned by hand, positions are the reader's to keep.

Owns the calls; fetching is ``fetcher``'s work, positions and truncation are ``reading``'s. There are no consumer
groups: whoever wants to go on after a restart keeps ``offset + 1`` and ``leader_epoch`` of the last record that was
dealt with, and seeks there. Source: Kafka's ``KafkaConsumer``; KIP-320.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from replica.client.clock import Clock, Deadline
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Closing, Connections, GrpcConnections
from replica.client.consumer_config import ConsumerConfig
from replica.client.fetcher import Fetcher
from replica.client.leader_calls import LeaderCalls
from replica.client.polled import PolledRecords
from replica.client.reading import OffsetReset, Reading
from replica.client.values import ConsumerRecord, OffsetAndEpoch
from replica.core.messages import ListOffsetsResponse
from replica.ids import OFFSET_MAX, Epoch, Offset, TopicId, TopicPartition
from replica.rpc.channels import RARE_PING_MS

if TYPE_CHECKING:
    import pyarrow as pa

ValueT = TypeVar("ValueT")
ITERATION_MS = 10_000
"""So often an iteration that waits looks whether anything is assigned still."""


class Consumer(Closing):
    """An async consumer. ``bootstrap`` is one or more ``HOST:PORT``. Use it within one event loop, and close it.

    A call that concerns positions is about assigned partitions only: KeyError for any other.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        config: ConsumerConfig | None = None,
        *,
        view_config: ViewConfig | None = None,
        connections: Connections | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = config or ConsumerConfig()
        tls = None if view_config is None else view_config.tls
        self._view = ClusterView(
            bootstrap,
            view_config,
            connections=connections or GrpcConnections(ping_ms=RARE_PING_MS, tls=tls),
            clock=clock,
        )
        self._leaders = LeaderCalls(self._view)
        self._readings: dict[TopicPartition, Reading] = {}
        self._fetcher = Fetcher(self._view, self._config, self._leaders, self._readings)
        self._turn = 0

    async def close(self) -> None:
        """Stop fetching and close the connections."""
        await self._fetcher.close()
        await self._view.close()

    # --- what to read -----------------------------------------------------------------------------------------------

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic. Raises UnknownTopicError, ClusterUnreachableError."""
        image = await self._view.wait_topic(topic, self._view.deadline())
        return [TopicPartition(topic, number) for number in sorted(image.partitions)]

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._readings)

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. Those that were assigned before keep their positions."""
        wanted = dict.fromkeys(topic_partitions)
        for gone in self._readings.keys() - wanted.keys():
            self._readings.pop(gone).generation += 1
        for name in wanted:
            self._readings.setdefault(name, Reading(name))
        self._view.want(name.topic for name in wanted)

    def seek(
        self,
        topic_partition: TopicPartition,
        offset: int,
        *,
        leader_epoch: Epoch | int | None = None,
        topic_id: TopicId | None = None,
    ) -> None:
        """Go on at ``offset``. With the epoch of the record just below it, a truncation of that record is found out.

        With the topic's id, so is a later topic of the same name.
        """
        if not 0 <= offset <= OFFSET_MAX:
            raise ValueError(f"{offset} is no offset; it must be 0 to {OFFSET_MAX}")
        epoch = None if leader_epoch is None else Epoch(leader_epoch)
        self._readings[topic_partition].seek(Offset(offset), epoch, topic_id)

    def seek_to_beginning(self, *topic_partitions: TopicPartition) -> None:
        """Go on at the first record there is; by default in all assigned partitions."""
        for name in topic_partitions or tuple(self._readings):
            self._readings[name].forget_position(OffsetReset.EARLIEST)

    def seek_to_end(self, *topic_partitions: TopicPartition) -> None:
        """Go on behind the last committed record; by default in all assigned partitions."""
        for name in topic_partitions or tuple(self._readings):
            self._readings[name].forget_position(OffsetReset.LATEST)

    async def position(self, topic_partition: TopicPartition, *, timeout_ms: int | None = None) -> Offset:
        """The offset of the next record that ``poll`` will return, or of a later one. Raises ReadFailedError."""
        reading, deadline = self._readings[topic_partition], self._view.deadline(timeout_ms)
        while reading.offset is None:
            self._check(reading)
            await self._work(deadline)
            if deadline.is_over() and reading.offset is None:
                await self._offset(topic_partition, deadline, latest=True)  # Raises what is wrong.
        return reading.offset

    # --- records ----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1000) -> list[ConsumerRecord]:
        """Return the next records, in order within each partition, as soon as there are any; none after that time.

        Raises LogTruncatedError, OffsetOutOfRangeError, NoOffsetError, UnreadableBatchError, or ReadFailedError where a
        partition could not be read for as long as a call may take. The position stays; the next ``poll`` tries again.
        """
        return self._deserialized(await self._poll(timeout_ms, self._config.max_poll_records))

    async def __aiter__(self) -> AsyncGenerator[ConsumerRecord, None]:
        """Every record of the assigned partitions as it comes, for ever; raises as ``poll``.

        The position is that behind the last record, so that whoever leaves the loop goes on where it was left.
        """
        while True:
            if not self._readings:
                raise RuntimeError("nothing is assigned: say by assign() which partitions are to be read")
            for record in self._deserialized(await self._poll(ITERATION_MS, 1)):
                yield record

    def _deserialized(self, polled: Sequence[PolledRecords]) -> list[ConsumerRecord]:
        """The records in front of the first that cannot be deserialized; raises what it raises if there are none."""
        records = [record for each in polled for record in each.records()]
        if not self._config.deserializes:
            return records
        given: list[ConsumerRecord] = []
        for record in records:
            try:
                given.append(self._config.deserialized(record))
            except Exception:
                left = records[len(given) :]
                for name in {each.topic_partition for each in left}:
                    self._readings[name].read_again(min(each.offset for each in left if each.topic_partition == name))
                if not given:
                    raise
                break
        return given

    async def poll_batches(self, timeout_ms: int = 1000) -> list[PolledRecords]:
        """The same as columns, without an object for a record: all that was fetched, however many they are.

        Raises as ``poll``.
        """
        return await self._poll(timeout_ms, OFFSET_MAX)

    async def poll_arrow(self, timeout_ms: int = 1000) -> pa.Table:
        """The same as one table of Arrow, by ``arrow_records.RECORDS_SCHEMA``. Raises as ``poll``."""
        from replica.client.arrow_records import table_of

        return table_of(await self.poll_batches(timeout_ms))

    async def _poll(self, timeout_ms: int, count: int) -> list[PolledRecords]:
        deadline = Deadline(self._view.clock, timeout_ms)
        while True:
            polled = self._take(count)
            if polled:
                self._fetcher.start()  # The next are on their way while these are dealt with.
                await asyncio.sleep(0)
                return polled
            for reading in self._readings.values():
                self._check(reading)
            if deadline.is_over():
                return []
            await self._work(deadline)

    def _take(self, count: int) -> list[PolledRecords]:
        """Take what is ready, from another partition first each time."""
        readings = [reading for reading in self._readings.values() if not reading.is_empty]
        self._turn += 1
        polled: list[PolledRecords] = []
        for index in range(len(readings)):
            reading = readings[(self._turn + index) % len(readings)]
            while count > 0 and not reading.is_empty:
                polled.append(reading.take(count))
                count -= len(polled[-1])
        return polled

    def _check(self, reading: Reading) -> None:
        if reading.error is not None and reading.is_empty:
            error, reading.error = reading.error, None
            raise error

    async def _work(self, deadline: Deadline) -> None:
        """Get on with what the partitions need until something has come of it or the time is up."""
        self._fetcher.progress.clear()
        self._fetcher.start()
        retry_at_ms = self._fetcher.next_retry_ms()
        left_ms = deadline.left_ms()
        if retry_at_ms is not None:
            left_ms = min(left_ms, max(0, retry_at_ms - self._view.clock.now_ms()))
        await self._view.clock.wait(self._fetcher.progress, left_ms)

    # --- offsets ----------------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, topic_partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        """Where each log begins. Raises ReadFailedError."""
        deadline = self._view.deadline(timeout_ms)
        return await _each(topic_partitions, lambda name: self._offset(name, deadline, latest=False))

    async def end_offsets(
        self, topic_partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        """Where what may be read of each log ends: its high watermark. Raises ReadFailedError."""
        deadline = self._view.deadline(timeout_ms)
        return await _each(topic_partitions, lambda name: self._offset(name, deadline, latest=True))

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndEpoch | None]:
        """The first record of each log that is not older than its time, in ms since 1970; None where all are."""
        deadline = self._view.deadline(timeout_ms)
        return await _each(timestamps_ms, lambda name: self._offset_for_time(name, timestamps_ms[name], deadline))

    async def _offset(self, name: TopicPartition, deadline: Deadline, *, latest: bool) -> Offset:
        question = self._leaders.offsets_question(name, latest=latest)
        answer = await self._leaders.ask(name, question, ListOffsetsResponse, deadline)
        assert answer.offset is not None, answer
        return answer.offset

    async def _offset_for_time(
        self, name: TopicPartition, timestamp_ms: int, deadline: Deadline
    ) -> OffsetAndEpoch | None:
        question = self._leaders.offsets_question(name, timestamp_ms=timestamp_ms)
        answer = await self._leaders.ask(name, question, ListOffsetsResponse, deadline)
        if answer.offset is None:
            return None
        return OffsetAndEpoch(offset=answer.offset, leader_epoch=answer.leader_epoch)


async def _each(
    names: Iterable[TopicPartition], ask: Callable[[TopicPartition], Awaitable[ValueT]]
) -> dict[TopicPartition, ValueT]:
    """Ask about each partition, all at once."""
    wanted = tuple(dict.fromkeys(names))
    return dict(zip(wanted, await asyncio.gather(*map(ask, wanted)), strict=True))
