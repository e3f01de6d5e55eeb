"""What the nemesis does to a system, records, and undoes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nemesis.errors import NodeFailedError
from nemesis.faults import catalogue
from nemesis.faults.bursts import Burst
from nemesis.faults.catalogue import FAMILIES, FAULT_NAMES
from nemesis.faults.crash_points import CrashPoint, Order
from nemesis.faults.damage import DamageDisk
from nemesis.faults.disks import FailDisk, FillDisk, PowerLoss, SlowDisk
from nemesis.faults.fault import Fault
from nemesis.faults.impairments import Bandwidth, Between, Delay, Duplicate, Loss, ReplyLost, Reset, SlowClose
from nemesis.faults.links import CLIENTS, LinkMode
from nemesis.faults.memory import LimitMemory
from nemesis.faults.moves import Course, Reassign
from nemesis.faults.needs import Need
from nemesis.faults.partitions import CutClients, CutLink, Partition
from nemesis.faults.processes import Kill, KillStarting, Pause, Stop
from nemesis.faults.rolling import RollingRestart
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import SIMULATED
from nemesis.faults.standing import KillAt
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import DriftClock, JumpClock, JumpWallClock, StopClock, StrobeWallClock
from nemesis.report.timeline import BEGINS, ENDS, look_of
from nemesis.schedules.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step
from tests.faults.stage import Stage
from tests.workload.fake_system import FakeSystem

ISOLATED = frozenset({(1, 2), (2, 1), (1, 3), (3, 1)})
FAULTS: tuple[Fault, ...] = (
    *(Partition(shape=shape, target=Role.LEADER) for shape in Shape),
    CutLink(source="@a", destination="@b"),
    CutClients(target=Role.LEADER),
    Kill(target=Role.LEADER),
    Pause(target=Role.LEADER),
    Stop(target=Role.LEADER),
    RollingRestart(),
    Delay(latency_ms=5, target=Role.LEADER),
    Loss(percent=5, target=Role.LEADER),
    Bandwidth(rate_bytes_per_s=5, target=Role.LEADER),
    Reset(target=Role.LEADER),
    SlowClose(delay_ms=5, target=Role.LEADER),
    ReplyLost(target=Role.LEADER),
    Duplicate(target=Role.LEADER),
    KillStarting(target=Role.LEADER, after_ms=1),
    KillAt(target=Role.LEADER, point=CrashPoint.AFTER_FLUSH),
    JumpClock(target=Role.LEADER, by_ms=5),
    StopClock(target=Role.LEADER),
    DriftClock(target=Role.LEADER, percent=200),
    JumpWallClock(target=Role.LEADER, by_ms=-5),
    StrobeWallClock(target=Role.LEADER, by_ms=5, period_ms=5),
    Burst(factor=2),
    PowerLoss(target=Role.LEADER),
    FillDisk(target=Role.LEADER),
    SlowDisk(target=Role.LEADER, factor=5),
    FailDisk(target=Role.LEADER, call="fsync"),
    DamageDisk(target=Role.LEADER, how="flip"),
    LimitMemory(target=Role.LEADER, percent=50),
    *(Reassign(course=course) for course in Course),
)


async def test_a_partition_cuts_and_heals_its_links(stage: Stage) -> None:
    """Isolating the leader cuts its links both ways and is undone by its healing; both are told with the same nodes."""
    fault = Partition(shape=Shape.ISOLATE, target=Role.LEADER, mode=LinkMode.RESET)

    await stage.do(Inject(fault_id=4, fault=fault))
    assert stage.system.links.cuts == {"4": (ISOLATED, LinkMode.RESET)}
    assert stage.injector.open_faults == ("partition-isolate [1]",)
    await stage.do(Heal(fault_id=4))

    assert stage.system.links.cuts == {}
    assert stage.told() == [
        ("partition-isolate", "invoke", [1]),
        ("partition-isolate", "info", [1]),
        ("heal-partition-isolate", "invoke", [1]),
        ("heal-partition-isolate", "info", [1]),
    ]


async def test_clients_are_cut_off_by_a_fault_of_their_own(stage: Stage) -> None:
    """Cutting clients touches their links to the target only."""
    await stage.do(Inject(fault_id=0, fault=CutClients(target=Role.LEADER)))

    assert stage.system.links.cuts["0"][0] == {(CLIENTS, 1), (1, CLIENTS)}


async def test_links_are_impaired_and_mended(stage: Stage) -> None:
    """A network fault goes to the links that it touches, and its healing tells what was done there."""
    fault = Loss(percent=5, target=Role.LEADER, between=Between.ALL)

    await stage.do(Inject(fault_id=4, fault=fault))
    clients = frozenset({(CLIENTS, 1), (1, CLIENTS)})
    assert stage.system.links.impaired == {"4": (ISOLATED | clients, fault)}
    assert stage.injector.open_faults == ("network-loss-all [1]",)
    await stage.do(Heal(fault_id=4))

    assert stage.system.links.impaired == {}
    rows = [(f, kind, json.loads(detail or "{}")) for f, kind, detail in stage.recording.nemesis_rows()]
    assert [(f, kind, told["replicas"]) for f, kind, told in rows] == [
        ("network-loss-all", "invoke", [1]),
        ("network-loss-all", "info", [1]),
        ("mend-network-loss-all", "invoke", [1]),
        ("mend-network-loss-all", "info", [1]),
    ]
    assert rows[1][2]["fault"] == fault.to_json()
    assert rows[1][2]["links"] == sorted([list(link) for link in ISOLATED | clients])
    assert rows[3][2]["done"] == {"bytes": 7}


def test_every_fault_has_one_family() -> None:
    """What can be done to processes is done by one family; the rest needs the simulator."""
    done = [fault for family in FAMILIES for fault in family.faults]

    assert len(done) == len(set(done))
    assert set(catalogue.FAULTS.values()) - set(done) == set(SIMULATED)
    assert all((fault.need is Need.SIMULATOR) == (fault in SIMULATED) for fault in catalogue.FAULTS.values())


async def test_a_killed_node_is_started_again(stage: Stage) -> None:
    """The node that was killed, and no other, is started by the healing."""
    await stage.do(Inject(fault_id=0, fault=Kill(target=Role.LEADER)), Heal(fault_id=0))

    assert stage.system.calls == [("kill", 1), ("start", 1)]
    assert [f for f, kind, _ in stage.told() if kind == "info"] == ["kill", "start"]


async def test_a_node_is_killed_while_it_starts(stage: Stage) -> None:
    """It is killed, started and killed again as often as asked, also when a start takes no time; at last it starts."""
    await stage.do(Inject(fault_id=0, fault=KillStarting(target=Role.LEADER, after_ms=0, times=2)))
    assert stage.system.running == {2, 3}
    assert [what for what, _ in stage.system.calls].count("start") == 2
    assert stage.system.calls[-1] == ("kill", 1)
    await stage.do(Heal(fault_id=0))

    assert stage.system.running == {1, 2, 3}
    assert [(f, kind) for f, kind, _ in stage.told()][-1] == ("start", "info")


class SlowlyStarting(FakeSystem):
    """Its nodes are there when a start begins, and serve never: a start ends when they are killed."""

    async def start(self, node: int) -> None:
        self.calls.append(("start", node))
        await asyncio.sleep(0.01)
        self.running.add(node)
        while node in self.running:
            await asyncio.sleep(0)
        raise NodeFailedError(f"replica {node} ended with -9")


async def test_a_start_that_is_killed_is_no_failure(tmp_path: Path) -> None:
    """A kill that comes before the process of a start is repeated, and that the start fails then is what was wanted."""
    stage = Stage(tmp_path, SlowlyStarting())

    async with asyncio.timeout(10):
        await stage.do(Inject(fault_id=0, fault=KillStarting(target=Role.LEADER, after_ms=0, times=2)))

    assert stage.system.running == {2, 3}
    assert stage.told()[-1] == ("kill-starting", "info", [1])


async def test_a_node_is_killed_at_its_point(stage: Stage) -> None:
    """It is told to stand still, killed when it does, and started by the healing; who has not come there is spared."""
    fault = KillAt(target=Role.FOLLOWERS, point=CrashPoint.AFTER_FLUSH, nth=3)

    await stage.do(Inject(fault_id=0, fault=fault))
    assert stage.system.orders == dict.fromkeys((2, 3), Order(point=CrashPoint.AFTER_FLUSH, nth=3))
    assert stage.system.running == {1, 2, 3}
    stage.system.standing = {3}
    await until(lambda: ("kill", 3) in stage.system.calls)
    await stage.do(Heal(fault_id=0))

    assert stage.system.calls == [("kill", 3), ("start", 3)]
    assert stage.system.orders == {}
    rows = [(f, kind, json.loads(detail or "{}")) for f, kind, detail in stage.recording.nemesis_rows()]
    assert [(f, kind, told["replicas"]) for f, kind, told in rows] == [
        ("kill-at-after-flush", "invoke", [2, 3]),
        ("kill-at-after-flush", "info", [2, 3]),
        ("come-to-point", "invoke", [3]),
        ("come-to-point", "info", [3]),
        ("start", "invoke", [2, 3]),
        ("start", "info", [2, 3]),
    ]
    assert rows[-1][2]["killed"] == [3]


async def test_an_order_stands_alone(stage: Stage) -> None:
    """A node that is told to stand still is not told something else before the first is healed."""
    first, second = (KillAt(target=Role.LEADER, point=point) for point in tuple(CrashPoint)[:2])

    await stage.do(Inject(fault_id=0, fault=first), Inject(fault_id=1, fault=second))
    assert stage.system.orders == {1: Order(point=first.point)}
    assert stage.told()[-1] == ("kill-at-after-append", "fail", [1])
    await stage.injector.heal_all()

    assert stage.system.orders == {}


async def test_a_stopped_node_is_started_again(stage: Stage) -> None:
    """A graceful stop is told and undone like a kill, and hits nobody who is down."""
    stage.system.running = {1, 2}

    await stage.do(Inject(fault_id=0, fault=Stop(target=Role.ALL)), Heal(fault_id=0))

    assert [call for call in stage.system.calls if call[0] == "start"] == [("start", 1), ("start", 2)]
    assert stage.told()[1:] == [("stop", "info", [1, 2]), ("start", "invoke", [1, 2]), ("start", "info", [1, 2])]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the event loop to come to it."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_rolling_restart_takes_one_after_the_other(stage: Stage) -> None:
    """Each node is stopped, started and waited for before the next; the history has each of them."""
    await stage.do(Inject(fault_id=0, fault=RollingRestart()))
    assert stage.injector.open_faults == ("rolling-restart [1, 2, 3]",)
    await until(lambda: len(stage.system.calls) == 6 and len(stage.system.running) == 3)
    await stage.do(Heal(fault_id=0))

    assert stage.system.calls == [(what, node) for node in (1, 2, 3) for what in ("stop", "start")]
    done = [(f, replicas) for f, kind, replicas in stage.told() if kind == "info"]
    each = [(f, [node]) for node in (1, 2, 3) for f in ("stop-rolling", "restart-rolling")]
    assert done == [("rolling-restart", [1, 2, 3]), *each, ("end-rolling", [1, 2, 3])]


async def test_healing_ends_a_rolling_restart_where_it_is(stage: Stage) -> None:
    """Nobody else is stopped once it is healed, and whoever was down is up."""
    stage.system.is_active = False

    await stage.do(Inject(fault_id=0, fault=RollingRestart()))
    await until(lambda: ("start", 1) in stage.system.calls)
    await stage.do(Heal(fault_id=0))

    assert stage.system.calls == [("stop", 1), ("start", 1)]
    assert stage.system.running == {1, 2, 3}
    assert json.loads(stage.recording.nemesis_rows()[-2][2] or "")["is_back"] is False


async def test_the_end_of_the_run_ends_a_rolling_restart(stage: Stage) -> None:
    """Whatever is still rolling when everything is healed is ended with it."""
    stage.system.is_active = False

    await stage.do(Inject(fault_id=0, fault=RollingRestart()))
    await until(lambda: ("stop", 1) in stage.system.calls)
    await stage.injector.heal_all()

    assert stage.system.running == {1, 2, 3}
    assert stage.injector.open_faults == ()


async def test_an_abandoned_restart_starts_nobody(stage: Stage) -> None:
    """When the run is broken off, whatever rolls stops where it is."""
    stage.system.is_active = False

    await stage.do(Inject(fault_id=0, fault=RollingRestart()))
    await until(lambda: ("start", 1) in stage.system.calls)
    await stage.injector.abandon()

    assert stage.system.calls == [("stop", 1), ("start", 1)]


async def test_the_controller_can_be_hit(stage: Stage) -> None:
    """A fault may be about who controls the cluster, and a wait for somebody to do so."""
    wait = AwaitLeader(target="@c", at_most_s=0.2, of_metadata=True)

    await stage.do(Name(name="c", target=Role.CONTROLLER), wait, Inject(fault_id=0, fault=Kill(target=Role.CONTROLLER)))

    assert stage.system.calls == [("kill", 1)]


async def test_a_paused_node_resumes(stage: Stage) -> None:
    """The healing of a pause wakes whoever was paused."""
    await stage.do(Inject(fault_id=0, fault=Pause(target=Role.ALL)))
    assert stage.system.paused == {1, 2, 3}
    await stage.do(Heal(fault_id=0))

    assert stage.system.paused == set()


async def test_names_stay_with_their_bearers(stage: Stage) -> None:
    """A name given to the leader means the same node when another leads, and followers get different names."""
    cast = (
        Name(name="a", target=Role.LEADER),
        Name(name="b", target=Role.FOLLOWER),
        Name(name="c", target=Role.FOLLOWER),
    )

    await stage.do(*cast, Inject(fault_id=0, fault=Kill(target="@a")), Inject(fault_id=1, fault=Kill(target="@a")))

    named = [replicas[0] for f, kind, replicas in stage.told() if (f, kind) == ("name", "info")]
    assert named[0] == 1
    assert sorted(named) == [1, 2, 3]
    assert stage.system.calls == [("kill", 1), ("kill", 1)]


async def test_a_fault_that_hits_nobody_is_told_as_failed(stage: Stage) -> None:
    """Killing a dead node, or a name that nobody bears, is recorded as not done and heals to nothing."""
    stage.system.running = {2, 3}

    await stage.do(
        Name(name="a", target=Role.LEADER),
        Inject(fault_id=0, fault=Kill(target="@a")),
        Inject(fault_id=1, fault=Kill(target="@a")),
        Inject(fault_id=2, fault=Pause(target="@z")),
        Heal(fault_id=1),
        Heal(fault_id=2),
    )

    assert [(f, kind) for f, kind, _ in stage.told() if kind != "invoke"] == [
        ("name", "info"),
        ("kill", "info"),
        ("kill", "fail"),
        ("pause", "fail"),
    ]


async def test_awaiting_a_leader_goes_on_when_it_leads_or_time_is_up(stage: Stage) -> None:
    """The step ends with the wanted leader, or without it after its time; the history says who led."""
    wait = AwaitLeader(target="@b", at_most_s=0.2)

    await stage.do(Name(name="b", target=Role.FOLLOWER, draw=1), wait)
    bearer = next(replicas[0] for f, kind, replicas in stage.told() if (f, kind) == ("name", "info"))
    stage.system.paused = {1, 2, 3} - {bearer}
    await stage.do(wait)

    details = [json.loads(detail or "") for f, kind, detail in stage.recording.nemesis_rows() if f == "await-leader"]
    assert [detail.get("leader") for detail in details] == [None, 1, None, bearer]


async def test_everything_is_healed_at_the_end(stage: Stage) -> None:
    """Open faults of every kind are undone, also a cut of another's making, and a node that died is started."""
    await stage.do(
        Inject(fault_id=0, fault=Partition(shape=Shape.HALVES)),
        Inject(fault_id=1, fault=Kill(target=Role.LEADER)),
        Inject(fault_id=2, fault=Pause(target=Role.LEADER)),
        Inject(fault_id=3, fault=Delay(latency_ms=5, target=Role.LEADER)),
    )
    assert stage.system.links.impaired
    stage.system.running.discard(3)
    await stage.system.links.cut("by hand", ISOLATED, LinkMode.RESET)

    await stage.injector.heal_all()

    assert (stage.system.links.cuts, stage.system.links.impaired) == ({}, {})
    assert stage.system.running == {1, 2, 3}
    assert stage.system.paused == set()
    assert stage.injector.open_faults == ()
    assert ("start-dead", "info", [3]) in stage.told()


