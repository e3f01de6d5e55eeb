"""The bench that most tests of a quorum begin with; a file whose tests mostly begin otherwise says so."""

from __future__ import annotations

import pytest

from tests.core.harness import Bench
from tests.core.scenarios import leader_bench


@pytest.fixture
def bench() -> Bench:
    """Replica 0, which leads an epoch and has committed nothing of it yet."""
    return leader_bench()
