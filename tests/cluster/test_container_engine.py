"""How a container engine is found, and what takes its containers away: told by a script that plays the engine."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemesis.cluster import containers_engine
from nemesis.cluster.containers import IMAGE_VARIABLE, ContainersHost
from nemesis.cluster.containers_engine import ENGINE_VARIABLE, EngineError, find_engine
from nemesis.cluster.containers_network import lacked_by_containers
from nemesis.cluster.containers_process import ContainerProcess
from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.netns_links import WHY_PROXIES_ONLY
from nemesis.errors import UnsupportedError
from nemesis.faults.disks import PowerLoss
from nemesis.faults.impairments import Duplicate
from nemesis.faults.partitions import Partition
from nemesis.faults.processes import Kill
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import Clog
from nemesis.faults.targets import Role
from nemesis.reaper import LABEL, Reaper
from tests.cluster.fake_engine import Fake, fake_engine

PATIENCE_S = 30.0


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The only engine of this machine."""
    return fake_engine(tmp_path / "engine", monkeypatch)


def test_the_engine_that_is_named_is_taken(fake: Fake) -> None:
    """It is asked whether it is well, and nothing else."""
    assert find_engine().program == str(fake.program)
    assert fake.told == ["info"]


def test_each_engine_says_why_it_is_none(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is ill and says how, another is not there: both are told."""
    fake.make("refuses")
    monkeypatch.delenv(ENGINE_VARIABLE)
    monkeypatch.setattr(containers_engine, "PROGRAMS", ("docker", "no-such-engine"))
    with pytest.raises(UnsupportedError, match="docker info: the engine is ill; no-such-engine is not installed"):
        find_engine()


def test_an_image_that_is_not_there_is_unsupported(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found before anything is made, and the message says what makes it."""
    with pytest.raises(UnsupportedError, match="no image highwater-replica: `make images` builds it"):
        new_host(ClusterKind.CONTAINERS, tmp_path, 3)

    monkeypatch.setenv(IMAGE_VARIABLE, "there")
    assert new_host(ClusterKind.CONTAINERS, tmp_path, 3).nodes == (1, 2, 3)
    assert {line.split()[0] for line in fake.told} == {"info", "image"}


def test_what_the_engine_refuses_is_told_in_its_words(fake: Fake) -> None:
    """Of what it was told, only the first word is repeated."""
    engine = find_engine()
    fake.make("refuses")
    with pytest.raises(EngineError, match=r"docker info: the engine is ill$"):
        engine.call("info")


async def test_the_loop_goes_on_while_an_engine_pauses(fake: Fake, tmp_path: Path) -> None:
    """Clients do not wait for what an engine takes to pause a container, nor to let it go on."""
    process = ContainerProcess(find_engine(), "one", ("there",), tmp_path / "log")
    try:
        for done in (process.pause, process.resume):
            doing = asyncio.create_task(done())
            async with asyncio.timeout(PATIENCE_S):
                while not (fake.folder / "asked").exists():
                    await asyncio.sleep(0.01)
            fake.make("go")
            assert await doing
            for name in ("asked", "go"):
                (fake.folder / name).unlink()
    finally:
        process.leave()


def test_links_take_root_and_the_rest_does_not(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not root can kill, and cannot cut; clogged links are the simulator's, disks and duplicates are others'."""
    monkeypatch.setenv(IMAGE_VARIABLE, "there")
    host = ContainersHost(tmp_path, 3)
    partition = Partition(shape=Shape.ISOLATE, target=Role.LEADER)
    assert host.lacks(Kill(target=Role.LEADER).need) is None
    assert host.lacks(Clog(shape=Shape.HALVES).need) == "it can be done in the simulator only"
    assert "disks are broken where nodes are processes" in str(host.lacks(PowerLoss(target=Role.LEADER).need))
    assert host.lacks(Duplicate(target=Role.LEADER).need) == WHY_PROXIES_ONLY

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (
        lacked_by_containers(partition.need)
        == host.lacks(partition.need)
        == "entering the network of a container takes root"
    )
    assert host.lacks(Kill(target=Role.LEADER).need) is None


def test_the_reaper_waits_for_the_end_and_takes_all_away(fake: Fake) -> None:
    """Nothing is done before it is told; then the run's containers and networks are gone, and those only are asked for.

    Once more it looks, for what the engine was just making.
    """
    fake.make("containers/one", "containers/two", "networks/three")
    reaper = Reaper(str(fake.program), "a1b2")
    wait_reading(reaper.pid)
    assert not (fake.folder / "told").exists()

    assert reaper.reap()
    assert fake.left == []
    looks = [line for line in fake.told if line.startswith(("ps ", "network ls"))]
    assert len(looks) == 6
    assert all(line.endswith(f"--filter label={LABEL}=a1b2") for line in looks)


def test_the_reaper_outlives_who_started_it(fake: Fake) -> None:
    """Who is killed by SIGKILL has no time for anything; signals that are for the harness do not end the reaper."""
    fake.make("containers/one", "networks/two")
    starts = (
        f"from nemesis.reaper import Reaper; one = Reaper({str(fake.program)!r}, 'a1b2'); print(one.pid, flush=True)"
    )
    harness = subprocess.Popen(
        (sys.executable, "-c", f"{starts}; input()"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert harness.stdout is not None
    reaper = int(harness.stdout.readline())
    assert os.getsid(reaper) == reaper != os.getsid(harness.pid)
    wait_reading(reaper)
    os.kill(reaper, signal.SIGTERM)
    assert fake.left == ["one", "two"]

    harness.kill()
    harness.communicate(timeout=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while fake.left:
        assert time.monotonic() < deadline, fake.told
        time.sleep(0.02)


def wait_reading(pid: int) -> None:
    """Wait until a process waits for its standard input: by the kernel's word, in ``read`` of 0."""
    deadline = time.monotonic() + PATIENCE_S
    while not re.match(r"\d+ 0x0 ", (syscall := Path(f"/proc/{pid}/syscall").read_text())):
        assert time.monotonic() < deadline, syscall
        time.sleep(0.02)
