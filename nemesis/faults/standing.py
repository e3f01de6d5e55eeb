"""Replicas killed at named points of their work: told to stand still there, watched, and killed when they do.

Owns the task of each, and that nobody is told so any more once it is healed. When a replica comes to its point, if it
does, is recorded as an operation of its own, ``come-to-point``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nemesis.faults.breakable import StandsStill
from nemesis.faults.crash_points import CrashPoint, Order
from nemesis.faults.family import Family, Healed, OpenFault, Stage, cancelled
from nemesis.faults.fault import ANYONE, Fault, named
from nemesis.faults.look import KILLED
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import Role, Target

COME_TO_POINT = "come-to-point"
"""The name of the operation, in the history."""
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAt(Fault):
    """SIGKILL when the replica comes to a ``point`` of its work for the ``nth`` time; it stands still there.

    Healed by starting who was killed; who has not come there by then is left alone. Needs replicas that are told so.
    """

    kind = "kill-at"
    does = "SIGKILL at a named point of a replica's work"
    undone = "a start on the same data, for those who came there"
    healer = "start"
    need = Need.STANDING_STILL
    look = KILLED
    told_by = "point"
    steps = (COME_TO_POINT,)
    drawn_as = 14
    dice = named(nth=(1, 2, 5, 20), target=(*ANYONE, Role.ALL), point=tuple(CrashPoint))
    against_leader = named(point=CrashPoint.AFTER_FLUSH)
    """The leader, which has flushed what nobody knows of."""
    target: Target
    point: CrashPoint
    nth: int = 1


class KillsAtPoints(Family[KillAt]):
    """Tells nodes to stand still, and kills those that do."""

    faults = (KillAt,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._watches: dict[int, dict[int, asyncio.Task[None]]] = {}

    async def strike(self, opened: OpenFault[KillAt]) -> tuple[int, ...]:
        """Tell those who are not told already; nobody waits until they come there."""
        assert isinstance(self._system, StandsStill), "it has what the fault needs"
        watching = self._watches[opened.fault_id] = dict[int, asyncio.Task[None]]()
        told = {node for watches in self._watches.values() for node in watches}
        nodes = tuple(node for node in opened.nodes if node not in told)
        for node in nodes:
            self._system.order(node, Order(point=opened.fault.point, nth=opened.fault.nth))
            watching[node] = asyncio.create_task(self._watch(self._system, node, opened))
        return nodes

    async def heal(self, opened: OpenFault[KillAt]) -> Healed:
        """Take the orders back, and start those who were killed."""
        assert isinstance(self._system, StandsStill), "it has what the fault needs"
        killed = []
        for node, watch in self._watches[opened.fault_id].items():
            self._system.take_back(node)
            if not self._system.stands_still(node):
                watch.cancel()
                continue
            await watch
            killed.append(node)
        error = await start_all(self._system, killed)
        if error is None:
            del self._watches[opened.fault_id]
        return Healed(error=error, detail={"killed": killed})

    async def abandon(self) -> None:
        """Watch nobody any more."""
        await cancelled(watch for watches in self._watches.values() for watch in watches.values())

    async def _watch(self, system: StandsStill, node: int, opened: OpenFault[KillAt]) -> None:
        """Kill the node as soon as it stands still."""
        while not system.stands_still(node):
            await asyncio.sleep(_LOOK_S)
        detail = {"fault_id": opened.fault_id, "replicas": [node], "point": opened.fault.point.value}
        self._recorder.began(COME_TO_POINT, detail)
        was_there = await self._system.kill(node)
        self._recorder.ended(COME_TO_POINT, {**detail, "was_there": was_there})
