"""Bursts of load: clients that ask more often for a while.

Owns nothing but the words; how often is often is the workload's business.
"""

from __future__ import annotations

from random import Random

from nemesis.faults.family import Aim, Family, Healed, OpenFault, Stage
from nemesis.faults.values import Burst


class Bursts(Family[Burst]):
    """Raises the rate of the workload, and lowers it again."""

    faults = (Burst,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._load = stage.load

    async def aim(self, fault: Burst, random: Random) -> Aim:
        """It is about all nodes: clients choose whom they ask."""
        del fault, random
        return Aim(nodes=self._system.nodes)

    async def strike(self, opened: OpenFault[Burst]) -> tuple[int, ...]:
        """Raise it."""
        self._load.raise_by(opened.fault_id, opened.fault.factor)
        return opened.nodes

    async def heal(self, opened: OpenFault[Burst]) -> Healed:
        """Lower it to what it was."""
        self._load.lower(opened.fault_id)
        return Healed()
