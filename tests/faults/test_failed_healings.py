"""What could not be done or undone is told as that, is tried again, and ends no run."""

from __future__ import annotations

import json
from pathlib import Path

from nemesis.errors import NodeFailedError
from nemesis.faults.crash_points import CrashPoint, Order
from nemesis.faults.disks import PowerLoss
from nemesis.faults.links import Link, LinkMode
from nemesis.faults.partitions import Partition
from nemesis.faults.processes import Kill
from nemesis.faults.shapes import Shape
from nemesis.faults.standing import KillAt
from nemesis.faults.targets import Role
from nemesis.faults.voters import ChangeVoters, VoterChange
from nemesis.schedules.injector import HEAL_ALL, HEALINGS_MAX
from nemesis.schedules.schedule import Heal, Inject
from tests.faults.stage import Stage
from tests.workload.fake_system import FakeLinks, FakeSystem

ISOLATE = Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target=Role.LEADER))


class StubbornLinks(FakeLinks):
    """Links that refuse to be healed, or to be cut, so many times."""

    def __init__(self, *, cuts_refused: int = 0, healings_refused: int = 0) -> None:
        super().__init__()
        self._cuts_left, self._healings_left = cuts_refused, healings_refused

    async def cut(self, key: str, links: frozenset[Link], mode: LinkMode) -> None:
        """Cut them, and refuse the rest of it."""
        await super().cut(key, links, mode)
        if self._cuts_left:
            self._cuts_left -= 1
            raise NodeFailedError("nft has refused")

    async def heal(self, key: str) -> None:
        """Refuse, so often."""
        if self._healings_left:
            self._healings_left -= 1
            raise OSError("nft is gone")
        await super().heal(key)


def stage_with(tmp_path: Path, links: FakeLinks) -> Stage:
    """A stage whose links are these."""
    system = FakeSystem()
    system.links = links
    return Stage(tmp_path, system)


def still_open(stage: Stage) -> list[str]:
    """The faults that are not healed, in words."""
    return list(stage.injector.open_faults)


def strikes(stage: Stage) -> list[tuple[str, str, str | None]]:
    """What became of each injection: (f, type, strike)."""
    rows = [(f, kind, json.loads(detail or "{}")) for f, kind, detail in stage.recording.nemesis_rows()]
    return [(f, kind, told["strike"]) for f, kind, told in rows if "strike" in told]


async def test_a_healing_that_fails_is_told_and_tried_again_at_the_end(tmp_path: Path) -> None:
    """The fault stays open, as the history says, until the healing at the end."""
    stage = stage_with(tmp_path, StubbornLinks(healings_refused=1))

    await stage.do(ISOLATE, Heal(fault_id=0))
    assert stage.told()[-1] == ("heal-partition-isolate", "fail", [1])
    assert still_open(stage) == ["partition-isolate [1]"]
    await stage.injector.heal_all()

    assert stage.told()[-1] == ("heal-partition-isolate", "info", [1])
    assert still_open(stage) == []
    assert stage.recording.harness_rows() == []


async def test_what_cannot_be_healed_ends_no_run(tmp_path: Path) -> None:
    """It is tried so often, and then told as what the harness could not bring about: the run is unknown at best."""
    stage = stage_with(tmp_path, StubbornLinks(healings_refused=HEALINGS_MAX))

    await stage.do(ISOLATE)
    await stage.injector.heal_all()

    assert [kind for f, kind, _ in stage.told() if f == "heal-partition-isolate"] == ["invoke", "fail"] * HEALINGS_MAX
    assert [(f, kind) for f, kind, _ in stage.recording.harness_rows()] == [(HEAL_ALL, "invoke"), (HEAL_ALL, "fail")]


async def test_a_start_that_fails_is_tried_again_at_the_end(stage: Stage) -> None:
    """A killed node that does not start is started by the healing of its fault at the end."""
    stage.system.refuses_start.add(1)

    await stage.do(Inject(fault_id=0, fault=Kill(target=Role.LEADER)), Heal(fault_id=0))
    assert stage.told()[-1] == ("start", "fail", [1])
    stage.system.refuses_start.clear()
    await stage.injector.heal_all()

    assert stage.told()[-1] == ("start", "info", [1])
    assert stage.system.running == {1, 2, 3}


async def test_an_injection_that_breaks_off_is_unknown_and_healed(tmp_path: Path) -> None:
    """It may have struck, so that it is healed like one that has."""
    stage = stage_with(tmp_path, StubbornLinks(cuts_refused=1))

    await stage.do(ISOLATE)
    assert strikes(stage) == [("partition-isolate", "info", "unknown")]
    assert stage.system.links.cuts.keys() == {"0"}
    await stage.do(Heal(fault_id=0))

    assert stage.system.links.cuts == {}


async def test_what_struck_is_told_apart_from_what_was_refused_and_what_missed(stage: Stage) -> None:
    """A fault that hits somebody has struck, one that finds nobody has missed, one that cannot be is refused."""
    stage.system.running = {2, 3}

    await stage.do(
        Inject(fault_id=0, fault=PowerLoss(target=Role.ALL)),
        Inject(fault_id=1, fault=Kill(target=Role.ALL)),
        Inject(fault_id=2, fault=ChangeVoters(change=VoterChange.REMOVE, target=Role.LEADER)),
    )

    assert strikes(stage) == [
        ("power-loss", "info", "struck"),
        ("kill", "fail", "missed"),
        ("membership-remove", "fail", "refused"),
    ]
    assert stage.told()[1] == ("power-loss", "info", [2, 3])


class Brittle(FakeSystem):
    """Nodes that cannot be told to stand still, as it turns out in the middle of it."""

    def order(self, node: int, order: Order) -> None:
        """Tell the first ones, and no more."""
        if node > 2:
            raise OSError("the folder is gone")
        super().order(node, order)


async def test_orders_that_were_given_are_taken_back_where_others_could_not_be(tmp_path: Path) -> None:
    """Of a kill at a point that broke off, what was begun is ended by its healing."""
    stage = Stage(tmp_path, Brittle())

    await stage.do(Inject(fault_id=0, fault=KillAt(target=Role.ALL, point=CrashPoint.AFTER_FLUSH)))
    assert stage.system.orders.keys() == {1, 2}
    assert strikes(stage) == [("kill-at-after-flush", "info", "unknown")]
    await stage.do(Heal(fault_id=0))

    assert stage.system.orders == {}
    assert still_open(stage) == []


class Reluctant(FakeSystem):
    """A node that does not start so many times."""

    def __init__(self, *, starts_refused: int) -> None:
        super().__init__()
        self._starts_left = starts_refused

    async def start(self, node: int) -> None:
        """Refuse, so often."""
        if self._starts_left:
            self._starts_left -= 1
            raise NodeFailedError(f"replica {node} ended with 1")
        await super().start(node)


async def test_what_is_well_in_the_end_is_healed(tmp_path: Path) -> None:
    """A node that starts when the dead are looked for is no failed healing: the run may be valid."""
    stage = Stage(tmp_path, Reluctant(starts_refused=2))

    await stage.do(Inject(fault_id=0, fault=Kill(target=Role.LEADER)))
    await stage.injector.heal_all()

    assert stage.told()[-1] == ("start", "info", [1])
    assert still_open(stage) == []
    assert stage.recording.harness_rows() == []
