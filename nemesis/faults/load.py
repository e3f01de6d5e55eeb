"""How many times the usual rate of operations is wanted, which bursts ask for and the clients of a run go by."""

from __future__ import annotations

from math import prod


class Load:
    """How many times the usual rate is wanted: what each burst that is open asks for, multiplied."""

    def __init__(self) -> None:
        self._factors: dict[int, int] = {}

    @property
    def factor(self) -> int:
        """1 while nothing is open."""
        return prod(self._factors.values())

    def raise_by(self, key: int, factor: int) -> None:
        """Ask for so many times as much, until ``lower(key)``."""
        self._factors[key] = factor

    def lower(self, key: int) -> None:
        """Take it back."""
        self._factors.pop(key, None)
