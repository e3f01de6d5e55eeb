"""Faults of disks, done to a fake system: whom they hit, how they heal, and what is told of them."""

from __future__ import annotations

import json

import pytest

from nemesis.disks.damage import DiskPart
from nemesis.disks.hindrance import Hindrance
from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Heal, Inject
from tests.faults.stage import Stage

ISOLATED = frozenset({(1, 2), (2, 1), (1, 3), (3, 1)})


async def test_a_power_loss_hits_those_who_run(stage: Stage) -> None:
    """Each of them loses what was not flushed, by the dice of the step, and is started by the healing.

    Who is down loses as much and stays down, and the healing says whose disks have lost anything.
    """
    stage.system.running.discard(2)

    await stage.do(Inject(fault_id=0, fault=PowerLoss(target=Role.ALL), draw=7))
    assert stage.system.running == set()
    await stage.do(Heal(fault_id=0))

    assert stage.system.disks.lost == [(1, 7), (2, 7), (3, 7)]
    assert stage.system.running == {1, 3}
    assert stage.told() == [
        ("power-loss", "invoke", [1, 2, 3]),
        ("power-loss", "info", [1, 3]),
        ("start", "invoke", [1, 3]),
        ("start", "info", [1, 3]),
    ]
    *_, (_, _, healed) = stage.recording.nemesis_rows()
    assert json.loads(healed or "{}")["lost"] == [2, 3]


async def test_where_nobody_runs_no_power_is_lost(stage: Stage) -> None:
    """What the history calls not done was not done to the disks either."""
    stage.system.running.clear()

    await stage.do(Inject(fault_id=0, fault=PowerLoss(target=Role.ALL), draw=7))

    assert stage.system.disks.lost == []
    assert stage.told() == [("power-loss", "invoke", [1, 2, 3]), ("power-loss", "fail", [1, 2, 3])]


@pytest.mark.parametrize(
    ("fault", "hindrance", "healer"),
    [
        (FillDisk(target=Role.MAJORITY), Hindrance(is_full=True), "free-disk"),
        (SlowDisk(target=Role.MAJORITY, factor=30), Hindrance(slow_factor=30), "speed-up-disk"),
        (FailDisk(target=Role.MAJORITY, call="pread"), Hindrance(failing=("pread",)), "repair-disk"),
    ],
)
async def test_a_hindered_disk_is_healed_and_whom_it_ended_is_started(
    stage: Stage, fault: Fault, hindrance: Hindrance, healer: str
) -> None:
    """The nemesis ends nobody; whom the disk has ended runs again afterwards, and who was killed does not."""
    await stage.do(Inject(fault_id=4, fault=fault))
    first, second = (node for node, _ in stage.system.disks.hindered)
    assert set(stage.system.disks.hindered.values()) == {hindrance}
    assert stage.system.running == {1, 2, 3}
    stage.system.running -= {first, second}
    stage.system.disks.ended = {first}
    await stage.do(Heal(fault_id=4))

    assert stage.system.disks.hindered == {}
    assert first in stage.system.running
    assert second not in stage.system.running
    assert stage.told()[-1][:2] == (healer, "info")


async def test_damage_keeps_a_replica_out_until_it_is_repaired(stage: Stage) -> None:
    """It is killed, damaged by the dice of the step, and started; the history says what it made of that."""
    await stage.do(Inject(fault_id=3, fault=DamageDisk(target=Role.LEADER, how="cut", part=DiskPart.STATE), draw=7))
    assert stage.system.disks.damaged == {1: (DiskPart.STATE, "cut", 7)}
    assert stage.system.running == {2, 3}
    await stage.do(Heal(fault_id=3))

    assert stage.system.running == {1, 2, 3}
    assert stage.system.disks.damaged == {}
    rows = stage.recording.nemesis_rows()
    told = {f: json.loads(detail or "{}") for f, kind, detail in rows if kind == "info"}
    (done,) = told["damage-disk"]["done"]
    assert (done["replica"], done["outcome"], done["said"]) == (1, "refused", "it is damaged")
    assert (done["file"], done["how"], done["position"]) == ("topic1-0/0.log", "cut", 7)
    assert told["end-damage"]["restored"] == [{"replica": 1, "file": "topic1-0/0.log"}]


async def test_damage_that_goes_unnoticed_is_told_and_left(stage: Stage) -> None:
    """A replica that serves on a damaged disk goes on with it: nothing is put back behind its back."""
    stage.system.disks.goes_unnoticed = True

    await stage.do(Inject(fault_id=3, fault=DamageDisk(target=Role.LEADER, how="flip")))
    await stage.do(Heal(fault_id=3))

    assert stage.system.running == {1, 2, 3}
    assert list(stage.system.disks.damaged) == [1]
    ((healed, kind, _),) = [row for row in stage.told() if row[0] == "end-damage" and row[1] != "invoke"]
    assert (healed, kind) == ("end-damage", "fail")
    assert [(f, kind) for f, kind, _ in stage.recording.harness_rows()] == [
        ("notice-damage", "invoke"),
        ("notice-damage", "fail"),
    ]


