"""A producer's records on their way into batches: values in, batches out, time as a parameter.

Owns batching, the limit on memory, and the way from a batch to its partition's queue, where order and sequence numbers
are kept. Knows neither clock nor network: a driver asks ``deadline_ms`` when to come back, sends what ``drain`` gives,
and reports each attempt's end once. Source: Kafka's ``RecordAccumulator`` and ``Sender``.

    append -> Delivery        drain -> ReadyBatch, to be sent          expire -> GivenUp
    the end of each attempt:  on_written | on_retriable | on_out_of_order | on_refused

Every batch is either written or given up in the end, once. What is told of a batch after that is ignored: an answer
may come later than the delivery timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from replica.client.delivery import BatchDelivery, Delivery
from replica.client.partition_queue import PartitionQueue, QueuedBatch
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import (
    BatchId,
    BufferFullError,
    GivenUp,
    ProducerIdentity,
    ReadyBatch,
    RecordTooLargeError,
)
from replica.ids import TopicPartition
from replica.records import HEADER_BYTES, EncodedRecords, Header

RECORD_OVERHEAD_MAX = 36
"""Length, attributes, two deltas, three lengths: each varint at its longest, as none of them is known beforehand."""

HEADER_OVERHEAD_MAX = 10


def record_bytes_bound(key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> int:
    """Return how many bytes a record takes at most, before compression."""
    size = RECORD_OVERHEAD_MAX
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key)
    if not headers:
        return size
    return size + sum(HEADER_OVERHEAD_MAX + len(name.encode()) + len(content or b"") for name, content in headers)


class RecordAccumulator:
    """All batches of one producer. An idempotent one sends nothing before ``on_producer_id``."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._batch_bytes = config.batch_bytes
        self._has_room_up_to = config.buffer_memory - config.max_request_size
        self._identity: ProducerIdentity | None = None
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[PartitionQueue, None] = {}
        """Those that have batches, in the order in which they got the first: no others are looked at."""
        self._batches: dict[BatchId, QueuedBatch] = {}
        self._batch_ids = count()
        self._buffered_bytes = 0
        self.taken_bytes = 0
        """How many bytes were ever taken: it only grows."""

    @property
    def is_empty(self) -> bool:
        """Whether every record that was taken is written or given up."""
        return not self._batches

    @property
    def wants_producer_id(self) -> bool:
        """Whether batches wait for InitProducerId: at first, and when an epoch can grow no more."""
        return any(queue.wants_identity for queue in self._busy)

    @property
    def deadline_ms(self) -> int | None:
        """When to call ``drain`` and ``expire`` at the latest; absent if only an answer or a record can matter."""
        times = [time for queue in self._busy for time in (queue.send_at_ms, queue.expire_at_ms)]
        return min((time for time in times if time is not None), default=None)

    @property
    def has_room(self) -> bool:
        """Whether a record of any size that is allowed would be taken now."""
        return self._buffered_bytes <= self._has_room_up_to

    def append(
        self,
        queue: PartitionQueue,
        size: int,
        value: bytes | None,
        key: bytes | None,
        headers: tuple[Header, ...],
        timestamp_ms: int,
        now_ms: Callable[[], int],
    ) -> Delivery:
        """Take one record. ``timestamp_ms`` is its own, since 1970; ``now_ms`` reads the driver's clock.

        ``size`` is what ``record_bytes_bound`` says of it. Raises RecordTooLargeError, and BufferFullError, after which
        another try may succeed once a batch is settled.
        """
        batch = queue.open_batch
        if batch is None or batch.size_bytes + size > self._batch_bytes:
            batch = self._open(queue, size, now_ms())
        else:
            self.reserve(size)
        batch.size_bytes += size
        position = len(batch.values)
        batch.values.append(value)
        if key is not None:
            batch.keys[position] = key
        if headers:
            batch.headers[position] = headers
        batch.delivery.timestamps_ms.append(timestamp_ms)
        if batch.size_bytes >= self._batch_bytes:
            queue.close()
        return Delivery(batch.delivery, position)

    def append_records(self, queue: PartitionQueue, records: EncodedRecords, now_ms: int) -> BatchDelivery:
        """Take records that are encoded already, as a batch of their own. Raises as ``append``."""
        batch = self._open(queue, len(records.body), now_ms)
        batch.records, batch.size_bytes = records, HEADER_BYTES + len(records.body)
        batch.delivery.timestamps_ms.append(records.base_timestamp_ms)
        queue.close()
        return batch.delivery

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether a batch of so many bytes of records would be taken now."""
        return self._buffered_bytes + HEADER_BYTES + size_bytes <= self._config.buffer_memory

    def flush(self) -> None:
        """Let all that was taken so far go out without lingering."""
        for queue in self._busy:
            queue.close()

    def drain(self, now_ms: int) -> tuple[ReadyBatch, ...]:
        """Return every batch that is to be sent now, in order within each partition; they count as in flight."""
        ready = []
        for queue in self._busy:
            while (send_at_ms := queue.send_at_ms) is not None and send_at_ms <= now_ms:
                ready.append(queue.send())
        return tuple(ready)

    def expire(self, now_ms: int) -> tuple[GivenUp, ...]:
        """Give up every batch whose delivery timeout is over, sent or not."""
        given_up = [over for queue in self._busy for over in queue.expire(now_ms)]
        for over in given_up:
            self._forget(over.batch_id)
        return tuple(given_up)

    def on_producer_id(self, identity: ProducerIdentity) -> None:
        """InitProducerId has answered: number what waits, and all partitions to come."""
        self._identity = identity
        for queue in self._queues.values():
            queue.adopt(identity)

    def on_written(self, batch_id: BatchId) -> None:
        """The attempt ended well: the batch is in the log, now or from an earlier attempt."""
        batch = self._answered(batch_id)
        if batch is not None:
            self.queue(batch.delivery.topic_partition).on_written(batch)
            self._forget(batch_id)

    def on_retriable(self, batch_id: BatchId, *, may_be_written: bool, now_ms: int) -> GivenUp | None:
        """The attempt failed in a way that passes. ``may_be_written`` tells a lost answer from a definite refusal."""
        batch = self._answered(batch_id)
        if batch is None:
            return None
        queue = self.queue(batch.delivery.topic_partition)
        return self._settled(queue.on_retriable(batch, may_be_written=may_be_written, now_ms=now_ms))

    def on_out_of_order(self, batch_id: BatchId, *, now_ms: int) -> GivenUp | None:
        """The leader answered OUT_OF_ORDER_SEQUENCE_NUMBER."""
        batch = self._answered(batch_id)
        if batch is None:
            return None
        return self._settled(self.queue(batch.delivery.topic_partition).on_out_of_order(batch, now_ms=now_ms))

    def on_refused(self, batch_id: BatchId, *, may_be_written: bool) -> GivenUp | None:
        """The attempt failed for good; ``may_be_written`` speaks of this attempt alone."""
        batch = self._answered(batch_id)
        if batch is None:
            return None
        return self._settled(
            self.queue(batch.delivery.topic_partition).on_refused(batch, may_be_written=may_be_written)
        )

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition, made once."""
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = PartitionQueue(topic_partition, self._config, self._identity)
            self._queues[topic_partition] = queue
        return queue

    def check_size(self, size_bytes: int) -> None:
        """Raise RecordTooLargeError for a record that makes a batch above the limit."""
        if HEADER_BYTES + size_bytes > self._config.max_request_size:
            limit_bytes = self._config.max_request_size - HEADER_BYTES
            raise RecordTooLargeError(f"a record of {size_bytes} bytes is above {limit_bytes}")

    def reserve(self, size_bytes: int) -> None:
        """Count so many bytes as buffered, unless they are too many: BufferFullError."""
        if self._buffered_bytes + size_bytes > self._config.buffer_memory:
            raise BufferFullError(
                f"{self._buffered_bytes} of {self._config.buffer_memory} bytes wait to be written; no room for "
                f"{size_bytes} more"
            )
        self._buffered_bytes += size_bytes
        self.taken_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give up what was reserved."""
        self._buffered_bytes -= size_bytes
        assert self._buffered_bytes >= 0, f"{self._buffered_bytes} bytes buffered"

    def _open(self, queue: PartitionQueue, size_bytes: int, now_ms: int) -> QueuedBatch:
        """Begin a batch for a record of this size, with room for both."""
        self.check_size(size_bytes)
        self.reserve(HEADER_BYTES + size_bytes)
        batch_id = BatchId(next(self._batch_ids))
        delivery = BatchDelivery(batch_id, queue.topic_partition)
        batch = QueuedBatch(batch_id=batch_id, created_ms=now_ms, delivery=delivery)
        queue.open(batch)
        self._batches[batch_id] = batch
        self._busy[queue] = None
        return batch

    def _answered(self, batch_id: BatchId) -> QueuedBatch | None:
        """Return the batch if it is in flight: it may have been given up meanwhile."""
        batch = self._batches.get(batch_id)
        return batch if batch is not None and batch.is_in_flight else None

    def _settled(self, given_up: GivenUp | None) -> GivenUp | None:
        if given_up is not None:
            self._forget(given_up.batch_id)
        return given_up

    def _forget(self, batch_id: BatchId) -> None:
        batch = self._batches.pop(batch_id)
        self.release(batch.size_bytes)
        queue = self.queue(batch.delivery.topic_partition)
        if queue.is_empty:
            self._busy.pop(queue, None)  # Several of its batches may end together.
