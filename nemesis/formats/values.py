"""The values that operations carry, as hashable Python values: what is equal here is equal to the kernels.

Owns the forms that Python has no value of its own for, and what becomes of what a JSON or Arrow reader hands out.
Lists and vectors are tuples, sets are frozensets; numbers, texts and None are themselves. Booleans are not Python's,
where ``True == 1``: a register that was written ``true`` and read as ``1`` would look right. Source: the EDN format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from nemesis.formats.limits import DIGITS_MAX, NESTING_MAX, STRING_CHARS_MAX
from nemesis.linearizability.operations import Value


class Truth(Enum):
    """A boolean that equals no number."""

    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True, slots=True)
class Keyword:
    """EDN's ``:name``; ``name`` is without the colon."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """EDN's bare ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """EDN's ``#tag value``, of a tag that means nothing here; ``tag`` is without the hash."""

    tag: str
    value: Value


@dataclass(frozen=True, slots=True)
class MapValue:
    """A map; the order of its entries does not count. ``items`` has one entry for each key."""

    items: frozenset[tuple[Value, Value]]

    @classmethod
    def of(cls, entries: Iterable[tuple[Value, Value]]) -> MapValue:
        """The map of these entries."""
        return cls(frozenset(entries))

    def as_dict(self) -> dict[Value, Value]:
        """The entries by key."""
        return dict(self.items)


_TOO_MANY_DIGITS = 10**DIGITS_MAX


class ValueTooDeepError(ValueError):
    """A value lies deeper in others than ``NESTING_MAX``."""


class BadValueError(ValueError):
    """A value that no history has; the message says which."""


def freeze(value: object, depth: int = 0) -> Value:
    """The value of what a JSON or Arrow reader handed out. Raises BadValueError and ValueTooDeepError."""
    match value:
        case None:
            return None
        case str():
            return checked_text(value)
        case bool():
            return Truth.TRUE if value else Truth.FALSE
        case int():
            return checked_int(value)
        case float():
            return checked_float(value)
        case list() | tuple():
            return tuple(freeze(item, _below(depth)) for item in value)
        case Mapping():
            return MapValue.of((freeze(key), freeze(item, _below(depth))) for key, item in value.items())
    raise BadValueError(f"a value of type {type(value).__name__}")


def checked_int(value: int) -> int:
    """The number itself. Raises BadValueError where it has more than ``DIGITS_MAX`` digits."""
    if not -_TOO_MANY_DIGITS < value < _TOO_MANY_DIGITS:
        raise BadValueError(f"a number of more than {DIGITS_MAX} digits (DIGITS_MAX)")
    return value


def checked_float(value: float) -> float:
    """The number itself. Raises BadValueError where it is none, or infinite."""
    if not math.isfinite(value):
        raise BadValueError(f"{value} where a number belongs")
    return value


def checked_text(value: str) -> str:
    """The text itself. Raises BadValueError where it is too long, or holds half a surrogate pair."""
    if len(value) > STRING_CHARS_MAX:
        raise BadValueError(f"a text of {len(value)} characters, more than STRING_CHARS_MAX, {STRING_CHARS_MAX}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise BadValueError("a text with half a surrogate pair, which is no character")
    return value


def _below(depth: int) -> int:
    if depth >= NESTING_MAX:
        raise ValueTooDeepError(f"lists lie deeper in one another than NESTING_MAX, {NESTING_MAX}")
    return depth + 1
