"""The handle of a cluster, and the process that owns one, with no replica started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.plugin.cluster import Cluster, ClusterError
from nemesis.plugin.host import Calls

FAKE_HOST = (str(Path(__file__).with_name("fake_host.py")),)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A handle on a process that only answers."""
    with Cluster(tmp_path, host=FAKE_HOST) as cluster:
        yield cluster


@pytest.mark.parametrize("name", ["start", "stop", "kill", "pause", "resume"])
def test_a_replica_that_does_not_exist_is_refused(cluster: Cluster, name: str) -> None:
    """No call says that nothing was to do, where a test has named the wrong replica; the others still work."""
    with pytest.raises(ClusterError, match="there is no replica 9: give one of 1, 2, 3"):
        getattr(cluster, name)(9)
    assert cluster.kill(1)


def test_an_error_leaves_the_cluster(cluster: Cluster) -> None:
    """A call that is refused is told, and the next one has its own answer."""
    with pytest.raises(ClusterError, match="no links"):
        cluster.isolate(1)
    assert cluster.kill(1)


@pytest.mark.slow
def test_a_cluster_that_a_test_cannot_reach_is_refused(tmp_path: Path) -> None:
    """A test's clients are outside of the networks of a cluster in namespaces: nothing is started, and it says so."""
    with pytest.raises(ClusterError, match="outside of the network"):
        Cluster(tmp_path, ("--cluster", "netns"))
    assert not (tmp_path / "nodes").exists()


def test_an_interrupted_call_is_the_last(tmp_path: Path) -> None:
    """The answer to a call that was interrupted is never taken for that to the next one."""
    with Cluster(tmp_path, host=(*FAKE_HOST, "late")) as cluster:

        def interrupt(number: int, frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt):
                cluster.view()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        with pytest.raises(ClusterError, match="the cluster is gone"):
            cluster.kill(1)


@pytest.mark.parametrize("request_", [{"do": "nonsense"}, {"do": "kill"}, {"do": "cut", "key": "a"}])
async def test_whatever_goes_wrong_is_an_answer(request_: dict[str, object], tmp_path: Path) -> None:
    """A call that its owner cannot make is told as an error; it does not end the cluster."""
    answer = await Calls(ReplicaCluster(LocalHost(tmp_path, 3), ReplicaOptions())).answer_to(request_)
    assert set(answer) == {"error"}
