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
from typing import Any, ClassVar

from nemesis.faults.family import Family, Healed, OpenFault
from nemesis.faults.fault import Fault, check_at_least
from nemesis.faults.links import CLIENTS, Link, client_links
from nemesis.faults.look import IMPAIRED, Look
from nemesis.faults.needs import Need
from nemesis.faults.shapes import DRAWN_SHAPES, Shape, cut_links
from nemesis.faults.targets import Role, Target


class Between(StrEnum):
    """Whose links."""

    REPLICAS = "replicas"
    CLIENTS = "clients"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault(Fault):
    """What is done to bytes on their way between those whom it is about and others."""

    healer: ClassVar[str] = "mend"
    is_healed_by_name: ClassVar[bool] = True
    look: ClassVar[Look] = IMPAIRED
    prefix: ClassVar[str] = "network-"
    told_by: ClassVar[str | None] = "between"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(ShapedFault):
    """Bytes arrive ``latency_ms`` later, give or take ``jitter_ms``; those of one connection stay in order."""

    kind: ClassVar[str] = "delay"
    does: ClassVar[str] = "bytes arrive later, by a latency give or take a jitter"
    undone: ClassVar[str] = "nothing is late any more"
    need: ClassVar[Need] = Need.LATE_PACKETS
    drawn_as: ClassVar[int | None] = 6
    latency_ms: int
    jitter_ms: int = 0

    @classmethod
    def on_leader(cls, random: Random) -> Delay:
        """So late that the others give it up."""
        del random
        return Delay(latency_ms=3000, target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> Delay:
        """Weak or strong, between anybody."""
        where = anywhere(random)
        latency_ms = random.choice((5, 50, 200, 800))
        jitter_ms = random.choice((0, latency_ms // 2, latency_ms))
        return Delay(latency_ms=latency_ms, jitter_ms=jitter_ms, **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(ShapedFault):
    """Packets are lost, ``percent`` of them, and sent again after ``retransmit_ms``, then after twice as long.

    No byte is ever missing from a connection: what is behind a lost packet waits for it, as with TCP.
    """

    kind: ClassVar[str] = "loss"
    does: ClassVar[str] = "packets are lost and sent again"
    undone: ClassVar[str] = "nothing is lost any more"
    need: ClassVar[Need] = Need.LOST_PACKETS
    drawn_as: ClassVar[int | None] = 7
    percent: int
    retransmit_ms: int = 200

    @classmethod
    def on_leader(cls, random: Random) -> Loss:
        """So much that the others give it up."""
        del random
        return Loss(percent=90, target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> Loss:
        """Weak or strong, between anybody."""
        where = anywhere(random)
        return Loss(percent=random.choice((1, 5, 20, 50)), **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(ShapedFault):
    """Each directed link carries no more than ``rate_bytes_per_s``, all its connections together."""

    kind: ClassVar[str] = "bandwidth"
    does: ClassVar[str] = "so many bytes a second, in each direction of a link"
    undone: ClassVar[str] = "no bound"
    need: ClassVar[Need] = Need.NARROW_LINKS
    drawn_as: ClassVar[int | None] = 8
    rate_bytes_per_s: int

    @classmethod
    def on_leader(cls, random: Random) -> Bandwidth:
        """So narrow that the others give it up."""
        del random
        return Bandwidth(rate_bytes_per_s=200, target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> Bandwidth:
        """Weak or strong, between anybody."""
        where = anywhere(random)
        return Bandwidth(rate_bytes_per_s=random.choice((1_000, 10_000, 100_000)), **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(ShapedFault):
    """All connections are reset, ``times`` times, each ``every_ms`` after the last; new ones are let through."""

    kind: ClassVar[str] = "reset"
    does: ClassVar[str] = "connections are reset, once or again and again; new ones are let through"
    undone: ClassVar[str] = "no more resets"
    need: ClassVar[Need] = Need.RESETS
    drawn_as: ClassVar[int | None] = 9
    times: int = 1
    every_ms: int = 500

    @classmethod
    def on_leader(cls, random: Random) -> Reset:
        """So often that the others give it up."""
        del random
        return Reset(times=200, every_ms=50, target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> Reset:
        """Once, or again and again."""
        where = anywhere(random)
        times, every_ms = random.choice(((1, 500), (5, 500), (50, 100)))
        return Reset(times=times, every_ms=every_ms, **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose(ShapedFault):
    """The end of a connection, however it ends, shows ``delay_ms`` later."""

    kind: ClassVar[str] = "slow-close"
    does: ClassVar[str] = "the end of a connection is seen later"
    undone: ClassVar[str] = "it is seen at once"
    need: ClassVar[Need] = Need.CONVERSATIONS
    drawn_as: ClassVar[int | None] = 10
    delay_ms: int

    @classmethod
    def on_leader(cls, random: Random) -> SlowClose:
        """It harms no connection."""
        del random
        return SlowClose(delay_ms=3000, between=Between.ALL, target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> SlowClose:
        """Soon or late."""
        where = anywhere(random)
        return SlowClose(delay_ms=random.choice((200, 2000)), **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLost(ShapedFault):
    """A request arrives and is answered; ``percent`` of the answers are lost, and their connections reset instead."""

    kind: ClassVar[str] = "reply-lost"
    does: ClassVar[str] = "requests arrive and are answered, and answers are lost"
    undone: ClassVar[str] = "they arrive"
    need: ClassVar[Need] = Need.CONVERSATIONS
    drawn_as: ClassVar[int | None] = 11
    percent: int = 100

    @classmethod
    def on_leader(cls, random: Random) -> ReplyLost:
        """All of them."""
        del random
        return ReplyLost(target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> ReplyLost:
        """Some, or all."""
        where = anywhere(random)
        return ReplyLost(percent=random.choice((5, 30, 100)), **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(ShapedFault):
    """Every request arrives twice, the second time ``delay_ms`` after the first; nobody hears the second answer.

    A conversation has to be heard from its beginning to be told again: those that are under way are reset first.
    """

    kind: ClassVar[str] = "duplicate"
    does: ClassVar[str] = "requests arrive twice"
    undone: ClassVar[str] = "they arrive once"
    need: ClassVar[Need] = Need.CONVERSATIONS
    drawn_as: ClassVar[int | None] = 12
    delay_ms: int = 0

    @classmethod
    def on_leader(cls, random: Random) -> Duplicate:
        """It harms no connection."""
        del random
        return Duplicate(between=Between.ALL, target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> Duplicate:
        """At once or later."""
        where = anywhere(random)
        return Duplicate(delay_ms=random.choice((0, 50, 1000)), **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptEgress(NetworkFault):
    """A bit is flipped in ``percent`` of the segments that leave the target and have a record batch in them.

    The bit is one that the batch's CRC covers, so that whoever gets it must notice. Nothing else that leaves a replica
    has a checksum above TCP's own, and nobody promises to survive that.
    """

    kind: ClassVar[str] = "egress-corrupt"
    does: ClassVar[str] = "a bit is flipped in record batches that leave a replica"
    undone: ClassVar[str] = "they arrive as they were sent"
    need: ClassVar[Need] = Need.CONVERSATIONS
    drawn_as: ClassVar[int | None] = 28
    percent: int = 100

    def __post_init__(self) -> None:
        check_at_least(1, percent=self.percent)

    def links(self, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
        """All that lead away from whom it is about: to replicas, to clients, or to both."""
        del random
        replicas = () if self.between is Between.CLIENTS else nodes
        clients = () if self.between is Between.REPLICAS else (CLIENTS,)
        return frozenset((one, to) for one in about or nodes for to in (*replicas, *clients) if to != one)

    @classmethod
    def on_leader(cls, random: Random) -> CorruptEgress:
        """No follower gets anything of it, nor any client."""
        del random
        return CorruptEgress(target=Role.LEADER, between=Between.ALL)

    @classmethod
    def drawn(cls, random: Random) -> CorruptEgress:
        """Some, or all."""
        between, target = random.choice(tuple(Between)), random.choice(_SOMEONE)
        return CorruptEgress(percent=random.choice((5, 30, 100)), target=target, between=between)


_SOMEONE = (Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ISR, Role.MINORITY, Role.ALL)


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
        """Impair them."""
        self._system.links.impair(str(opened.fault_id), opened.aim.links, opened.fault, opened.draw)
        return opened.nodes

    async def heal(self, opened: OpenFault[NetworkFault]) -> Healed:
        """Mend them, and tell what was done to what passed there."""
        done = self._system.links.tally(str(opened.fault_id))
        self._system.links.heal(str(opened.fault_id))
        return Healed(detail={"done": dict(done)})
