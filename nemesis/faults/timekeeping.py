"""Faults of clocks, done to a live system: what every open fault wants of a node, as one setting of its clocks.

Owns the sum of them, and the tasks that let wall clocks strobe. Clocks of nodes that are down are set all the same: the
next process has them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import assert_never

from nemesis.cluster.system import KeepsTime
from nemesis.faults.clocks import DriftClock, JumpWallClock, StrobeWallClock
from nemesis.faults.dials import TRUE_PERCENT, Dials
from nemesis.faults.family import Aim, Family, Healed, OpenFault, Stage
from nemesis.faults.targets import InvalidTargetError
from nemesis.faults.values import ClockFault, JumpClock, StopClock


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What one fault wants of its nodes' clocks while it lasts."""

    nodes: tuple[int, ...]
    percent: int = TRUE_PERCENT
    wall_ms: int = 0


class Timekeeping(Family[ClockFault]):
    """Lets clocks leap, drift, stand still, jump and strobe."""

    faults = (JumpClock, StopClock, DriftClock, JumpWallClock, StrobeWallClock)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._wishes: dict[int, _Wish] = {}
        self._leaps_ms: Counter[int] = Counter()
        self._strobes: dict[int, asyncio.Task[None]] = {}

    async def aim(self, fault: ClockFault, random: Random) -> Aim:
        """Decide whose clocks."""
        if not isinstance(self._system, KeepsTime):
            raise InvalidTargetError("nobody can set the clocks of this system's nodes")
        return Aim(nodes=await self._casting.resolve(fault.target, random))

    async def strike(self, opened: OpenFault[ClockFault]) -> tuple[int, ...]:
        """Set them."""
        nodes = opened.nodes
        match opened.fault:
            case JumpClock(by_ms=by_ms):
                self._leaps_ms.update(dict.fromkeys(nodes, by_ms))
                self._wish(opened.fault_id, _Wish(nodes=nodes))
            case StopClock():
                self._wish(opened.fault_id, _Wish(nodes=nodes, percent=0))
            case DriftClock(percent=percent):
                self._wish(opened.fault_id, _Wish(nodes=nodes, percent=percent))
            case JumpWallClock(by_ms=by_ms):
                self._wish(opened.fault_id, _Wish(nodes=nodes, wall_ms=by_ms))
            case StrobeWallClock():
                self._strobes[opened.fault_id] = asyncio.create_task(self._strobe(opened.fault_id, nodes, opened.fault))
            case _:
                assert_never(opened.fault)
        return nodes

    async def heal(self, opened: OpenFault[ClockFault]) -> Healed:
        """Set them as if this fault had not been; what a timers' clock has gained or lost stays."""
        strobe = self._strobes.pop(opened.fault_id, None)
        error = None if strobe is None else await _end(strobe)
        self._wishes.pop(opened.fault_id, None)
        self._turn(opened.nodes)
        return Healed(error=None if error is None else f"the clocks strobed no longer: {error}")

    async def abandon(self) -> None:
        """Let nothing strobe any more."""
        for strobe in self._strobes.values():
            await _end(strobe)

    async def _strobe(self, fault_id: int, nodes: tuple[int, ...], fault: StrobeWallClock) -> None:
        while True:
            for wall_ms in (fault.by_ms, 0):
                self._wish(fault_id, _Wish(nodes=nodes, wall_ms=wall_ms))
                await asyncio.sleep(fault.period_ms / 1000)

    def _wish(self, fault_id: int, wish: _Wish) -> None:
        self._wishes[fault_id] = wish
        self._turn(wish.nodes)

    def _turn(self, nodes: tuple[int, ...]) -> None:
        assert isinstance(self._system, KeepsTime), "the fault was aimed"
        for node in nodes:
            self._system.set_clocks(node, self._dials(node))

    def _dials(self, node: int) -> Dials:
        """All that is wished of a node's clocks: rates multiply, jumps add up."""
        percent, wall_ms = TRUE_PERCENT, 0
        for wish in self._wishes.values():
            if node in wish.nodes:
                percent = percent * wish.percent // TRUE_PERCENT
                wall_ms += wish.wall_ms
        return Dials(percent=percent, leaps_ms=self._leaps_ms[node], wall_ms=wall_ms)


async def _end(task: asyncio.Task[None]) -> BaseException | None:
    """End it; the error by which it had ended before, if it had."""
    task.cancel()
    [ended] = await asyncio.gather(task, return_exceptions=True)
    return None if isinstance(ended, asyncio.CancelledError) else ended
