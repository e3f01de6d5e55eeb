"""Writing records: each call hands over one record and returns what, awaited, tells where it stands.

Owns the calls, and which partition a record goes to. What is told is one of three things, never two: a RecordMetadata
(it is in the log), NotWrittenError (it certainly is not), or OutcomeUnknownError (nobody can say). Batching is the
accumulator's, sending ``sender``'s. Source: Kafka's ``KafkaProducer``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

from replica.client.accumulator import RecordAccumulator, record_bytes_bound
from replica.client.arrow_columns import Rows, Times, column_of, times_of
from replica.client.backlog import Backlog, Parked
from replica.client.clock import Clock, Deadline, wait_task
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Closing, Connections
from replica.client.delivery import BatchDelivery, Delivery, OnDelivery
from replica.client.failures import ClusterUnreachableError, NotWrittenError, UnknownTopicError, WriteError
from replica.client.feeding import Group, groups_of
from replica.client.many import Many, ManyWritten
from replica.client.partition_queue import PartitionQueue
from replica.client.partitioner import STICKY_BYTES, Partitioner
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import BufferFullError, RecordTooLargeError
from replica.client.sender import Sender
from replica.client.values import RecordMetadata
from replica.core.metadata.image import TopicImage
from replica.ids import TopicPartition
from replica.records import HEADER_BYTES, Header, RecordColumns, check_record

_Record = tuple[bytes | None, bytes | None, tuple[Header, ...], int]
"""Value, key, headers and time."""


class Route:
    """The way of one topic's records, as ``image`` has it: which partitions there are, and the queues of those used."""

    __slots__ = ("_accumulator", "_queues", "image", "partitioner")

    def __init__(self, image: TopicImage, partitioner: Partitioner, accumulator: RecordAccumulator) -> None:
        self.image = image
        self.partitioner = partitioner
        self._accumulator = accumulator
        self._queues: dict[int, PartitionQueue] = {}

    def queue(self, partition: int | None, key: bytes | None, size_bytes: int) -> PartitionQueue:
        """Where a record goes. Raises UnknownTopicError for a partition that the topic has not."""
        if partition is None:
            partition = self.partitioner.partition_of(key, size_bytes)
        queue = self._queues.get(partition)
        if queue is None:
            self.check_partition(partition)
            queue = self._queues[partition] = self._accumulator.queue(TopicPartition(self.image.name, partition))
        return queue

    def check_partition(self, partition: int) -> None:
        """Raise UnknownTopicError for a partition that the topic has not."""
        if partition not in self.image.partitions:
            raise UnknownTopicError(f"{self.image.name}-{partition}")


