"""Runs on objects get the same judgements from both engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from nemesis.checks import Verdict
from nemesis.pipeline import judge_runs
from nemesis.workload.catalogue import ON_OBJECTS
from nemesis.workload.register import RegisterWorkload
from tests.checks.simulation import simulate
from tests.pipeline.object_runs import object_run, used_store
from tests.pipeline.recorded import record_run
from tests.pipeline.test_run_objects import READ_1, WRITE_1, WRITE_2
from tests.workload.fake_store import FakeStore, LostUpdates, StaleReads, WrongRevisions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_all_workloads_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """Runs of each workload, on right and wrong stores, beside runs on logs: equal row by row, count by count."""
    folders = [record_run(tmp_path / "on logs", simulate(1, 1)), record_run(tmp_path / "more", simulate(4, 0))]
    folders.append(object_run(tmp_path / "by hand", RegisterWorkload, *WRITE_1, *WRITE_2, *READ_1))
    stores = (FakeStore(Random(3), unknown=0.02), StaleReads(Random(3)), LostUpdates(Random(3)))
    for number, workload in enumerate(ON_OBJECTS.values()):
        for store in (stores[number % 3], WrongRevisions(Random(3))):
            folders.append(used_store(tmp_path / f"{workload.name}-{type(store).__name__}", workload, store))

    on_spark, local = (judge_runs(folders, engine=engine, spark=spark) for engine in ("spark", "local"))

    assert [replace(one, engine={}) for one in on_spark] == [replace(one, engine={}) for one in local]
    found = {row["anomaly"] for one in local for row in one.anomalies}
    assert {"nonlinearizable", "wrong-order"} <= found
    assert {one.verdict for one in local} >= {Verdict.VALID, Verdict.INVALID}
