"""A producer's settings, with Kafka's names and defaults, and what must hold between them.

Source: Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from replica.client.producer_values import MAX_IN_FLIGHT_OF_IDEMPOTENT, AccumulatorConfig
from replica.records import Compression


class Acks(IntEnum):
    """When a write counts as done: at once, when its leader has appended it (flushed or not), or when it is
    committed."""

    NONE = 0
    LEADER = 1
    ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """How a producer batches, sends and retries.

    ``enable_idempotence`` writes each record at most once and in order, whatever is lost on the way; by default it is
    on with ``acks`` ALL, and it cannot be had without. ``max_in_flight_requests_per_connection`` counts batches of one
    partition. ``batch_size`` is the most that a batch takes, before compression; nothing is set aside for it, and no
    batch waits to be full while nothing is in flight. ``max_block_ms`` bounds how long a record waits for its topic to
    be known, and ``ready`` for room in the buffer; ``delivery_timeout_ms`` all that comes after, from a batch's first
    record on. A batch lingers for ``linger_ms`` only while another of its partition is in flight.
    """

    acks: Acks = Acks.ALL
    linger_ms: int = 5
    batch_size: int = 512 << 10
    buffer_memory: int = 32 << 20
    max_request_size: int = 1 << 20
    compression: Compression = Compression.NONE
    enable_idempotence: bool | None = None
    max_in_flight_requests_per_connection: int = MAX_IN_FLIGHT_OF_IDEMPOTENT
    max_block_ms: int = 60_000
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000

    def __post_init__(self) -> None:
        if self.enable_idempotence and self.acks is not Acks.ALL:
            raise ValueError(f"idempotence needs acks ALL, not {self.acks.name}; set one of the two otherwise")
        if self.max_block_ms <= 0 or self.request_timeout_ms <= 0:
            raise ValueError(
                f"max_block_ms ({self.max_block_ms}) and request_timeout_ms ({self.request_timeout_ms}) must be above 0"
            )
        if self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_OF_IDEMPOTENT:
            raise ValueError(
                f"max_in_flight_requests_per_connection is {self.max_in_flight_requests_per_connection}; it must be "
                f"at most {MAX_IN_FLIGHT_OF_IDEMPOTENT}"
            )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ValueError(
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) must be at least linger_ms + request_timeout_ms "
                f"({self.linger_ms} + {self.request_timeout_ms}), or no attempt has its time"
            )
        self.accumulator()

    @property
    def is_idempotent(self) -> bool:
        """Whether records are numbered."""
        return self.acks is Acks.ALL if self.enable_idempotence is None else self.enable_idempotence

    def accumulator(self) -> AccumulatorConfig:
        """The accumulator's share of the settings."""
        return AccumulatorConfig(
            linger_ms=self.linger_ms,
            batch_bytes=min(self.batch_size, self.max_request_size),
            record_bytes_max=self.max_request_size,
            buffer_bytes_max=self.buffer_memory,
            max_in_flight=self.max_in_flight_requests_per_connection,
            delivery_timeout_ms=self.delivery_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            enable_idempotence=self.is_idempotent,
            compression=self.compression,
        )
