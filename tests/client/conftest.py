"""The clusters and the group that most tests of their clients begin with."""

from __future__ import annotations

import pytest

from tests.client.group_fakes import FakeGroup
from tests.replication.bench import Cluster


@pytest.fixture
def group() -> FakeGroup:
    """Three replicas of a counter, the first of which leads."""
    return FakeGroup()


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers."""
    return Cluster(3)


@pytest.fixture
def lone() -> Cluster:
    """One broker."""
    return Cluster(1)
