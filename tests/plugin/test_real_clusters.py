"""The fixtures over real replicas: they do what they say, and nothing of them outlives the tests."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nemesis.plugin.cluster import Cluster, ClusterError
from replica.client import RecordMetadata

pytestmark = pytest.mark.cluster

PATIENCE_S = 100.0
PARTITION = "topic1-0"
FAST = ("--partitions", "1", "--session-timeout-ms", "1500", "--election-timeout-ms", "300")
CHAOS = """
import pytest

@pytest.mark.nemesis(faults=["kill"], time_limit={time_limit}, rate=50, concurrency=3, partitions=1, seed=5)
def test_kept(chaos):
    run = chaos.run()
    assert run.stats["acked_checked"] > 0
    assert run.faults_bit
"""


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes whose command names this folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


async def write(cluster: Cluster) -> RecordMetadata:
    """Write one record and wait until it is acknowledged."""
    async with cluster.producer() as producer:
        return await producer.send("topic1", b"x")


def start_pytest(folder: Path, time_limit: int) -> subprocess.Popen[str]:
    """Start pytest in a project that has one chaos test, as a terminal would."""
    (folder / "test_chaos.py").write_text(CHAOS.format(time_limit=time_limit))
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "pytest", "-p", "nemesis.plugin.hooks", "-p", "no:cacheprovider", "test_chaos.py"]
    # Tests that a shell runs in the background ignore Ctrl-C, and what they start would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_cluster_is_written_to_and_broken_by_hand(tmp_path: Path) -> None:
    """A leader that is cut off is replaced, an address outlives its replica, and nothing runs after the end."""
    with Cluster(tmp_path, FAST) as cluster:
        assert (cluster.nodes, cluster.topic_partitions) == ((1, 2, 3), (PARTITION,))
        first = asyncio.run(write(cluster))
        leader = cluster.wait_leader(PARTITION)
        cluster.isolate(leader)
        other = cluster.wait_leader(PARTITION, other_than=leader)
        cluster.heal()
        second = asyncio.run(write(cluster))
        assert second.leader_epoch is not None
        assert first.leader_epoch is not None
        assert second.leader_epoch > first.leader_epoch
        assert cluster.kill(other)
        assert not cluster.kill(other)
        cluster.start(other)
        cluster.wait_in_sync()
        assert asyncio.run(write(cluster)).offset == 2
        assert len(processes_in(tmp_path)) == 4, "three replicas and whoever owns them"
        with pytest.raises(ClusterError, match="there are no links"):
            cluster.cut([(1, 9)])
    assert processes_in(tmp_path) == []
    with pytest.raises(ClusterError, match="the cluster is gone"):
        cluster.view()


def test_a_cluster_that_does_not_start_says_why(tmp_path: Path) -> None:
    """What the process that owns it said last is in the error, and nothing is left."""
    with pytest.raises(ClusterError, match=r"replication_factor \(4\) and nodes \(3\) must not fall"):
        Cluster(tmp_path, ("--replication-factor", "4"))
    assert processes_in(tmp_path) == []


@pytest.mark.long
def test_a_chaos_test_passes_on_the_right_protocol(tmp_path: Path) -> None:
    """A project with nothing but a test has a cluster killed and judged, and all of it is gone afterwards."""
    out, err = (process := start_pytest(tmp_path, 6)).communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + err
    assert "valid: test_chaos.py::test_kept, seed 5: " in out
    assert processes_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_test_leaves_nothing_running(number: signal.Signals, tmp_path: Path) -> None:
    """A Ctrl-C, and even the death of pytest, ends the run and every replica."""
    process = start_pytest(tmp_path, 60)
    deadline = time.monotonic() + PATIENCE_S
    while not list(tmp_path.glob("store/*/append/latest/nodes/*/replica.log")):
        assert time.monotonic() < deadline, "nothing was started"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    if number is signal.SIGINT:
        assert process.returncode == pytest.ExitCode.INTERRUPTED, out
        assert processes_in(tmp_path) == []
    while processes_in(tmp_path):
        assert time.monotonic() < deadline, processes_in(tmp_path)
        time.sleep(0.02)
