"""Bursts of load: clients that ask more often for a while.

Owns the fault and its words; how often is often is the workload's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import Fault, check_at_least, named
from nemesis.faults.links import Link
from nemesis.faults.look import LOADED
from nemesis.faults.needs import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst(Fault):
    """Clients ask ``factor`` times as often as they are to; healed by the usual rate."""

    kind = "burst"
    does = "clients ask 2, 5 or 10 times as often"
    undone = "the usual rate"
    healer = "ease"
    need = Need.CLIENTS
    look = LOADED
    drawn_as = 20
    dice = named(factor=(2, 5, 10))
    against_leader = named(factor=5)
    """More load takes nobody away."""
    factor: int

    def __post_init__(self) -> None:
        check_at_least(1, factor=self.factor)

    def concerns(self, nodes: Sequence[int], about: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
        """All: clients choose whom they ask."""
        del about, links
        return tuple(nodes)


class Bursts(Family[Burst]):
    """Raises the rate of the workload, and lowers it again."""

    faults = (Burst,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._load = stage.load

    async def strike(self, opened: OpenFault[Burst]) -> tuple[int, ...]:
        self._load.raise_by(opened.fault_id, opened.fault.factor)
        return opened.nodes

    async def heal(self, opened: OpenFault[Burst]) -> Healed:
        """Lower it to what it was."""
        self._load.lower(opened.fault_id)
        return Healed()
