"""A sample of what ``python -m tests.linearizability.fuzz`` does: random histories, judged by everybody."""

from __future__ import annotations

import pytest

from tests.depth import seeds, times
from tests.linearizability.fuzz import fuzz
from tests.linearizability.histories import ASK

HISTORIES = 75
LARGE_HISTORIES = 3


@pytest.mark.parametrize("workload", ASK)
def test_all_kernels_agree_with_the_oracle(workload: str) -> None:
    """No kernel, no single run and no counterexample contradicts a judge that tries every order."""
    decided, wrong = fuzz(workload, seeds(HISTORIES), seed=2)
    assert wrong == []
    assert decided["judge"] == times(HISTORIES)
    assert min(decided["valid"], decided["invalid"]) > 0, "a sample of one kind tests little"


@pytest.mark.parametrize("workload", ["register", "cas-register", "log", "list", "set-unique"])
def test_all_kernels_agree_on_longer_histories(workload: str) -> None:
    """What is too long for the oracle is judged alike by every kernel that can."""
    decided, wrong = fuzz(workload, seeds(LARGE_HISTORIES), seed=2, large=True)
    assert wrong == []
    assert decided["judge"] == times(LARGE_HISTORIES), decided
