"""What can be said of a run or of a history in one word. Whoever judges says one of these, and nobody says another.

Owns the words; loads nothing. Source: the three-valued checkers of ``jepsen.checker``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What is known: all promises were kept, at least one was broken, or neither can be said for sure."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"

    @property
    def badness(self) -> int:
        """A violation that was found outweighs what is unknown, and that outweighs what is valid."""
        return (Verdict.VALID, Verdict.UNKNOWN, Verdict.INVALID).index(self)

    @classmethod
    def worst(cls, verdicts: Iterable[str]) -> Verdict:
        """The verdict on all of what these were given to; that on nothing is valid."""
        return max(map(cls, verdicts), key=lambda verdict: verdict.badness, default=cls.VALID)
