"""Do the steps of a schedule to a world, undo them, and record what was really done.

The simulator's counterpart of ``nemesis.faults.injector``: the same schedules, the same words in the history, no event
loop, and faults that no operating system offers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, assert_never

from nemesis.faults.clocks import DriftClock, JumpWallClock, StrobeWallClock
from nemesis.faults.disks import hindrance_of
from nemesis.faults.links import CLIENTS, Link
from nemesis.faults.names import healer_of, name_of
from nemesis.faults.network import Bandwidth, Delay, Duplicate, Loss, ReplyLost, Reset, SlowClose
from nemesis.faults.shapes import cut_links
from nemesis.faults.targets import Cast, InvalidTargetError, Target, resolve
from nemesis.faults.values import (
    Burst,
    ChangeVoters,
    Clog,
    CutClients,
    CutLink,
    DamageDisk,
    DelayMetadata,
    DiskPart,
    FailDisk,
    Fault,
    FillDisk,
    JumpClock,
    Kill,
    KillAt,
    KillStarting,
    LimitMemory,
    Partition,
    Pause,
    PowerLoss,
    Reassign,
    ReplaceDisk,
    RollingRestart,
    SlowDisk,
    Stop,
    StopClock,
)
from nemesis.history import EventType
from nemesis.schedule import AwaitLeader, Heal, Inject, Name, Schedule
from nemesis.schedule import Step as ScheduleStep
from nemesis.simulator.node import Crash, Node
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.world import World
from replica.ids import ReplicaId

NO_HOLD = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFault:
    """A fault that was done and not yet undone."""

    fault: Fault
    nodes: tuple[int, ...]
    links: frozenset[Link]


class SimulatedInjector:
    """Does one schedule to one world."""

    def __init__(self, world: World, record: Record) -> None:
        self._world = world
        self._record = record
        self._names: dict[str, int] = {}
        self._open: dict[int, OpenFault] = {}

    def put_down(self, schedule: Schedule) -> None:
        """Put every step of the schedule on the world's agenda, counted from now."""
        for step in schedule.steps:
            self._world.queue.after(int(step.at_s * US_PER_S), self._doing(step))

    def _doing(self, step: ScheduleStep) -> Callable[[], None]:
        return lambda: self.do(step)

    def do(self, step: ScheduleStep) -> None:
        """Do one step now."""
        match step.action:
            case Inject(fault_id=fault_id, fault=fault, draw=draw):
                self._inject(fault_id, fault, Random(draw))
            case Heal(fault_id=fault_id):
                self._heal(fault_id)
            case Name(name=name, target=target, draw=draw):
                self._names[name] = self._resolve(target, Random(draw))[0]
            case AwaitLeader():
                pass  # Virtual time does not wait: a schedule for the simulator says when.
            case _:
                assert_never(step.action)

    def heal_all(self) -> None:
        """Undo whatever is still open, and free every machine of what was about to happen to it."""
        for fault_id in tuple(self._open):
            self._heal(fault_id)
        self._world.network.heal_all()
        for node in self._world.nodes.values():
            node.disk.files.power_fails_before = None
            for key in sorted(node.paused_by):
                node.resume(key)

    # --- whom ---------------------------------------------------------------------------------------------------------

    def _resolve(self, target: Target, dice: Random) -> tuple[int, ...]:
        cast = Cast(nodes=tuple(self._world.nodes), leader=self._world.leader(dice), names=dict(self._names))
        if target == "follower" and len(cast.nodes) == 1:
            return ()
        return resolve(target, cast, dice)

    def _aim(self, fault: Fault, dice: Random) -> OpenFault:
        """Decide whom the fault is about, and which links."""
        nodes = tuple(self._world.nodes)
        match fault:
            case Partition(shape=shape, target=target) | Clog(shape=shape, target=target):
                about = self._resolve(target, dice)
                return OpenFault(fault=fault, nodes=about, links=cut_links(shape, nodes, about, dice))
            case CutLink(source=source, destination=destination):
                ends = (*self._resolve(source, dice), *self._resolve(destination, dice))
                return OpenFault(fault=fault, nodes=ends, links=frozenset({(ends[0], ends[1])}))
            case CutClients(target=target):
                about = self._resolve(target, dice)
                links = frozenset(link for node in about for link in ((CLIENTS, node), (node, CLIENTS)))
                return OpenFault(fault=fault, nodes=about, links=links)
            case Burst() | Reassign():
                return OpenFault(fault=fault, nodes=(), links=frozenset())
            case DamageDisk(part=part) if part is not DiskPart.LOG:
                raise InvalidTargetError(f"only logs are damaged here, while they are in use; not a {part}")
            case _:
                return OpenFault(fault=fault, nodes=self._resolve(fault.target, dice), links=frozenset())

    # --- doing --------------------------------------------------------------------------------------------------------

    def _inject(self, fault_id: int, fault: Fault, dice: Random) -> None:
        f = name_of(fault)
        try:
            opened = self._aim(fault, dice)
        except InvalidTargetError as error:
            self._record.nemesis(EventType.INVOKE, f, {"fault_id": fault_id})
            self._record.nemesis(EventType.FAIL, f, {"fault_id": fault_id}, error=str(error))
            return
        detail = _detail(fault_id, opened)
        self._record.nemesis(EventType.INVOKE, f, detail)
        self._open[fault_id] = opened
        match fault:
            case Partition() | CutLink() | CutClients():
                self._world.network.cut(fault_id, opened.links)
            case Clog():
                self._world.network.clog(fault_id, opened.links)
            case DelayMetadata(delay_ms=delay_ms):
                self._world.hear_late(fault_id, map(ReplicaId, opened.nodes), delay_ms)
            case _:
                for node in opened.nodes:
                    self._strike(fault_id, fault, self._world.nodes[ReplicaId(node)], dice)
        self._record.nemesis(EventType.INFO, f, detail)

    def _strike(self, fault_id: int, fault: Fault, node: Node, dice: Random) -> None:
        match fault:
            case Kill():
                self._world.hold_down(node.replica_id, fault_id)
                node.kill()
            case PowerLoss():
                self._world.hold_down(node.replica_id, fault_id)
                node.lose_power(Crash(cause="power"))
            case Stop():
                self._world.hold_down(node.replica_id, fault_id)
                node.stop()
            case Pause():
                node.pause(fault_id)
            case JumpClock(by_ms=by_ms):
                node.jump_clock(by_ms)
            case StopClock():
                node.clock.stop(fault_id, self._world.now_us)
            case FillDisk() | SlowDisk() | FailDisk():
                node.disk.hinder(fault_id, hindrance_of(fault))
            case DamageDisk(how=how):
                node.disk.damage(how, node.recovery_points, dice)
            case Partition() | CutLink() | CutClients() | Clog() | DelayMetadata():
                raise AssertionError(f"{fault.kind} strikes messages")
            case RollingRestart() | KillStarting() | KillAt() | LimitMemory():
                raise AssertionError(f"{fault.kind} is of processes; here it is a stop for each")
            case ChangeVoters() | Reassign():
                raise AssertionError(f"{fault.kind} is asked of replicas; here administrators ask")
            case DriftClock() | JumpWallClock() | StrobeWallClock() | Burst() | ReplaceDisk():
                raise AssertionError(f"{fault.kind} is of the climate here: clocks, clients and disks have habits")
            case Delay() | Loss() | Bandwidth() | Reset() | SlowClose() | ReplyLost() | Duplicate():
                raise AssertionError(f"{fault.kind} is done to connections; here there are messages, and clogs")
            case _:
                assert_never(fault)

    # --- undoing ------------------------------------------------------------------------------------------------------

    def _heal(self, fault_id: int) -> None:
        opened = self._open.pop(fault_id, None)
        if opened is None:
            return
        f, detail = healer_of(opened.fault), _detail(fault_id, opened)
        self._record.nemesis(EventType.INVOKE, f, detail)
        if opened.links:
            self._world.network.heal(fault_id)
        elif isinstance(opened.fault, DelayMetadata):
            self._world.hear_in_time(fault_id)
        else:
            for node in opened.nodes:
                self._restore(fault_id, opened.fault, self._world.nodes[ReplicaId(node)])
        self._record.nemesis(EventType.INFO, f, detail)

    def _restore(self, fault_id: int, fault: Fault, node: Node) -> None:
        match fault:
            case Kill() | PowerLoss() | Stop():
                self._world.release(node.replica_id, fault_id)
            case Pause():
                node.resume(fault_id)
            case StopClock():
                node.clock.go_on(fault_id, self._world.now_us)
                node.jump_clock(0)  # What is to come is due by the clock once more.
            case FillDisk() | SlowDisk() | FailDisk():
                node.disk.relieve(fault_id)
            case _:
                pass


def _detail(fault_id: int, opened: OpenFault) -> dict[str, Any]:
    detail: dict[str, Any] = {"fault_id": fault_id, "replicas": list(opened.nodes)}
    return detail | {"cut": sorted(opened.links)} if opened.links else detail
