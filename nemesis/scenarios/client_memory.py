"""What a client of a story remembers: which of its records were acknowledged, and what it has read where.

Owns two judgements that need nothing but that: a record that was acknowledged to everybody and is gone, and an offset
at which two reads found different records. They are told as facts, whatever the reason: an operator may have accepted
them. Knows nothing of replicas.
"""

from __future__ import annotations

from collections.abc import Iterable

from nemesis.scenarios.views import Cell

LOST = "LOST"
INCONSISTENT = "INCONSISTENT"


class ClientMemory:
    """Of one partition."""

    def __init__(self) -> None:
        self._acknowledged: dict[str, int] = {}
        self._read: dict[int, str] = {}

    def acknowledge(self, value: str, offset: int) -> None:
        """A record was acknowledged with ``acks=all``."""
        self._acknowledged[value] = offset

    def compare(self, cells: Iterable[Cell]) -> list[str]:
        """Take what a read has found; in words, what contradicts it. Each record is missed once."""
        found: list[str] = []
        for cell in cells:
            for value in self._missing(cell):
                del self._acknowledged[value]
                found.append(f"{LOST} {value}: it was acknowledged at offset {cell.offset}, where {cell.value} is")
            before = self._read.setdefault(cell.offset, cell.value)
            if before != cell.value:
                found.append(
                    f"{INCONSISTENT} at offset {cell.offset}: a consumer has read {before}, and now {cell.value}"
                )
        return found

    def _missing(self, cell: Cell) -> list[str]:
        """What was acknowledged at this offset and is not this record."""
        return [value for value, at in self._acknowledged.items() if at == cell.offset and value != cell.value]
