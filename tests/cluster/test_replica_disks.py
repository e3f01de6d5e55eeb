"""Disks without processes: whose end one is the reason of and whose it is not, and what goes with the power."""

from __future__ import annotations

import asyncio
import errno
import json
import time
from pathlib import Path

import pytest

from nemesis.cluster.hindered_disks import AFTERMATH_NS, ReplicaDisks
from nemesis.cluster.local import LocalHost
from nemesis.cluster.system import Report
from nemesis.disks.damage import DiskPart
from nemesis.disks.files import AccountedFiles
from nemesis.disks.hindrance import Hindered, Hindrance
from nemesis.disks.place import place_in
from nemesis.faults.breakable import PowerLost
from replica.ids import ReplicaId
from replica.storage import format_directory
from replica.storage.files import OpenMode
from replica.voters import VoterSet

BROKEN, OTHER = 1, 2
FAILING = Hindrance(failing=("fsync",))
NAMED = "cannot flush topic1-0: [Errno 5] Input/output error: 'data/topic1-0/0.log'"
UNNAMED = "internal error: AssertionError: high watermark goes back"


class Rig:
    """Disks of two nodes, the first of which is hindered from ``begin_ns`` on."""

    def __init__(self, folder: Path, hindrance: Hindrance) -> None:
        host = LocalHost(folder, 2)
        host.make_folders()
        self.disks = ReplicaDisks(host, host.kill, {node: asyncio.Lock() for node in host.nodes})
        self.begin_ns = time.monotonic_ns()
        self.disks.hinder(BROKEN, 0, hindrance)

    def judged(self, *told: tuple[str, str], node: int = BROKEN, at_ns: int | None = None) -> list[str]:
        """What becomes of these events, each with its detail, which all come at that time (now)."""
        monotonic_ns = time.monotonic_ns() if at_ns is None else at_ns
        reports = [Report(node=node, monotonic_ns=monotonic_ns, event=event, detail=detail) for event, detail in told]
        return [report.event for report in self.disks.judged(reports)]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A disk whose flushes fail."""
    return Rig(tmp_path, FAILING)


def halted(reason: str) -> tuple[str, str]:
    """What a replica says that halts."""
    return "halted", json.dumps({"reason": reason})


DIED = ("died", "exit code 1")


def test_a_halt_for_an_error_of_the_disk_is_excused(rig: Rig) -> None:
    """So is the end of the process that follows from it, whenever it is found."""
    assert rig.judged(halted(NAMED), DIED, DIED) == ["halted-by-disk", "died-by-disk", "died-by-disk"]


@pytest.mark.parametrize(
    ("hindrance", "number"), [(Hindrance(is_full=True), errno.ENOSPC), (FAILING, errno.EIO)], ids=["full", "failing"]
)
def test_the_errors_that_a_hindered_disk_gives_are_known(tmp_path: Path, hindrance: Hindrance, number: int) -> None:
    """As a replica tells them: by the words of the error that it was given."""
    rig = Rig(tmp_path, hindrance)
    with pytest.raises(OSError, match="Errno") as given:
        Hindered(tmp_path / "nodes" / str(BROKEN) / "disk-hindrance").check("fsync", Path("log"), takes_space=True)

    assert given.value.errno == number
    assert rig.judged(halted(f"cannot do it: {given.value}")) == ["halted-by-disk"]


@pytest.mark.parametrize(
    "told",
    [
        (halted(UNNAMED), DIED),
        (DIED,),
        (("died", "exit code -11"),),
        (halted(NAMED), ("died", "exit code -11")),
        (halted(NAMED), ("started", ""), DIED),
        (halted(NAMED), halted(UNNAMED), DIED),
    ],
    ids=["other-reason", "no-reason", "signal", "signal-after", "next-process", "other-reason-after"],
)
def test_a_crash_is_not_excused_by_a_disk_that_refuses_meanwhile(rig: Rig, told: tuple[tuple[str, str], ...]) -> None:
    """Who gives no error of the disk as the reason has failed by itself."""
    assert rig.judged(*told)[-1] == "died"


def test_errors_are_excused_while_they_are_given(rig: Rig) -> None:
    """Before its disk fails and when it has long been well a replica has no reason to name such an error."""
    rig.disks.relieve(BROKEN, 0)
    end_ns = time.monotonic_ns()

    assert rig.judged(halted(NAMED), at_ns=rig.begin_ns - 1) == ["halted"]
    assert rig.judged(halted(NAMED), at_ns=end_ns) == ["halted-by-disk"]
    assert rig.judged(halted(NAMED), at_ns=end_ns + 2 * AFTERMATH_NS) == ["halted"]


def test_others_are_not_excused(rig: Rig) -> None:
    """A disk is the reason of its own replica's end only, and a slow one is of none."""
    rig.disks.hinder(OTHER, 1, Hindrance(slow_factor=30))

    assert rig.judged(halted(NAMED), DIED, node=OTHER) == ["halted", "died"]


async def test_a_replica_that_is_down_loses_its_memory_with_the_power(tmp_path: Path) -> None:
    """What a killed process had written is there for the next one, unless the power goes before that begins."""
    host = LocalHost(tmp_path, 1)
    host.make_folders()
    disks = ReplicaDisks(host, host.kill, {1: asyncio.Lock()})
    place = place_in(host.folder(1))
    place.data.mkdir()
    killed = AccountedFiles(place)
    handle = killed.open(place.data / "log", OpenMode.CREATE)
    killed.fsync_directory(place.data)
    killed.pwrite(handle, b"only in memory", 0)
    loses_all_draw = 44

    assert await disks.lose_power(1, loses_all_draw) == PowerLost(ran=False, lost=True)

    assert (place.data / "log").read_bytes() == b""
    assert await disks.lose_power(1, loses_all_draw) == PowerLost(ran=False, lost=False)


async def test_a_halt_for_damage_is_excused_until_the_repair(tmp_path: Path) -> None:
    """Of the replica whose disk is damaged, if it names the file; and the power takes nothing from it meanwhile."""
    rig = Rig(tmp_path, Hindrance())
    data = place_in(tmp_path / "nodes" / str(BROKEN)).data
    format_directory(data, cluster_id="cluster", replica_id=ReplicaId(1), initial_voters=VoterSet(()))

    async def kill(node: int) -> bool:
        return node == BROKEN

    host = LocalHost(tmp_path, 2)
    rig.disks = ReplicaDisks(host, kill, {node: asyncio.Lock() for node in host.nodes})
    assert await rig.disks.damage(OTHER, DiskPart.LOG, "flip", 1) is None
    damage = await rig.disks.damage(BROKEN, DiskPart.LOG, "flip", 1)
    assert damage is not None
    named = halted(f"{data / damage.file}, line 2: the version and the number of entries are missing")

    assert rig.judged(named, DIED) == ["halted-by-disk", "died-by-disk"]
    assert rig.judged(named, node=OTHER) == rig.judged(halted(UNNAMED)) == ["halted"]
    assert await rig.disks.lose_power(BROKEN, 1) == PowerLost(ran=False, lost=False)
    assert rig.disks.is_damaged(BROKEN)
    assert await rig.disks.repair(BROKEN) is None
    assert not rig.disks.is_damaged(BROKEN)
    assert rig.judged(named) == ["halted"]
    assert await rig.disks.damage(BROKEN, DiskPart.LOG, "flip", 1) is not None
    rig.disks.replaced(BROKEN)
    assert await rig.disks.repair(BROKEN) == "the disk was replaced meanwhile"
    assert rig.judged(named) == ["halted"]
