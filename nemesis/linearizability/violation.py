"""What the kernels without a search say: which operations cannot all be, and why.

Owns the value, and the error of a kernel that a history does not fit. The way from there to the shortest prefix that
fails is that of ``counterexample``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """``operations`` are indexes into the history that was judged; ``reason`` is one sentence."""

    operations: tuple[int, ...]
    reason: str


class InapplicableError(Exception):
    """This kernel cannot decide this history: another one must."""
