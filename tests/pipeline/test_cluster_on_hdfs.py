"""A cluster whose workers share nothing but a file system of Hadoop's judges what this process judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.pipeline import judge_runs
from tests.checks.simulation import simulate
from tests.depth import at_night
from tests.pipeline.hdfs import Hdfs, hdfs
from tests.pipeline.jvms import SHORT_LIVED, spark_class, started
from tests.pipeline.recorded import cluster_run, record_run

DEPLOY = "org.apache.spark.deploy"
LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
ALONE = ("unshare", "--map-root-user", "--mount", "sh", "-c")
"""How a process gets mounts of its own, and then what the shell says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A master by its URL, and what its workers have logged so far."""

    master: str
    logs: tuple[Path, ...]


@contextmanager
def standalone(folder: Path, hidden: Path) -> Iterator[Cluster]:
    """A master and two workers of one core, each of which has an empty folder of its own in the place of ``hidden``."""
    command = spark_class()
    with ExitStack() as stack:
        master = stack.enter_context(
            started([command, f"{DEPLOY}.master.Master", *LOOPBACK], folder, r"spark://127\.0\.0\.1:\d+")
        )
        logs = [folder / f"worker-{number}" for number in range(2)]
        for log in logs:
            log.mkdir()
            words = [
                command,
                f"{DEPLOY}.worker.Worker",
                *LOOPBACK,
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                f"{hidden}/work",
                master,
            ]
            alone = [*ALONE, f'mount -t tmpfs none {hidden} && cd {hidden} && exec "$@"', "worker", *words]
            stack.enter_context(started(alone, log, "Successfully registered with master", TMPDIR=str(hidden)))
        yield Cluster(master=master, logs=tuple(path for log in logs for path in log.glob("*.log")))


def check(cluster: Cluster, scratch: Path, urls: list[str]) -> subprocess.CompletedProcess[str]:
    """``nemesis check`` of runs on the cluster."""
    command = [sys.executable, "-m", "nemesis.cli", "check", *urls, "--engine", "spark", "--master", cluster.master]
    memory = {"PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=512m pyspark-shell", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment = os.environ | SHORT_LIVED | memory | {"TMPDIR": str(scratch)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def put(files: Hdfs, folders: list[Path]) -> list[str]:
    """Move run folders into the file system; their URLs. Nothing of them stays here."""
    files.shell("-mkdir", "/runs")
    files.shell("-moveFromLocal", *map(str, folders), "/runs")
    return [f"{files.url}/runs/{folder.name}" for folder in folders]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@at_night("a dozen processes of Java for a few runs")
def test_workers_that_share_hdfs_only(tmp_path: Path) -> None:
    """Two workers, who see no folder of the driver nor of each other, judge runs in HDFS; the results are put there."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("only root, or who may make namespaces, can hide a folder from a process")
    hidden = tmp_path / "hidden"
    scratch, outside = hidden / "scratch", tmp_path / "outside"
    for folder in (scratch, outside):
        folder.mkdir(parents=True)
    folders = [record_run(hidden / str(seed), simulate(seed, seed % 4), shard_rows=20) for seed in range(6)]
    folders.append(record_run(hidden / "cluster", cluster_run()))
    here = [json.loads(judged.to_json()) for judged in judge_runs(folders, engine="local")]
    with hdfs(outside) as files, standalone(outside, hidden) as cluster:
        urls = put(files, folders)
        done = check(cluster, scratch, urls)
        assert done.returncode == Exit.INVALID, done.stderr[-4000:]
        files.shell("-get", "/runs", str(outside / "back"))
        assert all("Asked to launch executor" in log.read_text() for log in cluster.logs)
    assert not any(folder.exists() for folder in folders)
    there = [json.loads((outside / "back" / folder.name / "results.json").read_text()) for folder in folders]
    engines = [one.pop("engine")["name"] for one in (*there, *here)]
    assert engines == ["spark"] * len(urls) + ["local"] * len(urls)
    assert there == here
