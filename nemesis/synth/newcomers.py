"""Values and processes that nobody was given before: what every world that is made up hands out.

Owns the two counters. A value that is new and a process that nobody has heard of are what makes a planted anomaly one
that no order of operations explains.
"""

from __future__ import annotations


class Newcomers:
    """Counts values from 1, and processes from behind those that there are at first."""

    def __init__(self, processes: int) -> None:
        self._next_process = processes
        self._number = 0

    def fresh(self) -> int:
        """A value that was never used."""
        self._number += 1
        return self._number

    def new_process(self) -> int:
        """A process that nobody has heard of."""
        self._next_process += 1
        return self._next_process - 1