async def test_a_node_that_does_not_start_is_told(stage: Stage) -> None:
    """A refused start is recorded as failed, and does not keep the others from being healed."""
    stage.system.refuses_start = {1}

    await stage.do(Inject(fault_id=0, fault=Kill(target=Role.ALL)), Heal(fault_id=0))

    assert stage.system.running == {2, 3}
    assert stage.told()[-1] == ("start", "fail", [1, 2, 3])


def test_the_report_knows_every_fault_by_its_name() -> None:
    """Whatever the nemesis does or undoes has a name from which the report reads its kind."""
    assert {fault.name for fault in FAULTS} <= FAULT_NAMES
    kinds = [(look_of(fault.name, BEGINS), look_of(fault.healing, ENDS)) for fault in FAULTS]

    assert all(begun is not None and begun is healed for begun, healed in kinds)


async def test_a_schedule_that_is_stopped_does_no_further_step(tmp_path: Path) -> None:
    """What was done stays done; the step that is waited for, and those after it, are never done."""
    stage, stop = Stage(tmp_path), asyncio.Event()
    steps = tuple(
        Step(at_s=at_s, action=Inject(fault_id=number, fault=Kill(target="one")))
        for number, at_s in enumerate((0, 60, 61))
    )
    schedule = Schedule(name="test", time_limit_s=90, steps=steps)
    async with asyncio.timeout(10):
        running = asyncio.create_task(
            stage.injector.run(schedule, begin_s=asyncio.get_running_loop().time(), stop=stop)
        )
        while not stage.told():
            await asyncio.sleep(0)
        stop.set()
        await running
    assert [f for f, kind, _ in stage.told() if kind == "info"] == ["kill"]
    assert len(stage.injector.open_faults) == 1


