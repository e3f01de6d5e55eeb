"""The bench that most tests of a group begin with."""

from __future__ import annotations

import pytest

from tests.core.group.bench import GroupBench, leading_bench


@pytest.fixture
def bench() -> GroupBench:
    """Replica 0, which leads, and whose machine does."""
    return leading_bench()
