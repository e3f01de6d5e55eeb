"""The Spark session of the test run, simulated clusters, and live ones: three replica processes each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nemesis.pipeline import java_available
from nemesis.pipeline.session import spark_session
from replica.spark import register
from tests.replication.bench import Cluster
from tests.spark.live import Live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two threads that knows the format; the run's own if there is one already."""
    available, reason = java_available()
    if not available:
        pytest.skip(reason)
    with spark_session("local[2]") as session:
        register(session)
        yield session


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """Three replicas that are up."""
    cluster = Live(tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers."""
    return Cluster(3)


@pytest.fixture
def lone() -> Cluster:
    """One broker."""
    return Cluster(1)
