"""Do the steps of a schedule to a world, undo them, and record what was really done.

The simulator's counterpart of ``nemesis.schedules.injector``: the same schedules, the same words in the history, no
event loop, and faults that no operating system offers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, assert_never

from nemesis.disks.damage import DiskPart
from nemesis.faults.damage import DamageDisk
from nemesis.faults.family import OpenFault, Struck, aimed
from nemesis.faults.targets import Cast, InvalidTargetError, Target, resolve
from nemesis.history import EventType
from nemesis.schedules.schedule import AwaitLeader, Heal, Inject, Name, Schedule
from nemesis.schedules.schedule import Step as ScheduleStep
from nemesis.simulator.faults import IN_WORLDS
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.world import World


class SimulatedInjector:
    """Does one schedule to one world."""

    def __init__(self, world: World, record: Record) -> None:
        self._world = world
        self._record = record
        self._names: dict[str, int] = {}
        self._open: dict[int, OpenFault[Any]] = {}

    def put_down(self, schedule: Schedule) -> None:
        """Put every step of the schedule on the world's agenda, counted from now."""
        for step in schedule.steps:
            self._world.queue.after(int(step.at_s * US_PER_S), self._doing(step))

    def _doing(self, step: ScheduleStep) -> Callable[[], None]:
        return lambda: self.do(step)

    def do(self, step: ScheduleStep) -> None:
        """Do one step now."""
        match step.action:
            case Inject():
                self._inject(step.action)
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

    def _aim(self, step: Inject, dice: Random) -> OpenFault[Any]:
        """Decide whom the fault is about, and which links. Raises InvalidTargetError where it cannot be done."""
        fault = step.fault
        if type(fault) not in IN_WORLDS:
            raise InvalidTargetError(f"{fault.kind} cannot be done in the simulator")
        if isinstance(fault, DamageDisk) and fault.part is not DiskPart.LOG:
            raise InvalidTargetError(f"only logs are damaged here, while they are in use; not a {fault.part}")
        about = [node for target in fault.targets for node in self._resolve(target, dice)]
        return OpenFault(fault_id=step.fault_id, fault=fault, aim=aimed(fault, tuple(self._world.nodes), about, dice))

    # --- doing, and undoing -------------------------------------------------------------------------------------------

    def _inject(self, step: Inject) -> None:
        f, dice = step.fault.name, Random(step.draw)
        try:
            opened = self._aim(step, dice)
        except InvalidTargetError as error:
            detail = {"fault_id": step.fault_id, "fault": step.fault.to_json()}
            self._record.nemesis(EventType.INVOKE, f, detail)
            self._record.nemesis(EventType.FAIL, f, detail | {"strike": Struck.REFUSED}, error=str(error))
            return
        self._record.nemesis(EventType.INVOKE, f, opened.detail)
        hit = IN_WORLDS[type(step.fault)].strike(self._world, opened, dice)
        if not hit and not opened.aim.links:
            detail = opened.detail | {"strike": Struck.MISSED}
            self._record.nemesis(EventType.FAIL, f, detail, error="there was nothing to hit")
            return
        opened = self._open[step.fault_id] = replace(opened, aim=replace(opened.aim, nodes=hit))
        self._record.nemesis(EventType.INFO, f, opened.detail | {"strike": Struck.STRUCK})

    def _heal(self, fault_id: int) -> None:
        opened = self._open.pop(fault_id, None)
        if opened is None:
            return
        f = opened.fault.healing
        self._record.nemesis(EventType.INVOKE, f, opened.detail)
        IN_WORLDS[type(opened.fault)].heal(self._world, opened)
        self._record.nemesis(EventType.INFO, f, opened.detail)
