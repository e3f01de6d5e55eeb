"""Faults of a network that still works, done to a live system: links that are impaired, until that is taken back.

Owns that the history tells what was really done, by counts. How links are impaired is the system's business.
"""

from __future__ import annotations

from random import Random
from typing import get_args

from nemesis.faults.family import Aim, Family, Healed, OpenFault
from nemesis.faults.network import NetworkFault, touched_links


class Impairments(Family[NetworkFault]):
    """Impairs links, and mends them."""

    faults = get_args(NetworkFault)

    async def aim(self, fault: NetworkFault, random: Random) -> Aim:
        """Decide which links are impaired; without a target it is about all nodes."""
        about = await self._casting.resolve(fault.target, random)
        links = touched_links(fault, self._system.nodes, about, random)
        return Aim(nodes=about or self._system.nodes, links=links)

    async def strike(self, opened: OpenFault[NetworkFault]) -> tuple[int, ...]:
        """Impair them."""
        await self._system.links.impair(str(opened.fault_id), opened.aim.links, opened.fault, opened.draw)
        return opened.nodes

    async def heal(self, opened: OpenFault[NetworkFault]) -> Healed:
        """Mend them, and tell what was done to what passed there."""
        done = self._system.links.tally(str(opened.fault_id))
        await self._system.links.heal(str(opened.fault_id))
        return Healed(detail={"done": dict(done)})
