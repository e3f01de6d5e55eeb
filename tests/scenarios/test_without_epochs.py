"""The protocols from before leader epochs decide otherwise than the right one, and all that they say that they do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nemesis.variants.catalogue import BUILT
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.rules import Rules
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset

FOLLOWER = LeaderEpochCache((EpochEntry(Epoch(0), Offset(0)), EpochEntry(Epoch(2), Offset(1))))
LEADER = LeaderEpochCache(
    (EpochEntry(Epoch(0), Offset(0)), EpochEntry(Epoch(1), Offset(1)), EpochEntry(Epoch(3), Offset(5)))
)


def fencing(rules: Rules) -> object:
    """A request from epoch 1 to a replica in epoch 2."""
    return rules.epoch_error(current_leader_epoch=Epoch(1), own_epoch=Epoch(2))


def divergence(rules: Rules) -> object:
    """A fetch from offset 5 after epoch 2, which the leader never had."""
    return rules.has_diverged(
        end=EpochEndOffset(Epoch(1), Offset(5)), fetch_offset=Offset(5), last_fetched_epoch=Epoch(2)
    )


def beginning_to_follow(rules: Rules) -> object:
    """A log that ends at 2 with a high watermark of 1."""
    return rules.kept_by_new_follower(high_watermark=Offset(1), log_end_offset=Offset(2))


def where_an_epoch_ends(rules: Rules) -> object:
    """The leader's answer about epoch 2."""
    end = rules.partition_epoch_end(epochs=LEADER, epoch=Epoch(2), log_end_offset=Offset(6))
    return None if end is None else f"{end.epoch} {end.end_offset}"


def truncation(rules: Rules) -> object:
    """The follower's reaction to an end of epoch 1 at offset 5, where its own log has epoch 2 from offset 1."""
    leader = EpochEndOffset(Epoch(1), Offset(5))
    return rules.truncation(epochs=FOLLOWER, log_end_offset=Offset(5), leader=leader)


@pytest.mark.parametrize(
    ("name", "decision", "wrong", "right"),
    [
        ("truncate-to-high-watermark", beginning_to_follow, 1, 2),
        ("truncate-to-high-watermark", fencing, None, "FENCED_LEADER_EPOCH"),
        ("truncate-to-high-watermark", divergence, False, True),
        ("offset-without-epoch", where_an_epoch_ends, "2 5", "1 5"),
        ("offset-without-epoch", truncation, 5, 1),
        ("offset-without-epoch", fencing, None, "FENCED_LEADER_EPOCH"),
    ],
)
def test_each_rule_is_another(name: str, decision: Callable[[Rules], object], wrong: object, right: object) -> None:
    """Asked the same, the old protocol and the right one answer differently."""
    assert decision(BUILT[name].rules()) == wrong
    assert decision(Rules()) == right
