"""Every combination of a sweep's axes with every seed, in the order of the file, seeds last.

Owns the order and the names. Values only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nemesis.cli.soak.document import Sweep

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
        """What tells it from all others of its sweep."""
        return f"{self.combination}, seed {self.seed}"


def cells_of(sweep: Sweep, random: Random) -> Iterator[Cell]:
    """One round of the sweep; seeds that it does not name are drawn from ``random`` for each combination."""
    for values in itertools.product(*sweep.axes.values()):
        chosen = dict(zip(sweep.axes, values, strict=True))
        for seed in (*sweep.seeds, *(random.getrandbits(SEED_BITS) for _ in range(sweep.drawn))):
            settings = {**sweep.options, **chosen, "seed": seed}
            yield Cell(combination=_named(chosen) or sweep.name, seed=seed, settings=settings)


def count_of(sweep: Sweep) -> int:
    """How many runs one round has."""
    count = len(sweep.seeds) + sweep.drawn
    for values in sweep.axes.values():
        count *= len(values)
    return count


def _named(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in chosen.items())


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
