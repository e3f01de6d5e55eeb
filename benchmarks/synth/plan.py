"""What is to be made up.

Owns the parameters with their bounds, and the choice of which key each anomaly gets and when. An anomaly has its key,
or its two, for itself: whatever else is found there is its consequence, which its plant names, or a mistake of the
judge.

Values and processes that nobody was given before: what every world that is made up hands out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

OPERATIONS_MAX = 1_000_000_000
KEYS_MAX = 10_000_000
PROCESSES_MAX = 10_000


class SynthModel(StrEnum):
    """What the history is of."""

    REGISTER = "register"
    CAS_REGISTER = "cas-register"
    KV = "kv"
    LOG = "log"
    LIST = "list"
    KAFKA = "kafka"


class PlanError(ValueError):
    """What was asked for cannot be made; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``operations`` are those of the workload; what is planted comes on top. ``anomalies`` are counts by name."""

    model: SynthModel
    operations: int
    keys: int = 10
    processes: int = 5
    unknown_rate: float = 0.0
    anomalies: Mapping[str, int]
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = (("operations", OPERATIONS_MAX), ("keys", KEYS_MAX), ("processes", PROCESSES_MAX))
        for name, most in bounds:
            if not 1 <= getattr(self, name) <= most:
                raise PlanError(f"{name} is {getattr(self, name)}: give 1 to {most}")
        if not 0 <= self.unknown_rate <= 1:
            raise PlanError(f"unknown_rate is {self.unknown_rate}: give 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """One anomaly that is to be planted: when so many operations of its first key have been served."""

    name: str
    keys: tuple[int, ...]
    after: int


def placings(plan: Plan, widths: Mapping[str, int]) -> list[Placing]:
    """A place for each anomaly. ``widths`` says how many keys one of each kind takes.

    Raises PlanError for a kind that the model does not have, and where there are too few keys.
    """
    unknown = sorted(set(plan.anomalies) - set(widths))
    if unknown:
        raise PlanError(f"{plan.model} has no anomaly {unknown[0]}: plant one of {', '.join(sorted(widths))}")
    names = [name for name in sorted(plan.anomalies) for _ in range(plan.anomalies[name])]
    needed = sum(widths[name] for name in names)
    if needed > plan.keys:
        raise PlanError(
            f"{len(names)} anomalies need {needed} keys for themselves, and there are {plan.keys}: give more"
        )
    rng = random.Random(f"placing {plan.seed}")
    keys = rng.sample(range(plan.keys), needed)
    mean = max(plan.operations // plan.keys, 1)
    found = []
    for name in names:
        own, keys = keys[: widths[name]], keys[widths[name] :]
        found.append(Placing(name=name, keys=tuple(own), after=rng.randrange(mean)))
    return found


def counted(names: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    """``NAME:COUNT`` words as counts; ``all`` is every kind, and without a count it is one. Raises PlanError."""
    counts: dict[str, int] = {}
    for word in names:
        name, _, number = word.partition(":")
        if not (number or "1").isdecimal():
            raise PlanError(f"{word} is no NAME:COUNT")
        for one in known if name == "all" else [name]:
            counts[one] = counts.get(one, 0) + int(number or "1")
    return counts


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
