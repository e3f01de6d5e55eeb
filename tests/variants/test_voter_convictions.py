"""A log whose voters change loses what was committed by a wrong protocol, in a story that the right one passes."""

from __future__ import annotations

import pytest

from nemesis.simulator.violations import BrokenInvariantError
from nemesis.variants.catalogue import BUILT
from replica.core.rules import Rules
from tests.variants.stories_of_voters import two_leaders_remove_one_each


def test_two_leaders_that_change_voters_without_each_other_lose_a_commit() -> None:
    """By the right rules nothing is lost; where a change waits for no record of the own epoch, a committed one is."""
    two_leaders_remove_one_each(Rules)

    with pytest.raises(BrokenInvariantError, match="without the log that was committed") as convicted:
        two_leaders_remove_one_each(BUILT["change-before-own-epoch"].rules)
    assert convicted.value.name == "leader-completeness"
