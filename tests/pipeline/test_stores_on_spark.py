"""Spark gives what one process gives, row for row, on each kind of master."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.models.registry import load_model
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.engine import judge_store
from nemesis.pipeline.corpora.histories import Reading, judge_histories
from nemesis.pipeline.corpora.on_spark import hot_in_order, plan_of
from nemesis.pipeline.corpora.pieces import in_tasks, pieces_of
from nemesis.pipeline.corpora.store import files_of
from tests.depth import at_night
from tests.pipeline.corpora import write_corpus
from tests.pipeline.jvms import SHORT_LIVED, spark_class, started
from tests.pipeline.stores import SMALL, mixed, sequence, write_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_folder_of_operations(spark: SparkSession, tmp_path: Path) -> None:
    """Buckets and windows on two workers give the rows and the evidence that they give here."""
    store = write_store(tmp_path, mixed(200))

    here = judge_store(store, CasRegister(), sizes=SMALL, engine="local")
    there = judge_store(store, CasRegister(), sizes=SMALL, spark=spark)

    assert there.keys.to_pylist() == here.keys.to_pylist()
    assert there.anomalies.to_pylist() == here.anomalies.to_pylist()
    assert {row["windows"] > 1 for row in here.keys.to_pylist()} == {True, False}


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_each_hot_object_has_a_task_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """Nine hot objects among others are nine partitions of one object each, in the order in which it was used."""
    parts = [sequence(number, 300 if number % 3 == 0 else 20) for number in range(27)]
    pieces = in_tasks(spark, pieces_of(files_of(write_store(tmp_path, parts))), 50)
    plan = plan_of(pieces, SMALL, parallelism=2)

    rows = hot_in_order(pieces, plan).rdd.mapPartitions(lambda part: [[(row.object, row.invoked) for row in part]])
    found = rows.collect()

    assert sorted({number for number, _ in part} for part in found) == [{number} for number in range(0, 27, 3)]
    assert all(len(part) == 300 and part == sorted(part) for part in found)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_corpus_of_histories(spark: SparkSession, tmp_path: Path) -> None:
    """Files of several formats, one of them broken, give the same rows on Spark, in one job."""
    files = write_corpus(tmp_path)
    reading = Reading(task=Task(model=load_model("cas-register"), budget=Budget()))

    here = judge_histories(files, reading, engine="local")
    there = judge_histories(files, reading, spark=spark)

    assert there.keys.to_pylist() == here.keys.to_pylist()
    assert there.anomalies.to_pylist() == here.anomalies.to_pylist()


PROGRAM = """
import json, sys
from pathlib import Path
from nemesis.linearizability.models.register import CasRegister
from nemesis.pipeline.corpora.engine import judge_store
from tests.pipeline.stores import SMALL
results = judge_store(Path(sys.argv[1]), CasRegister(), sizes=SMALL, engine="spark", master=sys.argv[2])
print(json.dumps([results.keys.to_pylist(), results.anomalies.to_pylist()]))
"""


def _rows_on(master: str, store: Path, **environment: str) -> object:
    """The rows that a process with a session on ``master`` finds."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(store), master],
        cwd=ROOT,
        env=os.environ | SHORT_LIVED | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@at_night("a master and two workers of Java for one folder")
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_standalone_cluster(tmp_path: Path) -> None:
    """A master and a worker, started from the pip package, give the rows that this process gives."""
    command = spark_class()
    store = write_store(tmp_path / "store", mixed(40))
    here = judge_store(store, CasRegister(), sizes=SMALL, engine="local")
    deploy = "org.apache.spark.deploy"
    loopback = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with (
        started([command, f"{deploy}.master.Master", *loopback], tmp_path, r"spark://127\.0\.0\.1:\d+") as master,
        started(
            [command, f"{deploy}.worker.Worker", *loopback, "-c", "2", "-m", "1g", "-d", str(tmp_path), master],
            tmp_path,
            "Successfully registered with master",
        ),
    ):
        there = _rows_on(master, store, SPARK_LOCAL_IP="127.0.0.1")

    assert there == [here.keys.to_pylist(), here.anomalies.to_pylist()]


@at_night("a server of Java for one folder")
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("grpc_status") is None, reason="Spark Connect needs grpcio-status: pyspark[connect]")
def test_spark_connect(tmp_path: Path) -> None:
    """A thin client of a Spark Connect server gets the rows that this process gives."""
    spark_class()
    store = write_store(tmp_path / "store", mixed(40))
    here = judge_store(store, CasRegister(), sizes=SMALL, engine="local")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    start = Path(spec.origin).parent / "sbin" / "start-connect-server.sh"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = ["bash", str(start), "--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"]
    with started(command, tmp_path, "Spark Connect server started", SPARK_NO_DAEMONIZE="1"):
        there = _rows_on(f"sc://127.0.0.1:{port}", store)

    assert there == [here.keys.to_pylist(), here.anomalies.to_pylist()]
