"""Damage to one file of a replica's disk, as a value: what was really done to it.

Owns the words for how something can be damaged, and what. How it is done, and undone, is the business of ``spoiling``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
