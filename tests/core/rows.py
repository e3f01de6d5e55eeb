"""One row of a table of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One question to one rule."""

    name: str
    asked: Mapping[str, Any]
    expected: Any
