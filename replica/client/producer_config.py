"""A producer's settings, with Kafka's names and defaults, and what must hold between them.

Source: Kafka's ``ProducerConfig``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from replica.records import Compression

Serializer = Callable[[Any], bytes]
"""Makes bytes of a key or a value."""
MAX_IN_FLIGHT = 5
"""A leader remembers so many batches of a producer: with more in flight it could not tell each repetition."""


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
    partition; without idempotence order holds across retries only with one, and a write whose outcome is unknown is
    never repeated. ``batch_size`` is the most that a batch takes, before compression; nothing is set aside for it, and
    no batch waits to be full while nothing is in flight. ``max_block_ms`` bounds how long a record waits for its topic
    to be known, and ``ready`` for room in the buffer; ``delivery_timeout_ms`` all that comes after, from a batch's
    first record on. A batch lingers for ``linger_ms`` only while another of its partition is in flight.
    ``key_serializer`` and ``value_serializer`` make bytes of what ``send`` is given, but for None.
    """

    acks: Acks = Acks.ALL
    linger_ms: int = 5
    batch_size: int = 512 << 10
    buffer_memory: int = 32 << 20
    max_request_size: int = 1 << 20
    compression: Compression = Compression.NONE
    enable_idempotence: bool | None = None
    max_in_flight_requests_per_connection: int = MAX_IN_FLIGHT
    max_block_ms: int = 60_000
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None

    def __post_init__(self) -> None:
        if self.enable_idempotence and self.acks is not Acks.ALL:
            raise ValueError(f"idempotence needs acks ALL, not {self.acks.name}; set one of the two otherwise")
        if self.linger_ms < 0:
            raise ValueError(f"linger_ms is {self.linger_ms}; it must not be below 0")
        times = ("max_block_ms", "request_timeout_ms", "retry_backoff_ms", "retry_backoff_max_ms")
        for name in ("batch_size", "max_request_size", "max_in_flight_requests_per_connection", *times):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT:
            raise ValueError(
                f"max_in_flight_requests_per_connection is {self.max_in_flight_requests_per_connection}; it must be "
                f"at most {MAX_IN_FLIGHT}"
            )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ValueError(
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) must be at least linger_ms + request_timeout_ms "
                f"({self.linger_ms} + {self.request_timeout_ms}), or no attempt has its time"
            )
        if self.max_request_size > self.buffer_memory:
            raise ValueError(
                f"max_request_size ({self.max_request_size}) must be at most buffer_memory ({self.buffer_memory}), or "
                "a record could fit nowhere"
            )

    @property
    def is_idempotent(self) -> bool:
        """Whether records are numbered."""
        return self.acks is Acks.ALL if self.enable_idempotence is None else self.enable_idempotence

    @property
    def serializes(self) -> bool:
        """Whether keys or values are anything but bytes."""
        return self.key_serializer is not None or self.value_serializer is not None

    def serialized(self, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """A record's key and value as bytes."""
        return _serialized(key, self.key_serializer), _serialized(value, self.value_serializer)

    @property
    def batch_bytes(self) -> int:
        """How large a batch gets, before compression; a record that is larger goes alone."""
        return min(self.batch_size, self.max_request_size)


def _serialized(content: Any, serializer: Serializer | None) -> Any:
    return content if content is None or serializer is None else serializer(content)
