"""Do the steps of a schedule to a system, undo them, and record what was really done.

Owns which faults are open, and the history of them. Each fault is given to its family, which knows how it is aimed,
done and undone, for exactly those whom it hit. Everything that was opened is closed by ``heal_all``, whatever the
schedule says.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, assert_never

from nemesis.cluster.system import ClusterState, System
from nemesis.faults.bursts import Bursts
from nemesis.faults.casting import Casting, leader_of
from nemesis.faults.damage import DamagedDisks
from nemesis.faults.disks import Disks
from nemesis.faults.family import Aim, Family, OpenFault, Stage
from nemesis.faults.impairments import Impairments
from nemesis.faults.memory import MemoryLimits
from nemesis.faults.moves import Moves
from nemesis.faults.names import healer_of, name_of
from nemesis.faults.partitions import Partitions
from nemesis.faults.processes import Processes, start_all
from nemesis.faults.replaced_disks import ReplacedDisks
from nemesis.faults.rolling import Rolling
from nemesis.faults.standing import KillsAtPoints
from nemesis.faults.targets import InvalidTargetError
from nemesis.faults.timekeeping import Timekeeping
from nemesis.faults.values import Fault
from nemesis.faults.voters import Voters
from nemesis.history import EventType
from nemesis.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step
from nemesis.workload.pace import Load
from nemesis.workload.recorder import Recorder

FAMILIES: tuple[type[Family[Any]], ...] = (
    *(Partitions, Impairments, Processes, KillsAtPoints),
    *(Disks, DamagedDisks, ReplacedDisks, Timekeeping, Bursts, Rolling, Voters),
    *(Moves, MemoryLimits),
)
"""What is done by whom; at the end of a run they finish in this order."""


class Injector:
    """Does one schedule to one system, and to ``load``: how often its clients ask."""

    def __init__(self, system: System, recorder: Recorder, load: Load | None = None) -> None:
        self._system = system
        self._recorder = recorder
        self._casting = Casting(system)
        stage = Stage(system=system, casting=self._casting, recorder=recorder, load=load or Load())
        self._families = [family(stage) for family in FAMILIES]
        self._family_of: dict[type[Fault], Family[Any]] = {
            fault: family for family in self._families for fault in family.faults
        }
        self._open: dict[int, OpenFault[Any]] = {}

    @property
    def open_faults(self) -> tuple[str, ...]:
        """What is broken now, in words, for the progress line."""
        return tuple(f"{name_of(fault.fault)} {list(fault.nodes)}" for fault in self._open.values())

    async def run(self, schedule: Schedule, *, begin_s: float, stop: asyncio.Event | None = None) -> None:
        """Do the steps at their times; ``begin_s`` is the event loop's time at which the schedule begins.

        When ``stop`` is set no further step is done, and what is open stays so.
        """
        loop = asyncio.get_running_loop()
        for step in schedule.steps:
            if await is_set_within(stop or asyncio.Event(), begin_s + step.at_s - loop.time()):
                return
            await self._do(step)

    async def heal_all(self) -> None:
        """Undo whatever is still open, start what does not run, whoever ended it, and let all vote again."""
        for fault_id in tuple(self._open):
            await self._heal(fault_id)
        await self._system.links.heal_all()
        for node in self._system.nodes:
            await self._system.resume(node)
            if not self._system.is_running(node):
                detail = {"replicas": [node]}
                self._recorder.nemesis(EventType.INVOKE, "start-dead", detail)
                error = await start_all(self._system, [node])
                self._recorder.nemesis(_outcome(error), "start-dead", detail, error=error)
        for family in self._families:
            await family.finish()

    async def abandon(self) -> None:
        """Leave all as it is, and do nothing more: what goes on by itself would start nodes of a closed system."""
        for family in self._families:
            await family.abandon()

    async def _do(self, step: Step) -> None:
        match step.action:
            case Inject():
                await self._inject(step.action)
            case Heal(fault_id=fault_id):
                await self._heal(fault_id)
            case Name(name=name, target=target, draw=draw):
                bearer = await self._casting.name(name, target, Random(draw))
                self._recorder.nemesis(EventType.INVOKE, "name", {"name": name})
                self._recorder.nemesis(EventType.INFO, "name", {"name": name, "replicas": [bearer]})
            case AwaitLeader():
                await self._await_leader(step.action)
            case _:
                assert_never(step.action)

    async def _await_leader(self, wait: AwaitLeader) -> None:
        (wanted,) = await self._casting.resolve(wait.target, Random(0))

        def leader(state: ClusterState | None) -> int | None:
            if wait.of_metadata:
                return None if state is None else state.controller
            return leader_of(state, self._system.topic_partitions[0])

        self._recorder.nemesis(EventType.INVOKE, "await-leader", {"replicas": [wanted]})
        state = await self._casting.wait_state(lambda state: leader(state) == wanted, wait.at_most_s)
        self._recorder.nemesis(EventType.INFO, "await-leader", {"replicas": [wanted], "leader": leader(state)})

    async def _inject(self, step: Inject) -> None:
        f = name_of(step.fault)
        try:
            family = self._family_of.get(type(step.fault))
            if family is None:
                raise InvalidTargetError(f"{step.fault.kind} cannot be done to processes, only in the simulator")
            aim = await family.aim(step.fault, Random(step.draw))
        except InvalidTargetError as error:
            self._recorder.nemesis(EventType.INVOKE, f, {"fault_id": step.fault_id})
            self._recorder.nemesis(EventType.FAIL, f, {"fault_id": step.fault_id}, error=str(error))
            return
        opened = OpenFault(fault_id=step.fault_id, fault=step.fault, aim=aim, draw=step.draw)
        self._recorder.nemesis(EventType.INVOKE, f, opened.detail)
        hit = await family.strike(opened)
        self._open[step.fault_id] = replace(opened, aim=Aim(nodes=hit, links=aim.links))
        if hit:
            detail = opened.detail | {"replicas": list(hit), **family.done(opened)}
            self._recorder.nemesis(EventType.INFO, f, detail)
        else:
            self._recorder.nemesis(EventType.FAIL, f, opened.detail, error="there was no running process to hit")

    async def _heal(self, fault_id: int) -> None:
        opened = self._open.pop(fault_id, None)
        if opened is None or not (opened.nodes or opened.aim.links):
            return
        f = healer_of(opened.fault)
        self._recorder.nemesis(EventType.INVOKE, f, opened.detail)
        healed = await self._family_of[type(opened.fault)].heal(opened)
        if healed.is_over:
            self._recorder.nemesis(_outcome(healed.error), f, {**opened.detail, **healed.detail}, error=healed.error)


async def is_set_within(event: asyncio.Event, at_most_s: float) -> bool:
    """Wait for the event, or until the time is up; whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, at_most_s)):
            await event.wait()
    return event.is_set()


def _outcome(error: str | None) -> EventType:
    return EventType.INFO if error is None else EventType.FAIL