class Producer(Closing):
    """An async producer. ``bootstrap`` is one or more ``HOST:PORT``. Use it within one event loop, and close it.

    ``random`` chooses partitions for records without a key.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        config: ProducerConfig | None = None,
        *,
        view_config: ViewConfig | None = None,
        connections: Connections | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._config = config or ProducerConfig()
        self._view = ClusterView(bootstrap, view_config, connections=connections, clock=clock)
        self._serializes = self._config.serializes
        self._accumulator = RecordAccumulator(self._config)
        self._random = random or Random()
        self._routes: dict[str, Route] = {}
        self._backlogs: dict[str, Backlog] = {}
        self._sender = Sender(self._accumulator, self._view, self._config)
        self._taken_bytes_at_pause = 0
        self._bulk_bytes = self._config.batch_bytes - HEADER_BYTES

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Hand over one record; awaited, what is returned tells what becomes of it.

        Value and key are bytes or None, or what the serializers of the configuration make bytes of.
        Equal keys go to the same partition as long as the topic has as many partitions. ``on_delivery`` gets the
        record's outcome as well. A record for a topic that is not known yet waits for it, ``max_block_ms`` at most.

        Raises, with nothing done, TypeError and ValueError for what no record can have, and NotWrittenError where that
        is known at once: RecordTooLargeError, UnknownTopicError for a partition, and BufferFullError: ``ready`` waits
        for room.
        """
        if not self._sender.is_alive:
            self._sender.check_alive()
        if self._serializes:
            key, value = self._config.serialized(key, value)
        headers = tuple(headers)
        check_record(key, value, headers, timestamp_ms)
        if type(topic) is not str or (partition is not None and type(partition) is not int):
            _check_place(topic, partition)
        at_ms = self._view.clock.since_1970_ms() if timestamp_ms is None else timestamp_ms
        route, size = self._routes.get(topic), record_bytes_bound(key, value, headers)
        if route is None or route.image is not self._view.topic(topic):
            route = self._route(topic)
        if route is None or (self._backlogs and topic in self._backlogs):
            delivery = self._park(topic, partition, size, (value, key, headers, at_ms))
        else:
            queue = route.queue(partition, key, size)
            now_ms = self._view.clock.now_ms
            delivery = self._accumulator.append(queue, size, value, key, headers, at_ms, now_ms)
            if delivery.position == 0:
                self._sender.expect(delivery.batch)
        if on_delivery is not None:
            delivery.tell(on_delivery)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Wait for room, write one record and say where it stands. Raises NotWrittenError or OutcomeUnknownError."""
        await self.ready()
        return await self.send(topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)

    def send_many(
        self,
        topic: str,
        values: Rows,
        *,
        keys: Rows | None = None,
        partition: int | None = None,
        timestamps_ms: Times = None,
    ) -> asyncio.Future[ManyWritten]:
        """Hand over many records at once; the future tells what becomes of all of them together.

        ``values`` and ``keys`` are rows of bytes or None, or Arrow's arrays of binary or string, of which no object is
        made for a row. Records with a key go where ``send`` would send them, others to one partition for each batch.
        Those that find no room wait for it, ``max_block_ms`` at most.

        The future gives ManyWritten, or raises NotWrittenError if certainly none of the records is written, else
        NotAllWrittenError, which tells each row's outcome. Raises TypeError, ValueError and NotWrittenError with
        nothing done, as ``send``.
        """
        self._sender.check_alive()
        _check_place(topic, partition)
        column, key_column = column_of(values), None if keys is None else column_of(keys)
        if key_column is not None and key_column.count != column.count:
            raise ValueError(f"{key_column.count} keys for {column.count} values")
        times, time_ms = times_of(timestamps_ms, column.count, self._view.clock.since_1970_ms())
        columns = RecordColumns(values=column, keys=key_column, timestamps_ms=times, timestamp_ms=time_ms)
        many = Many(column.count)
        feed = partial(self._feed, many, columns, topic, partition)
        deadline = self._view.deadline(self._config.max_block_ms)
        self._backlog(topic).put(Parked(deadline=deadline, place=feed, fail=many.give_up))
        return many.future

    async def ready(self) -> None:
        """Wait until there is room for a record of any size, and let the sender get on with its work meanwhile.

        Called in front of each ``send``, it brings back pressure into a loop that does not wait for outcomes. Raises
        BufferFullError if no room comes within ``max_block_ms``, and NotWrittenError once the producer is closed.
        """
        if not self._sender.is_alive:
            self._sender.check_alive()
        if self._accumulator.taken_bytes - self._taken_bytes_at_pause >= self._config.batch_size:
            self._taken_bytes_at_pause = self._accumulator.taken_bytes
            await asyncio.sleep(0)
        if not self._accumulator.has_room:
            await self._wait_room(lambda: self._accumulator.has_room, self._sender.check_alive)

    async def flush(self) -> None:
        """Send all that was handed over without lingering, and wait until each record has its outcome."""
        await asyncio.gather(*(backlog.task for backlog in self._backlogs.values()), return_exceptions=True)
        await self._sender.flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, for ``timeout_ms`` at most, give up what is left, and close the connections."""
        deadline = None if timeout_ms is None else self._view.deadline(timeout_ms)
        try:
            self._sender.refuse()
            for backlog in list(self._backlogs.values()):
                await wait_task(self._view.clock, backlog.task, None if deadline is None else deadline.left_ms())
                await backlog.give_up(NotWrittenError("the producer is closed, and the topic not known yet"))
            await self._sender.stop(None if deadline is None else deadline.left_ms())
        finally:
            await self._view.close()

    # --- where to ---------------------------------------------------------------------------------------------------

    def _route(self, topic: str) -> Route | None:
        """The way of a topic's records by what is known now; absent where nothing is."""
        known, image = self._routes.get(topic), self._view.topic(topic)
        if known is not None and known.image is image:
            return known
        if image is None:
            return None
        sticky_bytes = min(STICKY_BYTES, self._config.batch_size)
        partitioner = known.partitioner if known else Partitioner(self._random, sticky_bytes=sticky_bytes)
        led = [number for number, of in sorted(image.partitions.items()) if of.leader_id is not None]
        partitioner.on_partitions(len(image.partitions), led)
        route = self._routes[topic] = Route(image, partitioner, self._accumulator)
        return route

    def _park(self, topic: str, partition: int | None, size_bytes: int, record: _Record) -> Delivery:
        """Let a record wait for its topic, in the room that it will need."""
        room_bytes = HEADER_BYTES + size_bytes
        self._accumulator.check_size(size_bytes)
        self._accumulator.reserve(room_bytes)
        parked = BatchDelivery(None, TopicPartition(topic, partition or 0))
        parked.timestamps_ms.append(record[3])

        async def place() -> None:
            self._sender.check_failure()
            queue = self._known_route(topic).queue(partition, record[1], size_bytes)
            self._accumulator.release(room_bytes)
            delivery = self._accumulator.append(queue, size_bytes, *record, self._view.clock.now_ms)
            if delivery.position == 0:
                self._sender.expect(delivery.batch)
            delivery.tell(parked.settled_like)

        def fail(error: WriteError) -> None:
            self._accumulator.release(room_bytes)
            self._sender.on_room()
            parked.failed(error)

        deadline = self._view.deadline(self._config.max_block_ms)
        self._backlog(topic).put(Parked(deadline=deadline, place=place, fail=fail))
        return Delivery(parked, 0)

    def _known_route(self, topic: str) -> Route:
        route = self._route(topic)
        assert route is not None, f"{topic} is not known"
        return route

    # --- many at once -----------------------------------------------------------------------------------------------

    async def _feed(self, many: Many, columns: RecordColumns, topic: str, partition: int | None) -> None:
        """Bring rows into batches, as there is room, and account for each."""
        route = self._known_route(topic)
        if partition is not None:
            route.check_partition(partition)
        keyless = route.partitioner.partition_of(None, 0)
        groups = groups_of(columns, partition, sorted(route.image.partitions), keyless, self._config.compression)
        reason: WriteError = NotWrittenError("the producer was closed before they were sent")
        try:
            while groups:
                for group in groups:
                    await self._feed_batch(many, group, topic)
                groups = [group for group in groups if not group.is_over]
        except WriteError as error:
            reason = error
        finally:
            for group in groups:
                if not group.is_over:
                    many.failed(group.take_all(), reason)
            many.fed()

    async def _feed_batch(self, many: Many, group: Group, topic: str) -> None:
        """Bring the next rows of a group into a batch, and let the sender get on with its work."""
        try:
            records = group.encode(self._bulk_bytes)
        except ValueError as error:
            raise NotWrittenError(f"what was handed over has changed meanwhile: {error}") from error
        size = len(records.body)
        try:
            self._accumulator.check_size(size)
        except RecordTooLargeError as error:
            many.failed(group.take(records.record_count), error)
            return
        await self._wait_room(lambda: self._accumulator.has_room_for(size), self._sender.check_failure)
        queue = self._known_route(topic).queue(group.partition, None, size)
        batch = self._accumulator.append_records(queue, records, self._view.clock.now_ms())
        many.travels(group.take(records.record_count), batch)
        self._sender.expect(batch)
        await asyncio.sleep(0)

    async def _wait_room(self, has_room: Callable[[], bool], check: Callable[[], None]) -> None:
        """Wait until there is room, as long as ``check`` does not raise. Raises BufferFullError."""
        deadline = self._view.deadline(self._config.max_block_ms)
        check()
        while not has_room():
            if deadline.is_over():
                raise BufferFullError(f"no room in the buffer within {deadline.timeout_ms} ms; nothing was taken")
            await self._sender.wait_room(deadline)
            check()

    # --- topics that are not known yet ------------------------------------------------------------------------------

    def _backlog(self, topic: str) -> Backlog:
        backlog = self._backlogs.get(topic)
        if backlog is None:
            backlog = Backlog(partial(self._learn, topic), on_empty=lambda: self._backlogs.pop(topic))
            self._backlogs[topic] = backlog
        return backlog

    async def _learn(self, topic: str, deadline: Deadline) -> None:
        try:
            await self._view.wait_topic(topic, deadline)
        except ClusterUnreachableError as error:
            raise NotWrittenError(f"{topic}: not written: {error}", error=error.error) from error


def _check_place(topic: object, partition: object) -> None:
    """Raise TypeError where a record can go nowhere: 0.0 is equal to 0, and no number of a partition."""
    if not isinstance(topic, str):
        raise TypeError(f"the topic is {type(topic).__name__}; it must be str")
    if partition is not None and type(partition) is not int:
        raise TypeError(f"the partition is {type(partition).__name__}; it must be int or None")
