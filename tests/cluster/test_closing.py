"""How clusters end that did not begin, or do not heal: everything is taken away, and the first reason is told first."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.cluster.closing import closed_by, told
from nemesis.cluster.containers import IMAGE_VARIABLE
from nemesis.cluster.kinds import ClusterKind
from nemesis.cluster.links import Links
from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.errors import NodeFailedError
from nemesis.plugin.cluster import Cluster, ClusterError
from nemesis.runner import RunOptions, record_run
from nemesis.schedules.schedule import Schedule
from tests.cli.commands import nemesis
from tests.cluster.fake_engine import Fake, fake_engine

REFUSED = "docker network: no more networks"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """An engine that makes the first of a run's two networks, and refuses the second."""
    monkeypatch.setenv(IMAGE_VARIABLE, "there")
    return fake_engine(tmp_path / "engine", monkeypatch)


async def test_every_step_is_taken_and_every_error_told() -> None:
    """Two of three steps go wrong after what is within has: that is raised, and the others are its notes, in order."""
    taken: list[str] = []

    async def step(name: str) -> None:
        taken.append(name)
        if name != "second":
            raise NodeFailedError(f"the {name} step")

    with pytest.raises(ValueError, match="within") as raised:
        async with closed_by(lambda: step("first"), lambda: step("second"), lambda: step("third")):
            raise ValueError("within")
    assert taken == ["first", "second", "third"]
    assert told(raised.value) == "within; then: the first step; then: the third step"


async def test_a_cancellation_takes_every_step() -> None:
    """Who is cancelled within, and again in a step, has taken all of them, and is cancelled."""
    taken: list[str] = []

    async def step() -> None:
        taken.append("waits")
        await asyncio.sleep(60)

    async def closes() -> None:
        async with closed_by(step, lambda: taken.append("last")):
            await asyncio.sleep(60)

    task = asyncio.create_task(closes())
    for _ in range(2):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert taken == ["waits", "last"]


class Unhealing(Links):
    """Links that cannot be healed."""

    async def heal_all(self) -> None:
        raise NodeFailedError("the links cannot be healed")


class HostOf(LocalHost):
    """A host with these links, that says when it is closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 3)
        self.links = Unhealing(self.nodes)
        self.is_closed = False

    async def close(self) -> None:
        self.kill_all_now()
        self.is_closed = True


async def test_links_that_do_not_heal_keep_nothing_alive(tmp_path: Path) -> None:
    """The host is closed all the same, and with it its processes; then the failed heal is told."""
    host = HostOf(tmp_path)
    cluster = ReplicaCluster(host, ReplicaOptions())
    host.make_folders()
    await host.run(1, ("sleep", "60"), tmp_path / "log")
    with pytest.raises(NodeFailedError, match="the links cannot be healed"):
        await cluster.close()
    assert host.is_closed
    assert not host.is_running(1)


async def test_a_network_that_does_not_open_is_told_and_taken_away(tmp_path: Path, engine: Fake) -> None:
    """The engine's own words are the reason of a run that has not begun, and nothing of it is left."""
    options = RunOptions(seed=1, kind=ClusterKind.CONTAINERS)
    with pytest.raises(NodeFailedError) as raised:
        await record_run(tmp_path / "run", options, Schedule(name="none", time_limit_s=1, steps=()), print)
    assert (told(raised.value), engine.left) == (f"{engine.folder}/{REFUSED}", [])


@pytest.mark.slow
def test_a_test_is_told_why_its_cluster_is_not_there(tmp_path: Path, engine: Fake) -> None:
    """The same holds for the process that owns a test's cluster."""
    with pytest.raises(ClusterError) as raised:
        Cluster(tmp_path / "cluster", ("--cluster", "containers"))
    assert (str(raised.value), engine.left) == (f"{engine.folder}/{REFUSED}", [])


@pytest.mark.slow
def test_a_sweep_goes_on_after_a_run_that_has_not_begun(tmp_path: Path, engine: Fake) -> None:
    """Each seed is tried, and is unknown with the reason; the sweep's document is there."""
    output = tmp_path / "soak.json"
    words = ("--seeds", "1-2", "--cluster", "containers", "--nemesis", "kill", "--time-limit", "6", "--engine", "local")
    done = nemesis("soak", *words, "--store", str(tmp_path / "store"), "--output", str(output))
    assert done.returncode == Exit.UNKNOWN, done.stderr
    rows = json.loads(output.read_text())["runs"]
    assert [(row["seed"], row["verdict"]) for row in rows] == [(1, "unknown"), (2, "unknown")]
    assert all(f"{engine.folder}/{REFUSED}" in row["reasons"][-1] for row in rows)
    assert engine.left == []
