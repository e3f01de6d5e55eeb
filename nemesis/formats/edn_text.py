"""Values as EDN text, for files and for messages.

Owns how each value is written; what ``edn`` reads back is equal. Source: the EDN format's specification.
"""

from __future__ import annotations

import re
from decimal import Decimal

from nemesis.formats.values import Keyword, MapValue, Symbol, Tagged, Truth
from nemesis.linearizability.operations import Value

_LONG_MAX = 2**63
_PLAIN_NAME = re.compile(r"[A-Za-z*!_?$%&=<>][A-Za-z0-9*!_?$%&=<>.+/-]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]')


def name_of(word: str) -> Value:
    """The word as a keyword, or as a text where EDN has no such keyword."""
    return Keyword(word) if _PLAIN_NAME.fullmatch(word) else word


def edn_text(value: Value) -> str:
    """One value on one line. Elements of sets and entries of maps are sorted by how they are written."""
    match value:
        case None:
            return "nil"
        case Truth():
            return value.value
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value}M"
        case int():
            return str(value) if -_LONG_MAX <= value < _LONG_MAX else f"{value}N"
        case float():
            return repr(value)
        case str():
            return '"' + _TO_ESCAPE.sub(_escaped, value) + '"'
        case tuple():
            return "[" + " ".join(edn_text(item) for item in value) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(edn_text(item) for item in value)) + "}"
        case MapValue():
            entries = sorted(f"{edn_text(key)} {edn_text(item)}" for key, item in value.items)
            return "{" + ", ".join(entries) + "}"
        case Keyword() | Symbol():
            return f":{value.name}" if isinstance(value, Keyword) else value.name
        case Tagged():
            return f"#{value.tag} {edn_text(value.value)}"
    raise AssertionError(f"no reader makes a {type(value).__name__}: {value!r}")


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"
