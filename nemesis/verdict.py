"""What can be said of a run or of a history in one word. Whoever judges says one of these, and nobody says another.

Owns the words; loads nothing. Source: the three-valued checkers of ``jepsen.checker``.
"""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What is known: all promises were kept, at least one was broken, or neither can be said for sure."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
