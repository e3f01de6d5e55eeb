"""Real replicas on disks that can be broken: what befalls them is seen from outside, and heals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import OS, ReplicaOptions, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.disks.damage import DiskPart
from nemesis.disks.files import FLUSH_S_MIN
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.targets import Role
from nemesis.runner import that_can_break_disks
from nemesis.schedules.schedule import Heal, Inject
from tests.cluster.stage import NAME, Stage, running

pytestmark = pytest.mark.cluster

OPTIONS = that_can_break_disks(ReplicaOptions(topics=TopicOptions(partitions=1)))
AFTERWARDS = 1_000_000
"""A value that is appended when the power is back."""
LOSES_ALL_DRAW = 44
"""By this the first power loss leaves no replica anything that it had not flushed, as it happens."""


class DiskStage(Stage):
    """A stage whose replicas run on disks that can be broken."""

    def __init__(self, folder: Path, options: ReplicaOptions = OPTIONS) -> None:
        super().__init__(folder, options)

    async def append_on(self, acknowledged: set[int]) -> None:
        """Append one value after the other, and note which are acknowledged, until cancelled."""
        for value in count():
            await self.append(value)
            acknowledged.add(value)

    async def values(self, until: Callable[[set[int]], bool]) -> set[int]:
        """What the log holds, as soon as it is as it should be."""
        while True:
            with suppress(NotDoneError, UnknownOutcomeError):
                found = {value for _, value in (await self.client.poll(NAME, 0)).records}
                if until(found):
                    return found
            await asyncio.sleep(0.05)

    async def isr(self) -> tuple[int, ...]:
        """Who is in sync, by the word of whoever knows most."""
        state = await self.cluster.cluster_state()
        return () if state is None else state.partitions[NAME].isr


@pytest.mark.parametrize("log_flush", ["fsync", OS])
async def test_what_was_acknowledged_survives_a_power_loss_if_it_was_flushed(tmp_path: Path, log_flush: str) -> None:
    """With a flush before each acknowledgement everything is there, and without one what came last is not.

    What came before that may have been flushed: a replica does so every few seconds, whoever asks for it.
    """
    acknowledged: set[int] = set()
    async with running(DiskStage(tmp_path, replace(OPTIONS, log_flush=log_flush))) as stage:
        writing = asyncio.create_task(stage.append_on(acknowledged))
        while len(acknowledged) < 20:
            await asyncio.sleep(0.01)
        await stage.do(Inject(fault_id=0, fault=PowerLoss(target=Role.ALL), draw=LOSES_ALL_DRAW))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert not any(stage.cluster.is_running(node) for node in stage.cluster.nodes)
        await stage.do(Heal(fault_id=0))
        await stage.append(AFTERWARDS)
        found = await stage.values(lambda found: AFTERWARDS in found)

    assert (acknowledged <= found) == (log_flush == "fsync")
    assert stage.told("power-loss")["replicas"] == [1, 2, 3]
    assert stage.told("start")["lost"] or log_flush == "fsync"
    assert not any(report.event in ("halted", "died") for report in stage.cluster.reports())


@pytest.mark.parametrize("fault", [FailDisk(target=Role.LEADER, call="fsync"), FillDisk(target=Role.LEADER)])
async def test_a_replica_whose_disk_refuses_ends_and_comes_back(tmp_path: Path, fault: Fault) -> None:
    """It ends by itself, which is not held against it; others go on, and it is started when its disk is well again."""
    async with running(DiskStage(tmp_path)) as stage:
        await stage.append(1)
        await stage.do(Inject(fault_id=0, fault=fault))
        (broken,) = (
            node for node in stage.cluster.nodes if (tmp_path / "nodes" / str(node) / "disk-hindrance").exists()
        )
        writing = asyncio.create_task(stage.append(2))
        while stage.cluster.is_running(broken):
            await asyncio.sleep(0.05)
        await writing
        await stage.do(Heal(fault_id=0))
        assert stage.cluster.is_running(broken)
        await stage.values(lambda found: {1, 2} <= found)

    assert stage.told(fault.healer)["ended"] == [broken]
    told = {report.event for report in stage.cluster.reports() if report.node == broken}
    assert told & {"halted-by-disk", "died-by-disk"}
    assert not told & {"halted", "died"}


async def test_slow_disks_make_appends_slow(tmp_path: Path) -> None:
    """An append takes as long as a flush of the slowed leader at least, until it is healed.

    The factor is small, since a flush that a busy machine takes long for must not outlast the replicas' patience.
    """
    fault = SlowDisk(target=Role.ALL, factor=21)
    async with running(DiskStage(tmp_path)) as stage:
        await stage.append(1)
        await stage.do(Inject(fault_id=0, fault=fault))
        began_s = time.monotonic()
        await stage.append(2)
        took_s = time.monotonic() - began_s
        await stage.do(Heal(fault_id=0))
        await stage.append(3)

    assert took_s >= 20 * FLUSH_S_MIN
    assert stage.told("speed-up-disk")["ended"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "file"),
    [
        (DamageDisk(target=Role.LEADER, how="flip"), ".log"),
        (DamageDisk(target=Role.FOLLOWER, how="cut"), ".log"),
        (DamageDisk(target=Role.LEADER, how="cut", part=DiskPart.STATE), ""),
    ],
)
async def test_a_replica_whose_disk_is_damaged_notices(tmp_path: Path, fault: DamageDisk, file: str) -> None:
    """It says why, and the others go on.

    It stays out and changes nothing, and with its file put back it is in sync again. Or it serves all but the partition
    whose log is damaged, and is in sync again by itself.
    """
    async with running(DiskStage(tmp_path)) as stage:
        await stage.append(1)
        for node in stage.cluster.nodes:  # What a restart has found is promised.
            await stage.cluster.stop(node)
            await stage.cluster.start(node)
        await stage.do(Inject(fault_id=0, fault=fault, draw=5))
        (done,) = stage.told("damage-disk")["done"]
        node = done["replica"]
        damaged = tmp_path / "nodes" / str(node) / "data" / done["file"]
        content = damaged.read_bytes()
        is_out = not stage.cluster.is_running(node)
        await stage.append(2)
        assert not is_out or damaged.read_bytes() == content
        await stage.do(Heal(fault_id=0))
        assert not is_out or damaged.read_bytes() != content
        while node not in await stage.isr():
            await asyncio.sleep(0.05)
        assert await stage.values(lambda found: 2 in found) == {1, 2}

    is_of_partition = done["file"].startswith("topic1-")
    assert (done["outcome"], is_out) == (("offline", False) if is_of_partition else ("refused", True))
    assert done["file"].endswith(file)
    assert (done["how"], done["file"] in done["said"]) == (fault.how, True)
    restored = [{"replica": node, "file": done["file"]}] if is_out else []
    assert stage.told("end-damage")["restored"] == restored
    told = {report.event for report in stage.cluster.reports() if report.node == node}
    assert ("halted-by-disk" in told) is is_out
    assert not told & {"halted", "died"}


def test_replicas_on_files_of_their_own_cannot_be_struck(tmp_path: Path) -> None:
    """A cluster of plain replicas says before it starts that their disks cannot be broken."""
    plain = ReplicaOptions()

    why = ReplicaCluster(LocalHost(tmp_path, plain.nodes), plain).lacks(PowerLoss(target=Role.ALL).need)

    assert why is not None
    assert "not started on files" in why
