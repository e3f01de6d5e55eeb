"""Which object an operation is about, where the file puts the key into the value: ``[key value]``.

Owns the rule by which such histories are told from those whose values are pairs for another reason, as ``[old new]`` of
a compare-and-set is. Source: the tuples of ``jepsen.independent``, which are written like any other vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import CAS, Event
from nemesis.formats.shapes import FETCH
from nemesis.formats.values import Tagged
from nemesis.history.events import EventType
from nemesis.linearizability.operations import Value


class KeyPairs(StrEnum):
    """Whether values are pairs of a key and a value."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


def split_keys(events: Sequence[Event], path: Path, asked: KeyPairs) -> tuple[Event, ...]:
    """The events with their keys taken out of their values, where they are there. Raises HistoryError."""
    if asked is KeyPairs.NO or (asked is KeyPairs.AUTO and not are_key_pairs(events)):
        return tuple(events)
    return tuple(_split(event, path) for event in events)


def are_key_pairs(events: Sequence[Event]) -> bool:
    """Whether the values of a history look like pairs of a key and a value.

    All invocations and successes must have a pair, those of a compare-and-set one with a pair inside; and one of them
    must be what a plain value never is: ``[key nil]`` of a read, or ``[key [old new]]``. A history of compare-and-sets
    alone, all of them ``[old new]``, has only pairs too, and a fetch asks for ``[offset limit]``.
    """
    if any(event.key is not None or event.f == FETCH for event in events):
        return False
    sure = [event for event in events if event.type in (EventType.INVOKE, EventType.OK)]
    return all(_may_be_key_pair(event) for event in sure) and any(_is_key_pair(event) for event in sure)


def _may_be_key_pair(event: Event) -> bool:
    pair = _pair(event.value)
    return pair is not None and (event.f != CAS or _pair(pair[1]) is not None)


def _is_key_pair(event: Event) -> bool:
    pair = _pair(event.value)
    return pair is not None and event.type is EventType.INVOKE and (event.f == CAS or pair[1] is None)


def _split(event: Event, path: Path) -> Event:
    pair = _pair(event.value)
    if event.key is not None:
        refuse(path, event.line, "the event has a key and a pair in its value", "leave one of them out")
    if pair is not None:
        return replace(event, key=pair[0], value=pair[1])
    if event.type in (EventType.FAIL, EventType.INFO):
        return replace(event, value=None)
    problem = f"the value is {excerpt(edn_text(event.value))}, which is no pair of a key and a value"
    return refuse(path, event.line, problem, "give [key value] throughout, or --key-pairs no")


def _pair(value: Value) -> tuple[Value, Value] | None:
    plain = value.value if isinstance(value, Tagged) and value.tag.endswith("tuple") else value
    return (plain[0], plain[1]) if isinstance(plain, tuple) and len(plain) == 2 else None
