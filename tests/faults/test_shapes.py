"""Partitions as tables: which directed links each shape cuts."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.faults.shapes import Shape, bridge, cut_links, halves, isolate, majorities_ring, one_way_deaf, one_way_mute

THREE = (1, 2, 3)
FIVE = (1, 2, 3, 4, 5)


def both_ways(*pairs: tuple[int, int]) -> frozenset[tuple[int, int]]:
    """Each pair in both directions."""
    return frozenset(pairs) | frozenset((b, a) for a, b in pairs)


def hears(nodes: tuple[int, ...], cut: frozenset[tuple[int, int]], listener: int) -> frozenset[int]:
    """Whom ``listener`` hears, itself included."""
    return frozenset(node for node in nodes if (node, listener) not in cut)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (isolate(THREE, [2]), both_ways((2, 1), (2, 3))),
        (isolate(FIVE, [1, 2]), both_ways((1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5))),
        (halves(THREE), both_ways((1, 2), (1, 3))),
        (halves((1, 2, 3, 4)), both_ways((1, 3), (1, 4), (2, 3), (2, 4))),
        (one_way_mute(THREE, [1]), frozenset({(1, 2), (1, 3)})),
        (one_way_deaf(THREE, [1]), frozenset({(2, 1), (3, 1)})),
        (bridge(THREE, 2), both_ways((1, 3))),
        (bridge(FIVE, 3), both_ways((1, 4), (1, 5), (2, 4), (2, 5))),
        (majorities_ring(THREE), frozenset({(3, 2), (1, 3), (2, 1)})),
    ],
)
def test_a_shape_cuts_its_links(found: frozenset[tuple[int, int]], expected: frozenset[tuple[int, int]]) -> None:
    """Each shape cuts exactly the links of its table."""
    assert found == expected


@pytest.mark.parametrize("size", [3, 4, 5, 7])
def test_a_ring_shows_each_node_another_majority(size: int) -> None:
    """In a majorities ring every node hears a majority with itself in it, and no two hear the same."""
    nodes = tuple(range(1, size + 1))
    heard = [hears(nodes, majorities_ring(nodes), node) for node in nodes]

    assert all(len(each) == size // 2 + 1 and node in each for node, each in zip(nodes, heard, strict=True))
    assert len(set(heard)) == size


def test_random_halves_depend_on_the_dice_only() -> None:
    """The same dice part a cluster the same way, and some dice part it otherwise."""
    cuts = [cut_links(Shape.RANDOM_HALVES, THREE, (), Random(seed)) for seed in range(8)]

    assert cuts == [cut_links(Shape.RANDOM_HALVES, THREE, (), Random(seed)) for seed in range(8)]
    assert len(set(cuts)) == 3


@pytest.mark.parametrize("shape", list(Shape))
def test_every_shape_cuts_something_and_never_a_node_from_itself(shape: Shape) -> None:
    """Each shape cuts at least one link, all of them between two different nodes of the cluster."""
    cut = cut_links(shape, THREE, (2,), Random(1))

    assert cut
    assert all(a != b and {a, b} <= set(THREE) for a, b in cut)
