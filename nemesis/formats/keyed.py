"""Which object an operation is about, where the file puts the key into the value: ``[key value]``.

Owns the rule by which such histories are told from those whose values are pairs for another reason, as ``[old new]`` of
a compare-and-set is. Source: the tuples of ``jepsen.independent``, which are written like any other vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import CAS, Event, EventColumns
from nemesis.formats.shapes import FETCH
from nemesis.formats.values import Tagged
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Value

ASKING_NOTHING = frozenset({"read", "get", "get-versioned", "delete", "dequeue", "acquire", "release"})
"""Operations whose invocations have no value but for a key."""


class KeyPairs(StrEnum):
    """Whether values are pairs of a key and a value."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


def split_keys(events: EventColumns, path: Path, asked: KeyPairs) -> tuple[EventColumns, bool]:
    """The events with their keys taken out of their values, where they are there, and whether they are.

    Raises HistoryError, also where nobody said whether they are and the values do not tell.
    """
    if asked is KeyPairs.NO or (asked is KeyPairs.AUTO and not are_key_pairs(events, path)):
        return events, False
    return events.with_keys(_split(event, path) for event in events), True


def are_key_pairs(events: Iterable[Event], path: Path) -> bool:
    """Whether the values of a history are pairs of a key and a value. Raises HistoryError where both may be.

    What asks nothing tells: a read of ``[key nil]`` has a key, and one of nil has none. Where there is neither,
    compare-and-sets of ``[[1 2] [3 4]]`` may be about pairs or about a key. All other pairs are values.
    """
    first: dict[Callable[[Event], bool], Event] = {}
    for event in events:
        if event.key is not None or event.f == FETCH:
            return False
        if event.type in (EventType.INVOKE, EventType.OK):
            first |= {sign: event for sign in _SIGNS if sign not in first and sign(event)}
    proof, against = first.get(_is_key_pair), first.get(_is_no_key_pair)
    unclear = proof if against is not None else first.get(_is_either)
    if against is not None and unclear is None and _is_pair in first:
        # A read that is asked something, which is no pair: a key of which the value was left out, perhaps.
        unclear = first.get(_asks_a_list)
    if unclear is not None and (proof is None or against is not None):
        problem = f"the value {excerpt(edn_text(unclear.value))} may have a key in it, or not"
        place = "" if against is None or against is unclear else f", and that of line {against.line} has none"
        refuse(path, unclear.line, problem + place, "say so with --key-pairs yes or --key-pairs no")
    return proof is not None


def _may_be_key_pair(event: Event) -> bool:
    pair = _pair(event.value)
    if pair is None:
        return event.type is EventType.OK and event.value is None and event.f not in ASKING_NOTHING
    return event.f != CAS or _pair(pair[1]) is not None


def _is_key_pair(event: Event) -> bool:
    pair = _pair(event.value)
    return pair is not None and _asks_nothing(event) and pair[1] is None


def _is_no_key_pair(event: Event) -> bool:
    return not _may_be_key_pair(event)


def _is_pair(event: Event) -> bool:
    return bool(_pair(event.value))


def _asks_a_list(event: Event) -> bool:
    return _asks_nothing(event) and isinstance(event.value, tuple)


def _is_either(event: Event) -> bool:
    return event.f == CAS and event.type is EventType.INVOKE and _pair(event.value) is not None


def _asks_nothing(event: Event) -> bool:
    return event.type is EventType.INVOKE and event.f in ASKING_NOTHING


def _split(event: Event, path: Path) -> tuple[Value, Value]:
    """The key and the value."""
    pair = _pair(event.value)
    if event.key is not None:
        refuse(path, event.line, "the event has a key and a pair in its value", "leave one of them out")
    if pair is not None:
        return pair
    if event.type in (EventType.FAIL, EventType.INFO) or _may_be_key_pair(event):
        return None, None
    problem = f"the value is {excerpt(edn_text(event.value))}, which is no pair of a key and a value"
    return refuse(path, event.line, problem, "give [key value] throughout, or --key-pairs no")


def _pair(value: Value) -> tuple[Value, Value] | None:
    plain = value.value if isinstance(value, Tagged) and value.tag.endswith("tuple") else value
    return (plain[0], plain[1]) if isinstance(plain, tuple) and len(plain) == 2 else None


_SIGNS: tuple[Callable[[Event], bool], ...] = (_is_key_pair, _is_no_key_pair, _is_either, _is_pair, _asks_a_list)
"""What the first event of each kind tells of whether values are pairs of a key and a value."""
