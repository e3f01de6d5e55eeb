"""Faults of a network that still works: late, slow, lossy, and telling things twice or not at all.

Owns these faults, which links they touch, and that the history tells what was really done, by counts. Each of them says
``between`` whom it is: among replicas, as the shape and the target of a partition say, or between clients and the
target. Names of parameters are those of Toxiproxy's toxics where there is one (latency, jitter, rate, slow close, reset
peer). How links are impaired is the system's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from nemesis.faults.family import Family, Healed, OpenFault
from nemesis.faults.fault import Fault, check_at_least, named
from nemesis.faults.links import CLIENTS, Link, client_links
from nemesis.faults.look import IMPAIRED
from nemesis.faults.needs import Need
from nemesis.faults.shapes import DRAWN_SHAPES, Shape, cut_links
from nemesis.faults.targets import Role, Target


class Between(StrEnum):
    """Whose links."""

    REPLICAS = "replicas"
    CLIENTS = "clients"
    ALL = "all"


_SOMEONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ISR, Role.MINORITY, Role.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault(Fault):
    """What is done to bytes on their way between those whom it is about and others."""

    healer = "mend"
    is_healed_by_name = True
    look = IMPAIRED
    prefix = "network-"
    told_by = "between"
    target: Target
    between: Between = Between.REPLICAS

    def concerns(self, nodes: Sequence[int], about: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
        """The target; all nodes without one."""
        del links
        return tuple(about or nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedFault(NetworkFault):
    """One that strikes the links of a ``shape``, both their directions."""

    shape: Shape = Shape.ISOLATE

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """Among ``nodes``, and from clients to those it is ``about``, or to all.

        Of shapes that have no target everybody is meant. Where the target is everybody, so are all links among them.
        """
        shape = Shape.EACH_ALONE if set(about) == set(nodes) else self.shape
        among = frozenset[Link]() if self.between is Between.CLIENTS else cut_links(shape, nodes, about, random)
        return among if self.between is Between.REPLICAS else among | client_links(about or nodes)

    @classmethod
    def drawn(cls, random: Random) -> ShapedFault:
        """Weak or strong, between anybody."""
        where = anywhere(random)
        return cls(**where, **{name: random.choice(options) for name, options in cls.dice.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(ShapedFault):
    """Bytes arrive ``latency_ms`` later, give or take ``jitter_ms``; those of one connection stay in order."""

    kind = "delay"
    does = "bytes arrive later, by a latency give or take a jitter"
    undone = "nothing is late any more"
    need = Need.LATE_PACKETS
    drawn_as = 6
    against_leader = named(latency_ms=3000)
    """So late that the others give it up."""
    latency_ms: int
    jitter_ms: int = 0

    @classmethod
    def drawn(cls, random: Random) -> Delay:
        where = anywhere(random)
        latency_ms = random.choice((5, 50, 200, 800))
        jitter_ms = random.choice((0, latency_ms // 2, latency_ms))
        return Delay(latency_ms=latency_ms, jitter_ms=jitter_ms, **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(ShapedFault):
    """Packets are lost, ``percent`` of them, and sent again after ``retransmit_ms``, then after twice as long.

    No byte is ever missing from a connection: what is behind a lost packet waits for it, as with TCP.
    """

    kind = "loss"
    does = "packets are lost and sent again"
    undone = "nothing is lost any more"
    need = Need.LOST_PACKETS
    drawn_as = 7
    dice = named(percent=(1, 5, 20, 50))
    against_leader = named(percent=90)
    """So much that the others give it up."""
    percent: int
    retransmit_ms: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(ShapedFault):
    """Each directed link carries no more than ``rate_bytes_per_s``, all its connections together."""

    kind = "bandwidth"
    does = "so many bytes a second, in each direction of a link"
    undone = "no bound"
    need = Need.NARROW_LINKS
    drawn_as = 8
    dice = named(rate_bytes_per_s=(1_000, 10_000, 100_000))
    against_leader = named(rate_bytes_per_s=200)
    """So narrow that the others give it up."""
    rate_bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(ShapedFault):
    """All connections are reset, ``times`` times, each ``every_ms`` after the last; new ones are let through."""

    kind = "reset"
    does = "connections are reset, once or again and again; new ones are let through"
    undone = "no more resets"
    need = Need.RESETS
    drawn_as = 9
    against_leader = named(times=200, every_ms=50)
    """So often that the others give it up."""
    times: int = 1
    every_ms: int = 500

    @classmethod
    def drawn(cls, random: Random) -> Reset:
        """Once, or again and again."""
        where = anywhere(random)
        times, every_ms = random.choice(((1, 500), (5, 500), (50, 100)))
        return Reset(times=times, every_ms=every_ms, **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose(ShapedFault):
    """The end of a connection, however it ends, shows ``delay_ms`` later."""

    kind = "slow-close"
    does = "the end of a connection is seen later"
    undone = "it is seen at once"
    need = Need.CONVERSATIONS
    drawn_as = 10
    dice = named(delay_ms=(200, 2000))
    against_leader = named(delay_ms=3000, between=Between.ALL)
    """It harms no connection."""
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLost(ShapedFault):
    """A request arrives and is answered; ``percent`` of the answers are lost, and their connections reset instead."""

    kind = "reply-lost"
    does = "requests arrive and are answered, and answers are lost"
    undone = "they arrive"
    need = Need.CONVERSATIONS
    drawn_as = 11
    dice = named(percent=(5, 30, 100))
    percent: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(ShapedFault):
    """Every request arrives twice, the second time ``delay_ms`` after the first; nobody hears the second answer.

    A conversation has to be heard from its beginning to be told again: those that are under way are reset first.
    """

    kind = "duplicate"
    does = "requests arrive twice"
    undone = "they arrive once"
    need = Need.CONVERSATIONS
    drawn_as = 12
    dice = named(delay_ms=(0, 50, 1000))
    against_leader = named(between=Between.ALL)
    """It harms no connection."""
    delay_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptEgress(NetworkFault):
    """A bit is flipped in ``percent`` of the segments that leave the target and have a record batch in them.

    The bit is one that the batch's CRC covers, so that whoever gets it must notice. Nothing else that leaves a replica
    has a checksum above TCP's own, and nobody promises to survive that.
    """

    kind = "egress-corrupt"
    does = "a bit is flipped in record batches that leave a replica"
    undone = "they arrive as they were sent"
    need = Need.CONVERSATIONS
    drawn_as = 28
    dice = named(between=tuple(Between), target=_SOMEONE, percent=(5, 30, 100))
    against_leader = named(between=Between.ALL)
    """No follower gets anything of it, nor any client."""
    percent: int = 100

    def __post_init__(self) -> None:
        check_at_least(1, percent=self.percent)

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """All that lead away from whom it is about: to replicas, to clients, or to both."""
        del random
        replicas = () if self.between is Between.CLIENTS else nodes
        clients = () if self.between is Between.REPLICAS else (CLIENTS,)
        return frozenset((one, to) for one in about or nodes for to in (*replicas, *clients) if to != one)


def anywhere(random: Random) -> dict[str, Any]:
    """Where a network fault strikes: any links."""
    between = random.choice(tuple(Between))
    shapes = (Shape.ISOLATE,) if between is Between.CLIENTS else (Shape.ISOLATE, Shape.ISOLATE, *DRAWN_SHAPES)
    shape = random.choice(shapes)
    return {"between": between, "shape": shape, "target": _shape_target(random, shape)}


def _shape_target(random: Random, shape: Shape) -> Role:
    """Whom a shape is about: a bridge is one, and halves and rings are about nobody."""
    match shape:
        case Shape.ISOLATE | Shape.ONE_WAY_MUTE | Shape.ONE_WAY_DEAF:
            return random.choice(_SOMEONE)
        case Shape.BRIDGE:
            return random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER))
        case _:
            return Role.NOBODY


class Impairments(Family[NetworkFault]):
    """Impairs links, and mends them."""

    faults = (Delay, Loss, Bandwidth, Reset, SlowClose, ReplyLost, Duplicate, CorruptEgress)

    async def strike(self, opened: OpenFault[NetworkFault]) -> tuple[int, ...]:
        await self._system.links.impair(str(opened.fault_id), opened.aim.links, opened.fault, opened.draw)
        return opened.nodes

    async def heal(self, opened: OpenFault[NetworkFault]) -> Healed:
        """Mend them, and tell what was done to what passed there."""
        done = self._system.links.tally(str(opened.fault_id))
        await self._system.links.heal(str(opened.fault_id))
        return Healed(detail={"done": dict(done)})
