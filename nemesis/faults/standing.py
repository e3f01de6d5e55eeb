"""Replicas killed at named points of their work: told to stand still there, watched, and killed when they do.

Owns the task of each, and that nobody is told so any more once it is healed. When a replica comes to its point, if it
does, is recorded as an operation of its own, ``come-to-point``.
"""

from __future__ import annotations

import asyncio
from random import Random

from nemesis.cluster.system import StandsStill
from nemesis.faults.crash_points import Order
from nemesis.faults.family import Aim, Family, Healed, OpenFault, Stage
from nemesis.faults.processes import start_all
from nemesis.faults.targets import InvalidTargetError
from nemesis.faults.values import KillAt
from nemesis.history import EventType

(COME_TO_POINT,) = KillAt.steps
"""The name of the operation, in the history."""
_LOOK_S = 0.02


class KillsAtPoints(Family[KillAt]):
    """Tells nodes to stand still, and kills those that do."""

    faults = (KillAt,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._watches: dict[int, dict[int, asyncio.Task[None]]] = {}

    async def aim(self, fault: KillAt, random: Random) -> Aim:
        """Decide who is told. One that is told already is not told twice."""
        if not isinstance(self._system, StandsStill):
            raise InvalidTargetError("the nodes of this system do not stand still at named points")
        return Aim(nodes=await self._casting.resolve(fault.target, random))

    async def strike(self, opened: OpenFault[KillAt]) -> tuple[int, ...]:
        """Tell those who are not told already; nobody waits until they come there."""
        assert isinstance(self._system, StandsStill), "the fault was aimed"
        told = {node for watches in self._watches.values() for node in watches}
        nodes = tuple(node for node in opened.nodes if node not in told)
        for node in nodes:
            self._system.order(node, Order(point=opened.fault.point, nth=opened.fault.nth))
        watches = {node: asyncio.create_task(self._watch(self._system, node, opened)) for node in nodes}
        self._watches[opened.fault_id] = watches
        return nodes

    async def heal(self, opened: OpenFault[KillAt]) -> Healed:
        """Take the orders back, and start those who were killed."""
        assert isinstance(self._system, StandsStill), "the fault was aimed"
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
        watches = [watch for watches in self._watches.values() for watch in watches.values()]
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def _watch(self, system: StandsStill, node: int, opened: OpenFault[KillAt]) -> None:
        """Kill the node as soon as it stands still."""
        while not system.stands_still(node):
            await asyncio.sleep(_LOOK_S)
        detail = {"fault_id": opened.fault_id, "replicas": [node], "point": opened.fault.point.value}
        self._recorder.nemesis(EventType.INVOKE, COME_TO_POINT, detail)
        was_there = await self._system.kill(node)
        self._recorder.nemesis(EventType.INFO, COME_TO_POINT, {**detail, "was_there": was_there})
