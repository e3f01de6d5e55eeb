"""Partitions: directed links that are cut, until their cut is taken back by its key.

Owns these faults, and which links each of them cuts. How a link is cut is the system's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from nemesis.faults.family import Family, Healed, OpenFault
from nemesis.faults.fault import Fault
from nemesis.faults.links import Link, LinkMode, client_links
from nemesis.faults.look import PARTITIONED
from nemesis.faults.needs import Need
from nemesis.faults.shapes import DRAWN_SHAPES, Shape, cut_links
from nemesis.faults.targets import Role, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Fault):
    """Replicas hear each other no more, as ``shape`` says of ``target``; clients still reach all of them."""

    kind = "partition"
    does = (
        "isolate one replica, halves, random halves, one-way mute (not heard), one-way deaf (does not hear), bridge, "
        "majorities ring, each alone (by a script only); clients cut off from a replica"
    )
    undone = "the links pass again"
    healer = "heal"
    is_healed_by_name = True
    need = Need.CUTS
    look = PARTITIONED
    told_by = "shape"
    drawn_as = 0
    is_usual = True
    shape: Shape
    target: Target = Role.NOBODY
    mode: LinkMode = LinkMode.BLACKHOLE

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """Those of the shape."""
        return cut_links(self.shape, nodes, about, random)

    def concerns(self, nodes: Sequence[int], about: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
        """The target; of a partition without one the smaller side."""
        return tuple(about) or smaller_side(nodes, links)

    @classmethod
    def on_leader(cls, random: Random) -> Partition:
        """The leader alone."""
        mode = random.choice((LinkMode.BLACKHOLE, LinkMode.RESET))
        return Partition(shape=Shape.ISOLATE, target=Role.LEADER, mode=mode)

    @classmethod
    def drawn(cls, random: Random) -> Partition | CutClients:
        """Any shape; or clients are cut off."""
        about_one = (Shape.ISOLATE, Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.BRIDGE)
        shape = random.choice((None, *DRAWN_SHAPES))
        if shape is None:
            return CutClients(target=random.choice((Role.LEADER, Role.ONE)))
        target = random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)) if shape in about_one else Role.NOBODY
        # A reset shows itself in both directions of a connection, so that it cannot do what a one-way cut does.
        is_one_way = shape in (Shape.ONE_WAY_MUTE, Shape.ONE_WAY_DEAF, Shape.MAJORITIES_RING)
        mode = LinkMode.BLACKHOLE if is_one_way else random.choice((LinkMode.BLACKHOLE, LinkMode.RESET))
        return Partition(shape=shape, target=target, mode=mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink(Fault):
    """One directed link between two replicas."""

    kind = "partition-link"
    does = "one replica does not hear another one; by a script only"
    undone = "the link passes again"
    healer = "heal"
    is_healed_by_name = True
    need = Need.CUTS
    look = PARTITIONED
    source: Target
    destination: Target
    mode: LinkMode = LinkMode.BLACKHOLE

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """The one from the first to the second."""
        del nodes, random
        return frozenset({(about[0], about[1])})


@dataclass(frozen=True, slots=True, kw_only=True)
class CutClients(Fault):
    """Clients and ``target`` hear each other no more; the replicas still do."""

    kind = "partition-clients"
    does = "clients and a replica do not hear each other; drawn by `partition`"
    undone = "the links pass again"
    healer = "heal"
    is_healed_by_name = True
    need = Need.CUTS
    look = PARTITIONED
    target: Target
    mode: LinkMode = LinkMode.BLACKHOLE

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """Those of clients, both ways."""
        del nodes, random
        return client_links(about)


Cut = Partition | CutLink | CutClients


class Partitions(Family[Cut]):
    """Cuts links, and lets them pass again."""

    faults = (Partition, CutLink, CutClients)

    async def strike(self, opened: OpenFault[Cut]) -> tuple[int, ...]:
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
