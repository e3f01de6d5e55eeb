"""One Spark session for all tests of the pipeline, or the sentence why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from nemesis.pipeline import java_available
from nemesis.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two threads, started by the product's own factory."""
    available, reason = java_available()
    if not available:
        pytest.skip(reason)
    with spark_session("local[2]") as session:
        yield session
