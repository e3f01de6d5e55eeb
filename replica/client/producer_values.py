"""What goes into a producer's accumulator and what comes out, one frozen class each, and its limits.

Source of names and defaults: Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from replica.client.failures import NotWrittenError
from replica.ids import TopicPartition
from replica.records import Compression, RecordBatch

MAX_IN_FLIGHT_OF_IDEMPOTENT = 5
"""A leader remembers so many batches of a producer: with more in flight it could not tell each repetition."""

BatchId = NewType("BatchId", int)
"""One batch of one accumulator, from its first record until it is acknowledged or given up."""


class RecordTooLargeError(NotWrittenError):
    """The record alone would make a batch above the limit; it was not taken."""


class BufferFullError(NotWrittenError):
    """There is no room for the record until earlier ones are acknowledged or given up; it was not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatorConfig:
    """Limits of one producer. Sizes are of records before compression, estimated from above.

    ``delivery_timeout_ms`` counts from a batch's first record to the end of all attempts. Without idempotence a write
    whose outcome is unknown is never repeated, and order holds across retries only with one batch in flight.
    """

    linger_ms: int = 5
    batch_bytes: int = 16_384
    record_bytes_max: int = 1 << 20
    buffer_bytes_max: int = 32 << 20
    max_in_flight: int = MAX_IN_FLIGHT_OF_IDEMPOTENT
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    enable_idempotence: bool = True
    compression: Compression = Compression.NONE

    def __post_init__(self) -> None:
        if self.linger_ms < 0:
            raise ValueError(f"linger_ms is {self.linger_ms}; it must not be below 0")
        for name in ("batch_bytes", "max_in_flight", "retry_backoff_ms", "retry_backoff_max_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.enable_idempotence and self.max_in_flight > MAX_IN_FLIGHT_OF_IDEMPOTENT:
            raise ValueError(
                f"max_in_flight is {self.max_in_flight}; with idempotence it must not be above "
                f"{MAX_IN_FLIGHT_OF_IDEMPOTENT}, as many batches as a leader remembers"
            )
        if self.delivery_timeout_ms <= self.linger_ms:
            raise ValueError(
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) must be above linger_ms ({self.linger_ms}), "
                "or batches are given up before they are sent"
            )
        if not self.batch_bytes <= self.record_bytes_max <= self.buffer_bytes_max:
            raise ValueError(
                f"batch_bytes ({self.batch_bytes}), record_bytes_max ({self.record_bytes_max}) and buffer_bytes_max "
                f"({self.buffer_bytes_max}) must not fall, or a record could fit nowhere"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """What InitProducerId has given to this producer, and to no other."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyBatch:
    """A batch to send now. ``attempt`` counts from 1; the bytes of later attempts are the same.

    One exception: a batch that is certainly not written may come again with another epoch and sequence number.
    """

    batch_id: BatchId
    topic_partition: TopicPartition
    attempt: int
    batch: RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A batch that will not be sent again; ``may_be_written`` is false only if it certainly is not in the log."""

    batch_id: BatchId
    topic_partition: TopicPartition
    may_be_written: bool
