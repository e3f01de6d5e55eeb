"""Damage to one file of a disk, a real one or one of the simulator, as a value: what was really done to it.

Owns the words for how something can be damaged, and what becomes of bytes by each. Which bytes of a replica's files,
and how that is undone, is the business of ``spoiling``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

SECTOR_BYTES = 512
CUT = "cut"
WAYS = ("flip", "zero", "misdirect", CUT)
"""A bit flipped, a sector zeroed or overwritten by another one, the end cut off."""


class DiskPart(StrEnum):
    """Which files of a disk: of a log, a snapshot of one, or the small ones that say what is promised."""

    LOG = "log"
    SNAPSHOT = "snapshot"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """``file`` is relative to the data directory and had ``size_bytes``. From ``position`` on ``changed_bytes`` were
    changed, or cut off; of one byte that was changed, what it ``was`` and what it is ``now``."""

    file: str
    how: str
    position: int
    changed_bytes: int
    size_bytes: int
    was: int | None = None
    now: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The same for the history, without what is absent."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


def spoiled(how: str, content: bytes, start: int, dice: Random) -> bytes:
    """The content with the sector at ``start`` spoiled, or cut off within it; it may happen to be the same."""
    end = min(start + SECTOR_BYTES, len(content))
    match how:
        case "flip":
            position = dice.randrange(start, end)
            return content[:position] + bytes([content[position] ^ 1 << dice.randrange(8)]) + content[position + 1 :]
        case "zero":
            return content[:start] + bytes(end - start) + content[end:]
        case "misdirect":
            source = dice.randrange(0, len(content) - (end - start) + 1)
            return content[:start] + content[source : source + end - start] + content[end:]
        case "cut":
            return content[: dice.randrange(start, end)]
        case _:
            raise ValueError(f"{how!r} is no damage: give flip, zero, misdirect or cut")
