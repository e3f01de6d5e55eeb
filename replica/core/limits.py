"""How much of one replica a principal may have in a second: the limits, and the table that says whose they are.

Owns both as values: a table is replaced, never changed, so that whoever asks the newest one goes by it at once. Knows
neither where limits come from nor who counts. Source: Kafka's quotas of users (KIP-13, KIP-55, KIP-124).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Bytes that are written and read, and requests, in a second; absent: as much as it likes."""

    producer_byte_rate: int | None = None
    consumer_byte_rate: int | None = None
    request_rate: int | None = None

    def over(self, other: Limits) -> Limits:
        """These limits, and those of ``other`` where these say nothing."""
        pairs = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return Limits(**{name: getattr(other, name) if own is None else own for name, own in pairs})


UNLIMITED = Limits()


class LimitTable(Struct, frozen=True, kw_only=True):
    """Limits by principal, over those that hold for everybody."""

    default: Limits = UNLIMITED
    by_principal: Mapping[str, Limits] = MappingProxyType({})

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a limit, so that nothing need be counted."""
        return self.default == UNLIMITED and not self.by_principal

    def limits_of(self, principal: str) -> Limits:
        """What holds for one principal (``User:NAME``)."""
        own = self.by_principal.get(principal)
        return self.default if own is None else own.over(self.default)
