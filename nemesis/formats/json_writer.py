"""Events as JSON Lines: one object a line, with the names that ``json_lines`` reads.

Owns what becomes of values that JSON has none for: keywords and symbols are texts, sets are lists, a tag is dropped.
What JSON has comes back equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import TextIO

from nemesis.formats.edn_text import edn_text
from nemesis.formats.events import Event
from nemesis.formats.values import Keyword, MapValue, Symbol, Tagged, Truth
from nemesis.linearizability.operations import Value


def write_json_lines(events: Iterable[Event], out: TextIO) -> int:
    """Write one object a line; returns how many. Events without an index get their place as one."""
    written = 0
    for place, event in enumerate(events):
        out.write(json.dumps(json_fields(event, place), separators=(",", ":")) + "\n")
        written += 1
    return written


def json_fields(event: Event, place: int) -> dict[str, object]:
    """One event as the fields of an object."""
    fields: dict[str, object] = {
        "index": place if event.index is None else event.index,
        "process": json_value(event.process),
        "type": event.type.value,
        "f": event.f,
        "key": json_value(event.key),
        "value": json_value(event.value),
    }
    if event.time is not None:
        fields["time"] = event.time
    if event.error is not None:
        fields["error"] = json_value(event.error)
    return fields | {name: json_value(value) for name, value in sorted(event.extra.items())}


def json_value(value: Value) -> object:
    """The value as what ``json`` writes."""
    match value:
        case Truth():
            return value is Truth.TRUE
        case Decimal():
            return float(value)
        case tuple():
            return [json_value(item) for item in value]
        case frozenset():
            return [json_value(item) for item in sorted(value, key=edn_text)]
        case MapValue():
            entries = sorted(value.items, key=lambda entry: edn_text(entry[0]))
            return {key if isinstance(key, str) else edn_text(key): json_value(item) for key, item in entries}
        case Keyword() | Symbol():
            return value.name
        case Tagged():
            return json_value(value.value)
    return value
