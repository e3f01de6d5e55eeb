"""Epochs that no honest cluster can have reached: one damaged number must not use up all elections to come."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.core import messages as m
from replica.core.quorum.fencing import EPOCHS_AHEAD_MAX
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX
from tests.core.scenarios import begin, end, follower_bench, vote

NOW = 5


@pytest.mark.parametrize("epoch", [NOW + EPOCHS_AHEAD_MAX + 1, EPOCH_MAX])
@pytest.mark.parametrize("make", [vote, lambda epoch: begin(1, epoch), lambda epoch: end(1, epoch)])
def test_an_epoch_far_ahead_is_refused_and_not_stored(make: Callable[[int], m.Request], epoch: int) -> None:
    """A request that is further ahead than any run of elections is malformed: it changes no epoch and stores none."""
    bench = follower_bench(epoch=NOW)
    stored = bench.disk.quorum_state
    answered = bench.answer(make(epoch))
    assert answered is not None
    assert (answered.error, bench.epoch, bench.disk.quorum_state) == (ErrorCode.INVALID_REQUEST, NOW, stored)


def test_an_epoch_within_reach_is_taken() -> None:
    """A replica that was away for a long time is told by the present leader, and follows."""
    bench = follower_bench(epoch=NOW)
    bench.answer(begin(1, NOW + EPOCHS_AHEAD_MAX))
    assert (bench.epoch, bench.role) == (NOW + EPOCHS_AHEAD_MAX, "follower")
