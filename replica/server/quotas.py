"""How fast an identity may write, read and ask: a bucket of tokens for each of these, and how much of it is owed.

Owns the account of each identity. A second's worth may be taken at once; what is taken beyond is owed until time has
paid for it. Limits are looked up each time, so that new ones hold at once. Time is handed in, and nobody waits here.
Source: KIP-13, KIP-124, and KIP-599 for buckets in the place of windows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from msgspec import Struct

from replica.core.limits import LimitTable

BUCKETS_MAX = 30_000
"""How many buckets are kept at once: addresses come from callers, who may have many. Beyond it, the one that was used
longest ago begins anew."""


class Quota(StrEnum):
    """What is limited, by the field of ``Limits``."""

    PRODUCER_BYTES = "producer_byte_rate"
    CONSUMER_BYTES = "consumer_byte_rate"
    REQUESTS = "request_rate"


class Identity(NamedTuple):
    """Whose account it is: a principal's, or, of those who say no name, that of each ``address``."""

    principal: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.principal} at {self.address}" if self.address else self.principal


class TokenBucket(Struct, frozen=True):
    """What may be taken at ``at_ms`` without owing anything; below 0, what is owed."""

    tokens: float
    at_ms: int

    def filled(self, rate: int, now_ms: int) -> TokenBucket:
        """The bucket after so much time. It holds what comes in a second."""
        return TokenBucket(min(rate, self.tokens + rate * (now_ms - self.at_ms) / 1000), now_ms)

    def taken(self, amount: int) -> TokenBucket:
        """The bucket without ``amount``, be it there or not."""
        return TokenBucket(self.tokens - amount, self.at_ms)

    def owed_ms(self, rate: int) -> int:
        """How long until nothing is owed."""
        return ceil(-self.tokens * 1000 / rate) if self.tokens < 0 else 0


class Quotas:
    """The accounts of all identities, by the limits that ``table`` tells now."""

    def __init__(self, table: Callable[[], LimitTable]) -> None:
        self._table = table
        self._buckets: OrderedDict[tuple[Identity, Quota], TokenBucket] = OrderedDict()

    @property
    def are_set(self) -> bool:
        """Whether anybody has a limit; otherwise nothing need be counted."""
        return not self._table().is_empty

    def take(self, identity: Identity, quota: Quota, amount: int, now_ms: int) -> None:
        """Take from a bucket, be it there or not."""
        rate = self._rate(identity, quota)
        if rate is not None:
            key = identity, quota
            bucket = self._buckets.pop(key, TokenBucket(rate, now_ms))
            self._buckets[key] = bucket.filled(rate, now_ms).taken(amount)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)

    def owed_ms(self, identity: Identity, quotas: Iterable[Quota], now_ms: int) -> tuple[int, Quota | None]:
        """How long until an identity owes nothing of these, and of which it owes longest."""
        most_ms, which = 0, None
        for quota in quotas:
            rate, bucket = self._rate(identity, quota), self._buckets.get((identity, quota))
            if rate is not None and bucket is not None:
                owed_ms = bucket.filled(rate, now_ms).owed_ms(rate)
                if owed_ms > most_ms:
                    most_ms, which = owed_ms, quota
        return most_ms, which

    def _rate(self, identity: Identity, quota: Quota) -> int | None:
        rate: int | None = getattr(self._table().limits_of(identity.principal), quota)
        return rate
