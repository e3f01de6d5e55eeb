"""Disks that are replaced, done to a fake system: whom it hits, who votes after it, and when the next may be lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.look import OTHER
from nemesis.faults.processes import Kill
from nemesis.faults.replaced_disks import ReplaceDisk
from nemesis.faults.targets import Role
from nemesis.history import METADATA_LOG
from nemesis.report.timeline import BEGINS, ENDS, look_of
from nemesis.schedules.schedule import Heal, Inject, Name
from tests.faults.stage import Stage
from tests.workload.fake_system import FakeSystem
from tests.workload.fake_voters import FakeVoters

LEADER = ReplaceDisk(target=Role.LEADER)
OUTAGE = ReplaceDisk(target=Role.LEADER, outage=True)
LAST, TOGETHER = 5, 7
"""Draws by which the one with the empty disk comes back after the others, and with them."""


class DiskStage(Stage):
    """A stage whose voters can be changed."""

    def __init__(self, folder: Path, system: FakeSystem | None = None) -> None:
        super().__init__(folder, system)
        self.voters = self.system.voters = FakeVoters((METADATA_LOG,))

    def of_fault(self) -> list[tuple[str, str]]:
        """What is recorded of the fault itself: (f, type)."""
        return [(f, kind) for f, kind, _ in self.told() if f in (ReplaceDisk.kind, ReplaceDisk.healer)]

    def error(self) -> str:
        """Why the last operation of the nemesis has failed."""
        return str([row["error"] for row in self.recording.rows() if row["process"] == -1 and "error" in row][-1])


def replace_disk(fault: ReplaceDisk, fault_id: int = 0, draw: int = TOGETHER) -> Inject:
    """A step that replaces a disk."""
    return Inject(fault_id=fault_id, fault=fault, draw=draw)


@pytest.mark.parametrize(
    ("fault", "draw", "killed", "started"),
    [(LEADER, TOGETHER, [1], [1]), (OUTAGE, TOGETHER, [1, 2, 3], [1, 2, 3]), (OUTAGE, LAST, [1, 2, 3], [2, 3, 1])],
    ids=["alone", "together", "last"],
)
async def test_a_disk_is_replaced(
    tmp_path: Path, fault: ReplaceDisk, draw: int, killed: list[int], started: list[int]
) -> None:
    """Its node is killed, alone or with all others, and has an empty disk before anybody is started."""
    stage = DiskStage(tmp_path)

    await stage.do_each(replace_disk(fault, draw=draw), Heal(fault_id=0))

    kills, starts = [("kill", node) for node in killed], [("start", node) for node in started]
    healed = ("start", 1)
    assert stage.system.calls == [*kills, ("wipe", 1), *starts, healed]
    told = next(detail for f, kind, detail in stage.recording.nemesis_rows() if (f, kind) == ("replace-disk", "info"))
    assert json.loads(told or "{}")["killed"] == killed
    assert stage.of_fault() == [
        *(("replace-disk", kind) for kind in ("invoke", "info")),
        *(("end-replacement", kind) for kind in ("invoke", "info")),
    ]


async def test_the_vote_goes_from_the_disk_that_is_gone_to_the_new_one(tmp_path: Path) -> None:
    """It is removed before it is added: one node cannot vote on two disks. What fails is tried again."""
    stage = DiskStage(tmp_path)
    failures = {"remove": UnknownOutcomeError("no answer"), "add": NotDoneError("it has not caught up yet")}

    def outcome(what: str, log: str, node: int) -> None:
        del log, node
        if what in failures:
            raise failures.pop(what)

    stage.voters.outcome = outcome
    await stage.do_each(replace_disk(LEADER))
    assert await stage.voters.of(METADATA_LOG) == (2, 3)
    await stage.injector.heal_all()

    asked = [what for what, _, _ in stage.voters.calls]
    assert asked == ["remove", "add", "remove", "add"], "the first of each had no success"
    assert await stage.voters.of(METADATA_LOG) == (1, 2, 3)


@pytest.mark.parametrize("what", ["out_of_sync", "unregistered"])
async def test_no_other_disk_is_lost_before_the_last_one_is_in_sync(tmp_path: Path, what: str) -> None:
    """Two disks at once may be all that have a record; the next may go when the last one is back, and not before.

    As long as nobody knows of the new disk, it is the old one that is said to be in sync.
    """
    stage = DiskStage(tmp_path)
    lacking: set[int] = getattr(stage.system, what)
    lacking.add(1)

    await stage.do_each(replace_disk(LEADER))
    assert stage.of_fault() == [("replace-disk", "invoke"), ("replace-disk", "info")]
    await stage.do_each(Heal(fault_id=0), replace_disk(OUTAGE, fault_id=1))
    assert stage.system.wiped == {1: 1}
    assert "not in sync yet" in stage.error()
    assert (ReplaceDisk.healer, "info") not in stage.of_fault()

    lacking.clear()
    await stage.injector.heal_all()
    assert stage.of_fault()[-1] == (ReplaceDisk.healer, "info")
    await stage.do_each(replace_disk(OUTAGE, fault_id=2))
    assert stage.system.wiped == {1: 2}
    await stage.injector.heal_all()


@pytest.mark.parametrize(("target", "running"), [("@a", {1, 2, 3}), ("@b", {2, 3})], ids=["it", "another"])
async def test_who_is_down_is_not_started_for_it(tmp_path: Path, target: str, running: set[int]) -> None:
    """A node that another fault has killed stays down, unless it is the one that has an empty disk now."""
    stage = DiskStage(tmp_path)

    names = (Name(name="a", target=Role.LEADER), Name(name="b", target=Role.OTHER))
    await stage.do_each(*names, Inject(fault_id=0, fault=Kill(target="@a")))
    await stage.do_each(replace_disk(ReplaceDisk(target=target, outage=True), fault_id=1))

    assert stage.system.wiped.total() == 1
    assert stage.system.running == running
    await stage.injector.heal_all()


class Restarting(FakeSystem):
    """A system in which somebody else starts node 1 as soon as it is killed."""

    async def kill(self, node: int) -> bool:
        was_there = await super().kill(node)
        self.running.add(1)
        return was_there


async def test_who_is_started_meanwhile_keeps_its_disk(tmp_path: Path) -> None:
    """A disk is not taken from a process that runs, and those who were killed for it are started all the same."""
    stage = DiskStage(tmp_path, Restarting())

    await stage.do_each(replace_disk(OUTAGE), Heal(fault_id=0))

    assert stage.system.wiped.total() == 0
    assert stage.system.running == {1, 2, 3}
    assert stage.of_fault() == [("replace-disk", "invoke"), ("replace-disk", "fail")]


@pytest.mark.parametrize(
    ("fault", "logs", "running", "why"),
    [
        (LEADER, (), {1, 2, 3}, "voters for ever"),
        (ReplaceDisk(target=Role.MAJORITY), (METADATA_LOG,), {1, 2, 3}, "one disk can be lost at a time"),
        (ReplaceDisk(target=Role.ONE), (METADATA_LOG,), set(), "nobody says"),
    ],
    ids=["static", "several", "unknown"],
)
async def test_what_is_not_covered_by_the_promise_is_not_done(
    tmp_path: Path, fault: ReplaceDisk, logs: tuple[str, ...], running: set[int], why: str
) -> None:
    """Nobody is killed, and the reason is recorded."""
    stage = DiskStage(tmp_path)
    stage.system.voters = FakeVoters(logs)
    stage.system.running = running

    await stage.do_each(replace_disk(fault))

    assert stage.system.calls == []
    assert why in stage.error()


def test_it_is_drawn_from_its_beginning_to_its_end() -> None:
    """The report knows the name of doing it and of undoing it for the same kind of fault."""
    assert look_of(LEADER.name, BEGINS) is look_of(LEADER.healing, ENDS) is OTHER
