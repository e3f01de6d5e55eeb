"""Which Python Spark's workers run after ``register``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replica.spark.worker_python import WorkerPythonError, check_python, choose_worker_python
from tests.depth import at_night


def session(python: str, master: str = "local[2]") -> Any:
    """What is looked at of a session."""
    return SimpleNamespace(_sc=SimpleNamespace(pythonExec=python, master=master))


def test_a_local_session_runs_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody chose, workers on this machine run what runs here, and not what is first on the path."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    spark = session("python3")
    choose_worker_python(spark)

    assert spark._sc.pythonExec == sys.executable


def test_a_python_that_was_chosen_stays_if_it_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another name of a Python that has everything is kept."""
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    spark = session(str(other))
    choose_worker_python(spark)

    assert spark._sc.pythonExec == str(other)


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_a_python_that_lacks_the_package_is_told_at_once(
    master: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One sentence names the Python, what it cannot import, and what to set."""
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    with pytest.raises(WorkerPythonError) as refused:
        choose_worker_python(session(str(bare), master))

    assert f"Spark's workers run {str(bare)!r}, which cannot import replica.spark (ModuleNotFoundError" in str(
        refused.value
    )
    assert f"set PYSPARK_PYTHON to a Python that has highwater-log, such as {sys.executable}" in str(refused.value)


def test_a_python_that_is_not_there_is_told() -> None:
    """So is one that cannot be started."""
    with pytest.raises(WorkerPythonError, match="No such file or directory"):
        check_python("/nowhere/python")


def test_a_session_of_spark_connect_is_left_alone() -> None:
    """It has no context, and its workers are the server's."""
    choose_worker_python(SimpleNamespace())  # type: ignore[arg-type]


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from replica.spark import register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
options = {"bootstrap.servers": sys.argv[1]}
for action in (
    lambda: spark.read.format("highwater").options(subscribe="absent", **options).load().count(),
    lambda: spark.createDataFrame([("v",)], "value STRING").write.format("highwater").mode("append")
    .options(topic="absent", **options).save(),
):
    try:
        action()
    except Exception as error:
        said = str(error)
        print("SAID", "topic absent does not exist on" in said and "create it: replica topic create" in said)
"""


@at_night("a JVM of its own; which Python is chosen is looked at above without one")
@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_plain_session_names_a_topic_that_is_missing(live: Any, tmp_path: Path) -> None:
    """With another python3 first on the path, a read and a write of it are refused when they are planned."""
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").write_text("#!/bin/sh\nexit 1\n")
    (bare / "python3").chmod(0o755)
    path = os.pathsep.join([str(bare), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("PYSPARK_PYTHON", None)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, live.servers], env=environment, capture_output=True, text=True, check=False
    )

    assert ended.stdout.splitlines() == ["SAID True", "SAID True"], ended.stderr
