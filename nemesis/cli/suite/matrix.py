"""Every combination of a suite's axes with every seed, in the order of the file, seeds last.

Owns the order and the names. Values only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nemesis.cli.suite.document import Suite

RUNS_MAX = 100_000
SEED_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run: ``combination`` names what it shares with its other seeds, ``settings`` are all of it."""

    combination: str
    seed: int
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What tells it from all others of its suite."""
        return f"{self.combination}, seed {self.seed}"


def cells_of(suite: Suite, random: Random) -> Iterator[Cell]:
    """One round of the suite; where it names no seeds, each run gets one from ``random``."""
    for values in itertools.product(*suite.axes.values()):
        chosen = dict(zip(suite.axes, values, strict=True))
        for seed in suite.seeds or (random.getrandbits(SEED_BITS),):
            settings = {**suite.options, **chosen, "seed": seed}
            yield Cell(combination=_named(chosen) or suite.name, seed=seed, settings=settings)


def count_of(suite: Suite) -> int:
    """How many runs one round has."""
    count = max(1, len(suite.seeds))
    for values in suite.axes.values():
        count *= len(values)
    return count


def _named(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in chosen.items())


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
