"""Partitions as sets of directed links that are cut: pure functions of the replicas' ids.

Knows nothing of clients, which are cut off by a fault of their own, nor of time. Source: Jepsen's ``nemesis.clj``
(halves, bridge, majorities ring).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import assert_never

from nemesis.faults.links import Link


class Shape(StrEnum):
    """The ways to part a cluster."""

    ISOLATE = "isolate"
    HALVES = "halves"
    RANDOM_HALVES = "random-halves"
    ONE_WAY_MUTE = "one-way-mute"
    ONE_WAY_DEAF = "one-way-deaf"
    BRIDGE = "bridge"
    MAJORITIES_RING = "majorities-ring"
    EACH_ALONE = "each-alone"


DRAWN_SHAPES = tuple(shape for shape in Shape if shape is not Shape.EACH_ALONE)
"""Those that dice choose from, in an order of their own: what a seed has drawn once, it draws for ever."""


def cut_links(shape: Shape, nodes: Sequence[int], targets: Sequence[int], random: Random) -> frozenset[Link]:
    """The links that ``shape`` cuts among ``nodes``, at least three of them.

    ``targets`` are those whom the shape is about (isolated, mute, deaf, or the bridge itself, of which there is one);
    halves and rings have none. ``random`` decides where the shape leaves a choice.
    """
    match shape:
        case Shape.ISOLATE:
            return isolate(nodes, targets)
        case Shape.HALVES:
            return halves(nodes)
        case Shape.RANDOM_HALVES:
            return halves(random.sample(list(nodes), len(nodes)))
        case Shape.ONE_WAY_MUTE:
            return one_way_mute(nodes, targets)
        case Shape.ONE_WAY_DEAF:
            return one_way_deaf(nodes, targets)
        case Shape.BRIDGE:
            return bridge(nodes, targets[0])
        case Shape.MAJORITIES_RING:
            return majorities_ring(nodes)
        case Shape.EACH_ALONE:
            return each_alone(nodes)
        case _:
            assert_never(shape)


def split(left: Sequence[int], right: Sequence[int]) -> frozenset[Link]:
    """Nobody on one side hears anybody on the other."""
    return frozenset(link for a in left for b in right for link in ((a, b), (b, a)))


def isolate(nodes: Sequence[int], targets: Sequence[int]) -> frozenset[Link]:
    """The targets hear each other and nobody else."""
    return split(targets, _others(nodes, targets))


def halves(nodes: Sequence[int]) -> frozenset[Link]:
    """The first half, the smaller one when the number is odd, against the rest."""
    middle = len(nodes) // 2
    return split(nodes[:middle], nodes[middle:])


def one_way_mute(nodes: Sequence[int], targets: Sequence[int]) -> frozenset[Link]:
    """The targets hear the others, who do not hear them."""
    return frozenset((target, other) for target in targets for other in _others(nodes, targets))


def one_way_deaf(nodes: Sequence[int], targets: Sequence[int]) -> frozenset[Link]:
    """The others hear the targets, who do not hear them."""
    return frozenset((other, target) for target in targets for other in _others(nodes, targets))


def bridge(nodes: Sequence[int], middle: int) -> frozenset[Link]:
    """Two halves that do not hear each other, and one node in the middle that hears and is heard by all."""
    return halves(_others(nodes, [middle]))


def majorities_ring(nodes: Sequence[int]) -> frozenset[Link]:
    """Every node hears a majority (itself included), and no two hear the same one.

    The nodes stand in a ring; each hears the majority of consecutive ones in whose middle it is.
    """
    size = len(nodes)
    majority = size // 2 + 1
    cut: set[Link] = set()
    for start in range(size):
        heard = [nodes[(start + step) % size] for step in range(majority)]
        listener = heard[majority // 2]
        cut.update((other, listener) for other in _others(nodes, heard))
    return frozenset(cut)


def each_alone(nodes: Sequence[int]) -> frozenset[Link]:
    """Nobody hears anybody."""
    return frozenset((a, b) for a in nodes for b in nodes if a != b)


def _others(nodes: Sequence[int], targets: Sequence[int]) -> list[int]:
    return [node for node in nodes if node not in targets]
