"""Runs on objects get the same judgements from both engines."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from nemesis.checks import Verdict
from nemesis.history import Workload
from nemesis.pipeline import frames, judge_runs
from nemesis.pipeline.local import with_run_id
from tests.checks.simulation import simulate
from tests.pipeline.object_runs import history_of, object_run, used_store
from tests.pipeline.recorded import record_run
from tests.pipeline.test_run_objects import READ_1, WRITE_1, WRITE_2
from tests.workload.fake_store import FakeStore, LostUpdates, StaleReads, WrongRevisions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_all_workloads_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    """Runs of each workload, on right and wrong stores, beside runs on logs: equal row by row, count by count."""
    folders = [record_run(tmp_path / "on logs", simulate(1, 1)), record_run(tmp_path / "more", simulate(4, 0))]
    folders.append(object_run(tmp_path / "by hand", Workload.REGISTER, *WRITE_1, *WRITE_2, *READ_1))
    stores = (FakeStore(Random(3), unknown=0.02), StaleReads(Random(3)), LostUpdates(Random(3)))
    for number, workload in enumerate(workload for workload in Workload if workload.is_on_objects):
        for store in (stores[number % 3], WrongRevisions(Random(3))):
            folders.append(used_store(tmp_path / f"{workload}-{type(store).__name__}", workload, store))

    on_spark, local = (judge_runs(folders, engine=engine, spark=spark) for engine in ("spark", "local"))

    assert [replace(one, engine={}) for one in on_spark] == [replace(one, engine={}) for one in local]
    found = {row["anomaly"] for one in local for row in one.anomalies}
    assert {"nonlinearizable", "wrong-order"} <= found
    assert {one.verdict for one in local} >= {Verdict.VALID, Verdict.INVALID}


def test_the_names_of_many_runs_are_a_table(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100,000 runs one has read what nobody wrote; the JVM is not called for each."""
    workloads = {f"run {number}": Workload.REGISTER for number in range(100_000)}
    history = spark.createDataFrame(with_run_id(history_of(*READ_1), "run 7"))
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    send, calls = client.send_command, count()

    def counted(*args: Any, **named: Any) -> Any:
        next(calls)
        return send(*args, **named)

    monkeypatch.setattr(client, "send_command", counted)

    judged = frames.found_in(history.transform(frames.object_findings, workloads, 2).toArrow()).anomalies
    others = history.transform(frames.of_other_runs, workloads).toArrow()

    assert (judged.column("run_id").to_pylist(), others.num_rows) == (["run 7"], 0)
    assert 0 < next(calls) < 10_000
