"""Writing records: each call hands over one record and gets a future that tells where it stands.

Owns the calls; what a future says is one of three things, never two: a RecordMetadata (it is in the log),
NotWrittenError (it certainly is not), or OutcomeUnknownError (nobody can say). Batching is the accumulator's, sending
``sender``'s. Source: Kafka's ``KafkaProducer``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random

from replica.client.accumulator import RecordAccumulator, record_bytes_bound
from replica.client.clock import Clock, Deadline
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Closing, Connections
from replica.client.failures import ClusterUnreachableError, NotWrittenError, UnknownTopicError, WriteError
from replica.client.partitioner import Partitioner
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import BufferFullError, Ticket
from replica.client.sender import Sender
from replica.client.values import RecordMetadata
from replica.core.metadata.image import TopicImage
from replica.ids import TopicPartition
from replica.records import Header, check_record

OnDelivery = Callable[[RecordMetadata | WriteError], None]


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
        self._accumulator = RecordAccumulator(self._config.accumulator())
        self._partitioner = Partitioner(random or Random(), sticky_bytes=self._config.batch_size)
        self._sender = Sender(self._accumulator, self._view, self._config)
        self._bytes_since_pause = 0

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Hand over one record. Returns once it is in a batch; the future tells what becomes of it.

        ``send`` itself waits only for a topic that is not known yet and for room in the buffer, at most
        ``max_block_ms``, and raises NotWrittenError if that was in vain. Equal keys go to the same partition as long as
        the topic has as many partitions. ``on_delivery`` gets the record's outcome, also where the future is cancelled:
        that takes nothing back. Raises TypeError and ValueError for what no record can have, with nothing done.
        """
        self._sender.check_alive()
        deadline = self._view.deadline(self._config.max_block_ms)
        headers = tuple(headers)
        check_record(key, value, headers, timestamp_ms)
        _check_place(topic, partition)
        image = self._view.topic(topic) or await self._wait_topic(topic, deadline)
        size = record_bytes_bound(key, value, headers)
        await self._let_others_run(size)
        name = TopicPartition(topic, self._partition_of(image, partition, key, size))
        at_ms = self._view.clock.since_1970_ms() if timestamp_ms is None else timestamp_ms
        ticket = await self._append(name, value, key, headers, at_ms, deadline)
        future = self._sender.expect(ticket, name, at_ms)
        if on_delivery is None:
            return future
        future.add_done_callback(lambda done: on_delivery(_outcome(done)))
        cancellable = asyncio.shield(future)
        cancellable.add_done_callback(lambda done: done.cancelled() or done.exception())  # It is told by the callback.
        return cancellable

    async def flush(self) -> None:
        """Send all that was handed over without lingering, and wait until each record has its outcome."""
        await self._sender.flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush, for ``timeout_ms`` at most, give up what is left, and close the connections."""
        try:
            await self._sender.stop(timeout_ms)
        finally:
            await self._view.close()

    async def _let_others_run(self, size_bytes: int) -> None:
        """Pause for a moment once per batch: whoever sends in a loop would keep the sender from its work."""
        self._bytes_since_pause += size_bytes
        if self._bytes_since_pause >= self._config.batch_size:
            self._bytes_since_pause = 0
            await asyncio.sleep(0)

    async def _wait_topic(self, topic: str, deadline: Deadline) -> TopicImage:
        try:
            return await self._view.wait_topic(topic, deadline)
        except ClusterUnreachableError as error:
            raise NotWrittenError(f"{topic}: not written: {error}", error=error.error) from error

    def _partition_of(self, image: TopicImage, partition: int | None, key: bytes | None, size_bytes: int) -> int:
        if partition is None:
            led = [number for number, of in sorted(image.partitions.items()) if of.leader_id is not None]
            return self._partitioner.partition_of(
                image.name, key=key, size_bytes=size_bytes, partition_count=len(image.partitions), available=led
            )
        if partition not in image.partitions:
            raise UnknownTopicError(f"{image.name}-{partition}")
        return partition

    async def _append(
        self,
        name: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        headers: tuple[Header, ...],
        timestamp_ms: int,
        deadline: Deadline,
    ) -> Ticket:
        while True:
            self._sender.check_alive()
            try:
                return self._accumulator.append(
                    name,
                    value,
                    key=key,
                    headers=headers,
                    timestamp_ms=timestamp_ms,
                    now_ms=self._view.clock.now_ms(),
                )
            except BufferFullError:
                if deadline.is_over():
                    raise
                await self._sender.wait_room(deadline)


def _check_place(topic: object, partition: object) -> None:
    """Raise TypeError where a record can go nowhere: 0.0 is equal to 0, and no number of a partition."""
    if not isinstance(topic, str):
        raise TypeError(f"the topic is {type(topic).__name__}; it must be str")
    if partition is not None and type(partition) is not int:
        raise TypeError(f"the partition is {type(partition).__name__}; it must be int or None")


def _outcome(done: asyncio.Future[RecordMetadata]) -> RecordMetadata | WriteError:
    error = done.exception()
    if error is None:
        return done.result()
    assert isinstance(error, WriteError), error
    return error
