"""Values as JSON, as ``json_lines`` reads them.

Owns what becomes of values that JSON has none for: keywords and symbols are texts, sets are lists, a tag is dropped.
What JSON has comes back equal.
"""

from __future__ import annotations

from decimal import Decimal

from nemesis.formats.edn_text import edn_text
from nemesis.formats.values import Keyword, MapValue, Symbol, Tagged, Truth
from nemesis.linearizability.operations import Value


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
