"""Runs are judged where they lie, on any file system that Spark knows; here on the one that is always there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nemesis.history.errors import HistoryError
from nemesis.pipeline import judge_runs, write_results
from nemesis.pipeline.hadoop import is_url, place_of
from tests.checks.simulation import simulate
from tests.pipeline.recorded import cluster_run, record_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_runs_by_their_urls(spark: SparkSession, tmp_path: Path) -> None:
    """By URLs, plain and odd, runs get the judgements that they get by paths, and their results are written there."""
    folders = [record_run(tmp_path / "a b+c" / "1", cluster_run()), record_run(tmp_path / "x" / "2", simulate(3, 1))]
    (folders[1] / "history" / "part-00000.parquet").write_bytes(b"no shard")
    urls = [f"file://{folder}" for folder in folders]

    judged, here = judge_runs(urls, spark=spark), judge_runs(folders, engine="local")

    assert [replace(one, engine={}, reasons=()) for one in judged] == [
        replace(one, engine={}, reasons=()) for one in here
    ]
    assert any("part-00000.parquet cannot be read" in reason for reason in judged[1].reasons)
    write_results(judged[0], place_of(spark, urls[0]))
    written = write_results(judged[0], place_of(spark, urls[0]))
    assert written.read_text(encoding="utf-8") == judged[0].to_json()
    assert (folders[0] / "results.json").read_text() == judged[0].to_json()
    with pytest.raises(HistoryError, match="nowhere is not a run folder"):
        judge_runs([f"file://{tmp_path}/nowhere"], spark=spark)


def test_urls_are_for_spark(tmp_path: Path) -> None:
    """This process reads folders only, and says so; a path is no URL whatever is in its name."""
    with pytest.raises(HistoryError, match=r"hdfs://host/run is on a file system that only Spark reads"):
        judge_runs(["hdfs://host/run"], engine="local")
    assert [is_url("s3a://bucket/run"), is_url("run"), is_url(tmp_path)] == [True, False, False]
