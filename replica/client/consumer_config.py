"""A consumer's settings, with Kafka's names and defaults. Source: Kafka's ``ConsumerConfig``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replica.client.reading import OffsetReset
from replica.client.values import ConsumerRecord

Deserializer = Callable[[bytes], Any]
"""Makes a key or a value of bytes."""
FETCH_MAX_WAIT_MS = 500
IDLE_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """How a consumer reads.

    ``auto_offset_reset`` says where to begin without a position and after one that is out of range; after a truncation
    it allows to go back to where the log was cut. NONE raises in all three cases. ``client_rack`` has records read from
    an in-sync follower in the same rack, which the leader chooses, where that is in another one.

    ``fetch_max_wait_ms`` is how long a broker may hold back what there is for want of ``fetch_min_bytes``: by default
    Kafka's 500. Where a single byte is enough nothing is held back, and a consumer that has read everything asks anew
    every 30 s only: a thousand of them are no load.

    ``key_deserializer`` and ``value_deserializer`` make what records have as ``key`` and ``value`` of their bytes,
    where there are any; what they raise, ``poll`` raises, and stays in front of that record. Columns stay bytes.
    """

    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    fetch_max_wait_ms: int | None = None
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 << 20
    max_partition_fetch_bytes: int = 1 << 20
    max_poll_records: int = 500
    client_rack: str | None = None
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    def __post_init__(self) -> None:
        for name in ("fetch_min_bytes", "fetch_max_bytes", "max_partition_fetch_bytes", "max_poll_records"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.fetch_max_wait_ms is not None and self.fetch_max_wait_ms < 0:
            raise ValueError(f"fetch_max_wait_ms is {self.fetch_max_wait_ms}; it must not be below 0")

    def deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        """The same record with the key and the value that its bytes mean."""
        key, value = record.key, record.value
        if self.key_deserializer is not None and key is not None:
            key = self.key_deserializer(key)
        if self.value_deserializer is not None and value is not None:
            value = self.value_deserializer(value)
        return record._replace(key=key, value=value)

    @property
    def deserializes(self) -> bool:
        """Whether records have anything but bytes."""
        return self.key_deserializer is not None or self.value_deserializer is not None

    @property
    def wait_ms(self) -> int:
        """How long a fetch waits at a broker."""
        if self.fetch_max_wait_ms is not None:
            return self.fetch_max_wait_ms
        return IDLE_WAIT_MS if self.fetch_min_bytes == 1 else FETCH_MAX_WAIT_MS
