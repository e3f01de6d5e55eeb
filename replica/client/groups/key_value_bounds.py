"""Which numbers a command of the key-value store can hold: checked before it is sent, since they have fixed widths.

Owns the lowest number of each field; the highest is that of 64 bits with a sign. What the store itself has against a
command (sizes, times to live, revisions that are not there) it says itself.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from replica.encoding import INT64_MAX, INT64_MIN

LOWEST = {
    "revision": 1,
    "from_revision": 1,
    "limit": 1,
    "lease_id": 1,
    "mod_revision": 0,
    "number": 0,
    "ttl_ms": 0,
    "delta": INT64_MIN,
}


def check_numbers(value: Any) -> None:
    """Raise ValueError for a command or question with a number that cannot be written down."""
    if isinstance(value, tuple):
        for each in value:
            check_numbers(each)
    elif is_dataclass(value):
        for field in fields(value):
            content = getattr(value, field.name)
            if isinstance(content, int) and not LOWEST[field.name] <= content <= INT64_MAX:
                raise ValueError(f"{field.name} is {content}; it must be {LOWEST[field.name]} to {INT64_MAX}")
            check_numbers(content)
