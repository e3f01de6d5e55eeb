"""Faults of a network that still works: late, slow, lossy, and telling things twice or not at all.

Owns these faults as data, and which links they touch. Each of them says ``between`` whom it is: among replicas, as the
shape and the target of a partition say, or between clients and the target. Names of parameters are those of Toxiproxy's
toxics where there is one (latency, jitter, rate, slow close, reset peer). How a cluster does them is its own business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import ClassVar

from nemesis.faults.links import CLIENTS, Link
from nemesis.faults.shapes import Shape, cut_links
from nemesis.faults.targets import Target

HEALER = "mend"


class Between(StrEnum):
    """Whose links."""

    REPLICAS = "replicas"
    CLIENTS = "clients"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Bytes arrive ``latency_ms`` later, give or take ``jitter_ms``; those of one connection stay in order."""

    kind: ClassVar[str] = "delay"
    healer: ClassVar[str] = HEALER
    latency_ms: int
    jitter_ms: int = 0
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Packets are lost, ``percent`` of them, and sent again after ``retransmit_ms``, then after twice as long.

    No byte is ever missing from a connection: what is behind a lost packet waits for it, as with TCP.
    """

    kind: ClassVar[str] = "loss"
    healer: ClassVar[str] = HEALER
    percent: int
    retransmit_ms: int = 200
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Each directed link carries no more than ``rate_bytes_per_s``, all its connections together."""

    kind: ClassVar[str] = "bandwidth"
    healer: ClassVar[str] = HEALER
    rate_bytes_per_s: int
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """All connections are reset, ``times`` times, each ``every_ms`` after the last; new ones are let through."""

    kind: ClassVar[str] = "reset"
    healer: ClassVar[str] = HEALER
    times: int = 1
    every_ms: int = 500
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose:
    """The end of a connection, however it ends, shows ``delay_ms`` later."""

    kind: ClassVar[str] = "slow-close"
    healer: ClassVar[str] = HEALER
    delay_ms: int
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLost:
    """A request arrives and is answered; ``percent`` of the answers are lost, and their connections reset instead."""

    kind: ClassVar[str] = "reply-lost"
    healer: ClassVar[str] = HEALER
    percent: int = 100
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """Every request arrives twice, the second time ``delay_ms`` after the first; nobody hears the second answer.

    A conversation has to be heard from its beginning to be told again: those that are under way are reset first.
    """

    kind: ClassVar[str] = "duplicate"
    healer: ClassVar[str] = HEALER
    delay_ms: int = 0
    target: Target
    shape: Shape = Shape.ISOLATE
    between: Between = Between.REPLICAS


NetworkFault = Delay | Loss | Bandwidth | Reset | SlowClose | ReplyLost | Duplicate
"""What can be done to bytes on their way."""


def client_links(nodes: Sequence[int]) -> frozenset[Link]:
    """The links between clients and these nodes, both ways."""
    return frozenset(link for node in nodes for link in ((CLIENTS, node), (node, CLIENTS)))


def touched_links(fault: NetworkFault, nodes: Sequence[int], about: Sequence[int], random: Random) -> frozenset[Link]:
    """The links that a fault touches: among ``nodes``, and from clients to those it is ``about``, or to all.

    Of shapes that have no target everybody is meant. Where the target is everybody, so are all links among them.
    """
    shape = Shape.EACH_ALONE if set(about) == set(nodes) else fault.shape
    among = frozenset[Link]() if fault.between is Between.CLIENTS else cut_links(shape, nodes, about, random)
    return among if fault.between is Between.REPLICAS else among | client_links(about or nodes)