@pytest.mark.parametrize("keeps_distances", [True, False])
async def test_what_follows_a_late_step_is_as_late(keeps_distances: bool, tmp_path: Path) -> None:
    """Of a schedule that keeps its distances no step comes closer to the one before, and the end is as late as they."""
    stage, loop = Stage(tmp_path), asyncio.get_running_loop()
    kill, heal = Inject(fault_id=0, fault=Kill(target="one")), Heal(fault_id=0)
    steps = (Step(at_s=0, action=kill), Step(at_s=0.2, action=heal))
    schedule = Schedule(name="test", time_limit_s=1, steps=steps, keeps_distances=keeps_distances)
    begin_s = loop.time()
    late_s = await stage.injector.run(schedule, begin_s=begin_s - 60)
    assert late_s >= 60 if keeps_distances else late_s == 0
    assert loop.time() - begin_s >= (0.2 if keeps_distances else 0)
    assert not stage.injector.open_faults


async def test_pauses_that_overlap_end_each_for_itself(stage: Stage) -> None:
    """Who is paused by two faults stands still until the second one is healed."""
    await stage.do(Name(name="it", target=Role.LEADER))
    pause = Pause(target="@it")
    await stage.do(Inject(fault_id=0, fault=pause), Inject(fault_id=1, fault=pause), Heal(fault_id=0))
    assert stage.system.paused == {1}
    assert ("pause", "fail", [1]) not in stage.told()
    await stage.do(Heal(fault_id=1))

    assert stage.system.paused == set()
