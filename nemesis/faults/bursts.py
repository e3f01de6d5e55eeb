"""Bursts of load: clients that ask more often for a while.

Owns the fault and its words; how often is often is the workload's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import Fault, check_at_least
from nemesis.faults.links import Link
from nemesis.faults.look import LOADED, Look
from nemesis.faults.needs import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst(Fault):
    """Clients ask ``factor`` times as often as they are to; healed by the usual rate."""

    kind: ClassVar[str] = "burst"
    does: ClassVar[str] = "clients ask 2, 5 or 10 times as often"
    undone: ClassVar[str] = "the usual rate"
    healer: ClassVar[str] = "ease"
    need: ClassVar[Need] = Need.CLIENTS
    look: ClassVar[Look] = LOADED
    drawn_as: ClassVar[int | None] = 20
    factor: int

    def __post_init__(self) -> None:
        check_at_least(1, factor=self.factor)

    def concerns(self, nodes: Sequence[int], about: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
        """All: clients choose whom they ask."""
        del about, links
        return tuple(nodes)

    @classmethod
    def on_leader(cls, random: Random) -> Burst:
        """More load takes nobody away."""
        del random
        return Burst(factor=5)

    @classmethod
    def drawn(cls, random: Random) -> Burst:
        """Little or much."""
        return Burst(factor=random.choice((2, 5, 10)))


class Bursts(Family[Burst]):
    """Raises the rate of the workload, and lowers it again."""

    faults = (Burst,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._load = stage.load

    async def strike(self, opened: OpenFault[Burst]) -> tuple[int, ...]:
        """Raise it."""
        self._load.raise_by(opened.fault_id, opened.fault.factor)
        return opened.nodes

    async def heal(self, opened: OpenFault[Burst]) -> Healed:
        """Lower it to what it was."""
        self._load.lower(opened.fault_id)
        return Healed()
