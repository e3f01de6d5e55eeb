"""How a bound is held against what arrives: a value that is above it is refused by name, with its size.

Owns the sentences and the check of each kind of value; which field has which bound is said beside the messages
(``replica.bounds``). A list is counted before anything is made of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, assert_never

from replica.bounds import LONG, Bound, Data, Entries, Number, Text
from replica.ids import BrokerEpoch, Offset, TopicId

_KINDS: dict[Any, Bound] = {int: Number(), str: Text(), bytes: Data(), Offset: LONG, TopicId: LONG, BrokerEpoch: LONG}
"""The bound of each kind of value, where the annotation of a field names no other; else that of what it is made of."""

_UTF_8_BYTES_MAX = 4
"""No character takes more: a short text need not be encoded to know that it is in its bound."""


class MalformedMessageError(ValueError):
    """The bytes are not the message they should be, or break a rule that no honest sender breaks; says which."""


def bound_of(hint: Any, named: tuple[Bound, ...]) -> Bound | None:
    """Find the bound of a scalar: the last that its annotation names, or that of its kind. A flag needs none."""
    kind = _KINDS.get(hint) or _KINDS.get(getattr(hint, "__supertype__", hint))
    return next((bound for bound in reversed(named) if type(bound) is type(kind)), kind)


def checked(name: str, bound: Bound | None) -> Callable[[Any], Any]:
    """Return what lets a value that was read pass, or raises MalformedMessageError."""
    match bound:
        case None:
            return lambda value: value
        case Number():
            return _checked_number(name, bound)
        case Text():
            return _checked_text(name, bound.bytes_max)
        case Data(bytes_max=count_max) | Entries(count_max=count_max):
            return _checked_size(name, count_max, "bytes" if isinstance(bound, Data) else "entries")
        case _:
            assert_never(bound)


def passes(bound: Bound, value: str) -> str:
    """Code that tells whether the value of this code, read once, is plainly within its bound; else ``checked`` says."""
    match bound:
        case Number(least=least, most=most):
            return f"{least} <= {value} <= {most}"
        case Text(bytes_max=bytes_max):
            return f"len({value}) <= {bytes_max // _UTF_8_BYTES_MAX}"
        case Data(bytes_max=count_max) | Entries(count_max=count_max):
            return f"len({value}) <= {count_max}"
        case _:
            assert_never(bound)


def written(bound: Bound | None) -> Callable[[str], str] | None:
    """Return what makes a value fit for the wire, if that takes anything: what is said to people is cut."""
    if isinstance(bound, Text) and bound.for_people:
        return lambda text: _cut(text, bound.bytes_max)
    return None


def _checked_number(name: str, bound: Number) -> Callable[[int], int]:
    least, most = bound.least, bound.most

    def check(number: int) -> int:
        if least <= number <= most:
            return number
        raise MalformedMessageError(f"{name} is {number}; it must be from {least} to {most}")

    return check


def _checked_text(name: str, bytes_max: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if len(text) * _UTF_8_BYTES_MAX <= bytes_max or (size := len(text.encode())) <= bytes_max:
            return text
        raise MalformedMessageError(_too_large(name, size, bytes_max, "bytes"))

    return check


def _checked_size(name: str, count_max: int, unit: str) -> Callable[[Sized], Sized]:
    def check(value: Sized) -> Sized:
        if len(value) <= count_max:
            return value
        raise MalformedMessageError(_too_large(name, len(value), count_max, unit))

    return check


def _too_large(name: str, size: int, most: int, unit: str) -> str:
    return f"{name} has {size} {unit}; it may have at most {most}"


def _cut(text: str, bytes_max: int) -> str:
    if len(text) * _UTF_8_BYTES_MAX <= bytes_max:
        return text
    return text.encode()[:bytes_max].decode(errors="ignore")
