"""The workloads' client of Kafka, by Kafka's own client library for Python.

Owns the form of values and the translation of delivery reports into *definitely not done* and *unknown*. Each process
has a producer and a consumer of its own. The library sends again by itself, within the time of one operation; what it
gives up may have been written at any of its attempts, so that only what was never handed to it is certain not to be.

A poll seeks first and then takes what one read of the leader brings: records that the library had fetched ahead of time
would be recorded as read when they were handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from logging import NullHandler, getLogger
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from nemesis.cluster.system import Appended, Polled
from nemesis.cluster.topic_client import ClientOptions, decode_value, encode_value, named
from nemesis.errors import NotDoneError, UnknownOutcomeError

POLLED_MAX = 500
"""Records of one poll."""
POLL_WAIT_S = 0.1
_LOGGER = getLogger("nemesis.kafka")
_LOGGER.addHandler(NullHandler())
_LOGGER.propagate = False
ResultT = TypeVar("ResultT")


class KafkaClient:
    """One process's client. ``addresses`` are those of all brokers, ``options`` how it writes."""

    def __init__(self, addresses: Sequence[str], options: ClientOptions) -> None:
        common = _common(addresses, options)
        self._timeout_s = options.client_timeout_ms / 1000
        self._producer = Producer({**common, **_of_producer(options)}, logger=_LOGGER)
        self._consumer = Consumer({**common, **_of_consumer()}, logger=_LOGGER)
        # The library waits in threads; one operation at a time needs one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-client")

    async def append(self, topic_partition: str, value: int) -> Appended:
        """Append one value."""
        return await self._in_thread(lambda: self._append(topic_partition, value))

    async def poll(self, topic_partition: str, offset: int) -> Polled:
        """Read on from ``offset``, of whoever leads."""
        return await self._in_thread(lambda: self._poll(topic_partition, offset))

    async def close(self) -> None:
        """Give the connections back; what was not answered stays unknown."""
        await self._in_thread(self._close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _append(self, topic_partition: str, value: int) -> Appended:
        name = named(topic_partition)
        reports: list[tuple[KafkaError | None, Message]] = []
        try:
            self._producer.produce(
                name.topic,
                encode_value(value),
                partition=name.partition,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
        except (BufferError, KafkaException) as error:
            raise NotDoneError(f"it was not handed over: {error}") from error
        # The library itself gives up at its delivery timeout; ours is for a library that does not.
        self._producer.flush(2 * self._timeout_s)
        if not reports:
            raise UnknownOutcomeError(f"no report within {2 * self._timeout_s} s")
        failure, message = reports[0]
        if failure is not None:
            raise UnknownOutcomeError(failure.str())
        offset = message.offset()
        return Appended(offset=offset if offset is not None and offset >= 0 else None, leader_epoch=None)

    def _poll(self, topic_partition: str, offset: int) -> Polled:
        name = named(topic_partition)
        where = TopicPartition(name.topic, name.partition, offset)
        try:
            self._consumer.assign([where])
            messages, end = self._read_once()
            _, high = self._consumer.get_watermark_offsets(where, cached=True)
        except KafkaException as error:
            raise NotDoneError(f"it cannot be read: {error}") from error
        records = tuple((_offset(message), decode_value(message.value())) for message in messages)
        following = records[-1][0] + 1 if records else offset
        known = end if end is not None else high if high >= following else None
        return Polled(records=records, high_watermark=known, next_offset=following, node=None)

    def _read_once(self) -> tuple[list[Message], int | None]:
        """The records up to the end of the log, which is told, or as many as one poll takes."""
        messages: list[Message] = []
        waited_s = 0.0
        while len(messages) < POLLED_MAX:
            message = self._consumer.poll(POLL_WAIT_S)
            if message is None:
                if messages:
                    break
                waited_s += POLL_WAIT_S
                if waited_s >= self._timeout_s:
                    raise NotDoneError(f"no answer within {self._timeout_s} s")
                continue
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return messages, _offset(message)
            else:
                raise NotDoneError(f"it cannot be read: {error.str()}")
        return messages, None

    def _close(self) -> None:
        self._producer.purge()
        self._producer.flush(0)
        self._consumer.close()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a record that was read stands somewhere"
    return offset


def _common(addresses: Sequence[str], options: ClientOptions) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(addresses),
        "socket.timeout.ms": max(1000, options.client_request_timeout_ms),
        "socket.connection.setup.timeout.ms": 1000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.fast.interval.ms": 100,
        "log_level": 0,
    }


def _of_producer(options: ClientOptions) -> dict[str, Any]:
    return {
        "acks": options.acks,
        "enable.idempotence": options.idempotence,
        "linger.ms": 0,
        "message.timeout.ms": options.client_timeout_ms,
        "request.timeout.ms": options.client_request_timeout_ms,
        "retries": 1000 if options.idempotence else 0,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 200,
    }


def _of_consumer() -> dict[str, Any]:
    return {
        "group.id": "nemesis",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": 20,
        "fetch.error.backoff.ms": 50,
        "check.crcs": True,
    }
