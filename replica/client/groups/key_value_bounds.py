"""Which numbers a command of the key-value store can hold: checked before it is sent, since they have fixed widths.

Owns the lowest number of each field; the highest is that of 64 bits with a sign. What the store itself has against a
command (sizes, times to live, revisions that are not there) it says itself.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

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
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            content = getattr(value, name)
            if isinstance(content, int) and not LOWEST[name] <= content <= INT64_MAX:
                raise ValueError(f"{name} is {content}; it must be {LOWEST[name]} to {INT64_MAX}")
            check_numbers(content)