async def test_damage_of_one_partition_is_that_partitions(stage: Stage) -> None:
    """A replica that serves, and names the log that it leaves alone, has noticed, and repairs it itself."""
    stage.system.disks.is_left_alone = True

    await stage.do(Inject(fault_id=3, fault=DamageDisk(target=Role.LEADER, how="flip")))
    assert stage.system.running == {1, 2, 3}
    await stage.do(Heal(fault_id=3))

    assert stage.system.disks.damaged == {}
    told = {f: json.loads(detail or "{}") for f, kind, detail in stage.recording.nemesis_rows() if kind == "info"}
    assert [done["outcome"] for done in told["damage-disk"]["done"]] == ["offline"]
    assert told["end-damage"]["restored"] == []
    assert stage.recording.harness_rows() == []


async def test_a_disk_is_not_damaged_twice(stage: Stage) -> None:
    """There is one sound copy: the second damage would be put back in its place, and nothing be left for the other."""
    stage.system.disks.goes_unnoticed = True
    await stage.do(Inject(fault_id=0, fault=DamageDisk(target=Role.LEADER, how="flip"), draw=1))
    assert stage.system.running == {1, 2, 3}
    await stage.do(Inject(fault_id=1, fault=DamageDisk(target=Role.LEADER, how="flip"), draw=2))
    assert stage.system.disks.damaged == {1: (DiskPart.LOG, "flip", 1)}
    await stage.do(Heal(fault_id=0))
    await stage.do(Heal(fault_id=1))


async def test_whom_another_fault_is_just_starting_is_repaired_after_that(stage: Stage) -> None:
    """Its process is there for a moment, and refuses as before: it does not serve on what is damaged."""
    await stage.do(Inject(fault_id=0, fault=DamageDisk(target=Role.LEADER, how="flip")))
    stage.system.running.add(1)
    await stage.do(Heal(fault_id=0))

    assert (stage.system.running, stage.system.disks.damaged) == ({1, 2, 3}, {})
    assert stage.recording.harness_rows() == []


async def test_who_runs_on_a_disk_that_was_replaced_is_not_told(stage: Stage) -> None:
    """The damage went with the disk: there is nothing to notice, and nothing to put back."""
    await stage.do(Inject(fault_id=0, fault=DamageDisk(target=Role.LEADER, how="flip")))
    stage.system.refuses_start.clear()
    stage.system.disks.damaged.clear()
    stage.system.disks.why_not_repaired = "the disk was replaced meanwhile"
    stage.system.running.add(1)
    await stage.do(Heal(fault_id=0))

    assert stage.recording.harness_rows() == []
    assert ("end-damage", "fail") in [(f, kind) for f, kind, _ in stage.told()]


async def test_who_serves_on_damage_only_later_is_told_as_well(stage: Stage) -> None:
    """It refused at first; another fault has started it since, and it runs."""
    await stage.do(Inject(fault_id=0, fault=DamageDisk(target=Role.LEADER, how="flip")))
    stage.system.refuses_start.clear()
    stage.system.running.add(1)
    await stage.do(Heal(fault_id=0))

    assert [(f, kind) for f, kind, _ in stage.recording.harness_rows()] == [
        ("notice-damage", "invoke"),
        ("notice-damage", "fail"),
    ]


@pytest.mark.parametrize(
    "fault",
    [
        DamageDisk(target=Role.MAJORITY, how="flip"),
        DamageDisk(target=Role.ONE, how="flip", part=DiskPart.STATE),
    ],
)
async def test_damage_that_nobody_could_survive_or_notice_is_not_done(stage: Stage, fault: DamageDisk) -> None:
    """More disks than a minority, and a digit of a file without a checksum, are refused."""
    await stage.do(Inject(fault_id=0, fault=fault))

    assert stage.system.running == {1, 2, 3}
    assert [(f, kind) for f, kind, _ in stage.told()] == [("damage-disk", "invoke"), ("damage-disk", "fail")]


async def test_of_three_disks_one_is_damaged_at_a_time(stage: Stage) -> None:
    """A second one is damaged when the first is repaired."""
    await stage.do(Inject(fault_id=0, fault=DamageDisk(target=Role.LEADER, how="flip")))
    await stage.do(Inject(fault_id=1, fault=DamageDisk(target=Role.LEADER, how="flip")))
    assert list(stage.system.disks.damaged) == [1]
    await stage.do(Heal(fault_id=0))
    await stage.do(Inject(fault_id=2, fault=DamageDisk(target=Role.FOLLOWER, how="flip")))
    assert len(stage.system.disks.damaged) == 1
