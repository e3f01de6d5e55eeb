"""Partitions done to a live system: directed links that are cut, until their cut is taken back by its key.

Owns which links each of these faults cuts. How a link is cut is the system's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import assert_never

from nemesis.faults.family import Aim, Family, Healed, OpenFault
from nemesis.faults.links import Link
from nemesis.faults.network import client_links
from nemesis.faults.shapes import cut_links
from nemesis.faults.values import CutClients, CutLink, Partition

Cut = Partition | CutLink | CutClients


class Partitions(Family[Cut]):
    """Cuts links, and lets them pass again."""

    faults = (Partition, CutLink, CutClients)

    async def aim(self, fault: Cut, random: Random) -> Aim:
        """Decide which links are cut."""
        nodes = self._system.nodes
        match fault:
            case Partition(shape=shape, target=target):
                about = await self._casting.resolve(target, random)
                links = cut_links(shape, nodes, about, random)
                return Aim(nodes=about or smaller_side(nodes, links), links=links)
            case CutLink(source=source, destination=destination):
                ends = (
                    *await self._casting.resolve(source, random),
                    *await self._casting.resolve(destination, random),
                )
                return Aim(nodes=ends, links=frozenset({(ends[0], ends[1])}))
            case CutClients(target=target):
                about = await self._casting.resolve(target, random)
                return Aim(nodes=about, links=client_links(about))
            case _:
                assert_never(fault)

    async def strike(self, opened: OpenFault[Cut]) -> tuple[int, ...]:
        """Cut them."""
        await self._system.links.cut(str(opened.fault_id), opened.aim.links, opened.fault.mode)
        return opened.nodes

    async def heal(self, opened: OpenFault[Cut]) -> Healed:
        """Let them pass, as far as no other fault cuts them."""
        await self._system.links.heal(str(opened.fault_id))
        return Healed()


def smaller_side(nodes: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
    """The nodes that hear the fewest others: those whom a partition without a target is about."""
    deaf = {node: sum(destination == node for _, destination in links) for node in nodes}
    worst = max(deaf.values(), default=0)
    return tuple(node for node in nodes if deaf[node] == worst)
