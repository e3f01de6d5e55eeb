"""Do the steps of a schedule to a system, undo them, and record what was really done.

Owns which faults are open, and the history of them. Each fault is given to its family, which knows how it is aimed,
done and undone, for exactly those whom it hit. Everything that was opened is closed by ``heal_all``, whatever the
schedule says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, assert_never

from nemesis.cluster.system import System
from nemesis.faults.breakable import ClusterState
from nemesis.faults.catalogue import FAMILIES
from nemesis.faults.family import Aim, Casting, Family, Healed, OpenFault, Stage, Struck, leader_of
from nemesis.faults.fault import Fault
from nemesis.faults.load import Load
from nemesis.faults.processes import start_all
from nemesis.faults.targets import InvalidTargetError
from nemesis.history.recorder import Recorder
from nemesis.schedules.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step

HEAL_ALL = "heal-all"
"""What the harness brings about at the end, in the history of a run in which it could not."""
HEALINGS_MAX = 2
"""How often a healing is tried at the end."""
HEALED_AGAIN_S = 0.5


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
        return tuple(f"{fault.fault.name} {list(fault.nodes)}" for fault in self._open.values())

    async def run(self, schedule: Schedule, *, begin_s: float, stop: asyncio.Event | None = None) -> float:
        """Do the steps at their times; ``begin_s`` is the event loop's time at which the schedule begins.

        When ``stop`` is set no further step is done, and what is open stays so. Returns by how many seconds the end is
        to be later, so that it keeps its distance from what came late.
        """
        loop, late_s = asyncio.get_running_loop(), 0.0
        for step in schedule.steps:
            if await is_set_within(stop or asyncio.Event(), begin_s + step.at_s + late_s - loop.time()):
                break
            await self._do(step)
            # Waiting takes as long as it takes: that is no lateness.
            if schedule.keeps_distances and not isinstance(step.action, AwaitLeader):
                late_s = max(late_s, loop.time() - begin_s - step.at_s)
        return late_s

    async def heal_all(self) -> None:
        """Undo whatever is still open, start what does not run, whoever ended it, and let all vote again.

        Never raises: what could not be undone is recorded as ``heal-all`` of the harness, failed.
        """
        errors: list[str] = []
        for turn in range(HEALINGS_MAX):
            await asyncio.sleep(HEALED_AGAIN_S if turn else 0)
            for fault_id in tuple(self._open):
                await self._heal(fault_id)
            errors = await _errors_of(self._end_by_hand)
            if not self._open and not errors:
                break
        errors += [f"{opened.fault.name} is not healed" for opened in self._open.values()]
        for family in self._families:
            errors += await _errors_of(family.finish)
        if errors:
            self._recorder.harness_began(HEAL_ALL, {})
            self._recorder.harness_ended(HEAL_ALL, {}, error="; ".join(errors))

    async def _end_by_hand(self) -> None:
        """Undo what no fault has to do with any more, or what its healing could not."""
        await self._system.links.heal_all()
        for node in self._system.nodes:
            await self._system.resume(node)
            if not self._system.is_running(node):
                detail = {"replicas": [node]}
                self._recorder.began("start-dead", detail)
                self._recorder.ended("start-dead", detail, error=await start_all(self._system, [node]))

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
                self._recorder.began("name", {"name": name})
                self._recorder.ended("name", {"name": name, "replicas": [bearer]})
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

        self._recorder.began("await-leader", {"replicas": [wanted]})
        state = await self._casting.wait_state(lambda state: leader(state) == wanted, wait.at_most_s)
        self._recorder.ended("await-leader", {"replicas": [wanted], "leader": leader(state)})

    async def _inject(self, step: Inject) -> None:
        try:
            aim = await self._aim(step)
        except InvalidTargetError as error:
            detail = {"fault_id": step.fault_id, "fault": step.fault.to_json()}
            self._recorder.began(step.fault.name, detail)
            self._recorder.ended(step.fault.name, detail | {"strike": Struck.REFUSED}, error=str(error))
            return
        await self._strike(OpenFault(fault_id=step.fault_id, fault=step.fault, aim=aim, draw=step.draw))

    async def _aim(self, step: Inject) -> Aim:
        """Whom it is about. Raises InvalidTargetError where that is nobody, or the system lacks what it takes."""
        lacking = self._system.lacks(step.fault.need)
        if lacking is not None:
            raise InvalidTargetError(lacking)
        return await self._family_of[type(step.fault)].aim(step.fault, Random(step.draw))

    async def _strike(self, opened: OpenFault[Any]) -> None:
        """Do it, and tell what became of that."""
        f, family = opened.fault.name, self._family_of[type(opened.fault)]
        self._recorder.began(f, opened.detail)
        try:
            hit = await family.strike(opened)
        except Exception as error:
            # Some of it may be done, so that it is to be healed.
            self._open[opened.fault_id] = opened
            self._recorder.ended(f, opened.detail | {"strike": Struck.UNKNOWN}, error=_said(error), is_known=False)
            return
        if not hit:
            detail = opened.detail | {"strike": Struck.MISSED}
            self._recorder.ended(f, detail, error="there was no running process to hit")
            return
        self._open[opened.fault_id] = replace(opened, aim=replace(opened.aim, nodes=hit))
        strike = Struck.BEGUN if opened.fault.steps else Struck.STRUCK
        self._recorder.ended(f, opened.detail | {"replicas": list(hit), "strike": strike, **family.done(opened)})

    async def _heal(self, fault_id: int) -> None:
        """Undo a fault; one whose healing fails stays open."""
        opened = self._open.get(fault_id)
        if opened is None:
            return
        f = opened.fault.healing
        self._recorder.began(f, opened.detail)
        try:
            healed = await self._family_of[type(opened.fault)].heal(opened)
        except Exception as error:
            healed = Healed(error=_said(error))
        if healed.error is None:
            del self._open[fault_id]
        if healed.is_over:
            self._recorder.ended(f, {**opened.detail, **healed.detail}, error=healed.error)


async def is_set_within(event: asyncio.Event, at_most_s: float) -> bool:
    """Wait for the event, or until the time is up; whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, at_most_s)):
            await event.wait()
    return event.is_set()


async def _errors_of(call: Callable[[], Awaitable[None]]) -> list[str]:
    """What it raises, in words; nothing if it ends well."""
    try:
        await call()
    except Exception as error:
        return [_said(error)]
    return []


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
