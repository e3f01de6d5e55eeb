"""Words for targets become replicas when a fault strikes."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.faults.targets import Cast, InvalidTargetError, Role, resolve

CAST = Cast(nodes=(1, 2, 3), leader=2, names={"a": 2, "c": 3}, isr=(2, 3), controller=1)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Role.LEADER, {(2,)}),
        (Role.FOLLOWER, {(1,)}),
        (Role.FOLLOWERS, {(1, 3)}),
        (Role.ISR, {(2, 3)}),
        (Role.CONTROLLER, {(1,)}),
        (Role.ONE, {(1,), (2,), (3,)}),
        (Role.OTHER, {(1,)}),
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


@pytest.mark.parametrize("role", [Role.LEADER, Role.CONTROLLER, Role.ISR])
def test_without_a_leader_anyone_is_hit(role: Role) -> None:
    """A fault on the leader, on the controller or on who is in sync strikes someone even where nobody is."""
    cast = Cast(nodes=(1, 2, 3), leader=None, names={})

    assert {resolve(role, cast, Random(seed)) for seed in range(50)} == {(1,), (2,), (3,)}


def test_followers_have_the_log() -> None:
    """Where not all nodes have the log that the leader is of, its followers are among those that do."""
    cast = Cast(nodes=(1, 2, 3, 4), leader=2, names={}, replicas=(2, 4))

    assert {resolve(Role.FOLLOWER, cast, Random(seed)) for seed in range(50)} == {(4,)}
    assert resolve(Role.FOLLOWERS, cast, Random(1)) == (4,)


def test_others_come_to_bear_different_names() -> None:
    """An other is one without a name, as long as there is one."""
    named: dict[str, int] = {}
    for name in "abc":
        (named[name],) = resolve(Role.OTHER, Cast(nodes=(1, 2, 3), leader=1, names=dict(named)), Random(1))

    assert sorted(named.values()) == [1, 2, 3]


@pytest.mark.parametrize("target", ["king", "@b", ""])
def test_a_word_for_nobody_is_refused(target: str) -> None:
    """An unknown word or name is told with what could have been said."""
    with pytest.raises(InvalidTargetError, match=r"leader|names given so far: a, c"):
        resolve(target, CAST, Random(1))
