"""The first of several deadlines, some of which there may not be. It is asked for after every step."""

from __future__ import annotations


def earliest(*deadlines_ms: int | None) -> int | None:
    """Name the first of these deadlines; absent where there is none of them."""
    first: int | None = None
    for deadline_ms in deadlines_ms:
        if deadline_ms is not None and (first is None or deadline_ms < first):
            first = deadline_ms
    return first
