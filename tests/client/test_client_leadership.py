"""Whom the client asks next."""

from __future__ import annotations

import pytest

from replica.client.leadership import LeaderGuess
from replica.core.messages import CurrentLeader
from replica.ids import Epoch, ReplicaId

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)


def hint(leader_id: ReplicaId | None, epoch: int) -> CurrentLeader:
    return CurrentLeader(leader_id=leader_id, leader_epoch=Epoch(epoch))


def test_without_a_leader_every_replica_has_its_turn() -> None:
    """Failures lead from one replica to the next, and from the last to the first."""
    guess = LeaderGuess([THREE, ONE, TWO])
    asked = []
    for _ in range(4):
        asked.append(guess.target)
        guess.on_failure(guess.target)
    assert asked == [ONE, TWO, THREE, ONE]


def test_a_hint_is_followed() -> None:
    """A leader that another replica names is asked next, and kept while it answers."""
    guess = LeaderGuess([ONE, TWO, THREE])
    assert guess.on_hint(ONE, hint(THREE, 5))
    assert guess.target == THREE
    guess.on_success(THREE)
    assert guess.target == THREE


@pytest.mark.parametrize(
    "useless",
    [
        pytest.param(None, id="none"),
        pytest.param(hint(None, 9), id="nobody leads"),
        pytest.param(hint(ReplicaId(8), 9), id="not in the table"),
        pytest.param(hint(THREE, 4), id="a leader of the past"),
        pytest.param(hint(TWO, 9), id="the asked one itself"),
    ],
)
def test_a_useless_hint_is_a_failure(useless: CurrentLeader | None) -> None:
    """A hint that names nobody to dial, an older epoch or the refusing replica itself leads to the next in turn."""
    guess = LeaderGuess([ONE, TWO, THREE])
    guess.on_hint(ONE, hint(TWO, 5))
    assert not guess.on_hint(TWO, useless)
    assert guess.target == THREE


def test_only_news_is_acted_upon_without_delay() -> None:
    """A second hint of the same epoch is no news: two replicas that name each other do not make a client spin."""
    guess = LeaderGuess([ONE, TWO])
    assert guess.on_hint(ONE, hint(TWO, 5))
    assert not guess.on_hint(TWO, hint(ONE, 5))
    assert guess.on_hint(ONE, hint(TWO, 6))


def test_an_empty_table_is_refused() -> None:
    """A client without replicas cannot be made."""
    with pytest.raises(ValueError, match="name at least one"):
        LeaderGuess([])
