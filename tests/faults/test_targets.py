"""Words for targets become replicas when a fault strikes."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.faults.targets import Cast, InvalidTargetError, Role, resolve

CAST = Cast(nodes=(1, 2, 3), leader=2, names={"a": 2, "c": 3})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Role.LEADER, {(2,)}),
        (Role.FOLLOWER, {(1,)}),
        (Role.ONE, {(1,), (2,), (3,)}),
        (Role.MINORITY, {(1,), (2,), (3,)}),
        (Role.MAJORITY, {(1, 2), (1, 3), (2, 3)}),
        (Role.ALL, {(1, 2, 3)}),
        (Role.NOBODY, {()}),
        ("leader", {(2,)}),
        ("@c", {(3,)}),
    ],
)
def test_a_word_means_these_replicas(target: str, expected: set[tuple[int, ...]]) -> None:
    """Whatever the dice, a word means one of its replicas, and each of them for some dice."""
    assert {resolve(target, CAST, Random(seed)) for seed in range(50)} == expected


def test_without_a_leader_anyone_is_hit() -> None:
    """A fault on the leader strikes someone even while nobody leads."""
    cast = Cast(nodes=(1, 2, 3), leader=None, names={})

    assert {resolve(Role.LEADER, cast, Random(seed)) for seed in range(50)} == {(1,), (2,), (3,)}


@pytest.mark.parametrize("target", ["king", "@b", ""])
def test_a_word_for_nobody_is_refused(target: str) -> None:
    """An unknown word or name is told with what could have been said."""
    with pytest.raises(InvalidTargetError, match=r"leader|names given so far: a, c"):
        resolve(target, CAST, Random(1))
