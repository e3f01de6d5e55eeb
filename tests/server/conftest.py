"""The process that most tests of a single one begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.local_cluster import LocalCluster


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LocalCluster]:
    """A formatted cluster of one, not started."""
    with LocalCluster(tmp_path, size=1) as cluster:
        cluster.format()
        yield cluster
