"""Faults of clocks: the one that a replica's timers go by, and the one that dates records.

Owns these faults, what every open one of them wants of a node, as one setting of its clocks, and the tasks that let
wall clocks strobe. Clocks of nodes that are down are set all the same: the next process has them. A replica's timers
count on a clock that never goes back, whatever is done to it; the wall clock may go anywhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import assert_never

from nemesis.faults.breakable import KeepsTime
from nemesis.faults.dials import TRUE_PERCENT, Dials
from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import ANYONE, Fault, check_at_least, named
from nemesis.faults.look import CLOCK
from nemesis.faults.needs import Need
from nemesis.faults.targets import Role, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What one fault wants of its nodes' clocks while it lasts."""

    nodes: tuple[int, ...]
    percent: int = TRUE_PERCENT
    wall_ms: int = 0


_HOUR_MS = 3_600_000
_SOMEBODY = (*ANYONE, Role.ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpClock(Fault):
    """The timers' clock leaps ahead by ``by_ms`` milliseconds; there is nothing to undo."""

    kind = "clock-jump"
    does = "the clock of a replica's timers leaps ahead; see [below](#clocks)"
    undone = "nothing: such a clock has no true time"
    healer = "settle"
    is_healed_by_name = True
    need = Need.TIMERS
    look = CLOCK
    drawn_as = 15
    dice = named(target=_SOMEBODY, by_ms=(100, 1_000, 10_000))
    against_leader = named(by_ms=10_000)
    """A leader whose timers run out too early gives up."""
    target: Target
    by_ms: int

    def __post_init__(self) -> None:
        check_at_least(1, by_ms=self.by_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopClock(Fault):
    """The timers' clock stands still and the process works on: nothing is ever late by it; healed by letting it go on.

    So it is with a virtual machine whose host withholds time from it. What was missed is never made up for.
    """

    kind = "clock-stop"
    does = "it stands still, and the replica works on"
    undone = "it goes on"
    healer = "settle"
    is_healed_by_name = True
    need = Need.TIMERS
    look = CLOCK
    drawn_as = 16
    dice = named(target=_SOMEBODY)
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftClock(Fault):
    """The timers' clock counts ``percent`` milliseconds in a hundred; healed by counting as it should again.

    What it has gained or lost stays with it: such a clock has no true time, only a true rate.
    """

    kind = "clock-drift"
    does = "it counts too fast or too slowly"
    undone = "it counts as it should"
    healer = "settle"
    is_healed_by_name = True
    need = Need.TIMERS
    look = CLOCK
    drawn_as = 17
    dice = named(target=_SOMEBODY, percent=(10, 50, 90, 110, 200, 1000))
    against_leader = named(percent=2000)
    """A leader whose timers run out too early."""
    target: Target
    percent: int

    def __post_init__(self) -> None:
        check_at_least(0, percent=self.percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpWallClock(Fault):
    """The wall clock is ``by_ms`` milliseconds ahead, or behind if that is negative; healed by the true time."""

    kind = "wall-clock-jump"
    does = "the wall clock is ahead or behind"
    undone = "the true time"
    healer = "settle"
    is_healed_by_name = True
    need = Need.WALL_CLOCKS
    look = CLOCK
    drawn_as = 18
    against_leader = named(by_ms=-_HOUR_MS)
    """A leader whose date is wrong stays."""
    target: Target
    by_ms: int

    @classmethod
    def drawn(cls, random: Random) -> JumpWallClock:
        """Ahead or behind, little or much."""
        target = random.choice(_SOMEBODY)
        return JumpWallClock(target=target, by_ms=random.choice((-1, 1)) * random.choice((200, 60_000, _HOUR_MS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StrobeWallClock(Fault):
    """The wall clock jumps by ``by_ms`` milliseconds, and back, every ``period_ms``; healed by the true time."""

    kind = "clock-strobe"
    does = "the wall clock jumps to and fro"
    undone = "the true time"
    healer = "settle"
    is_healed_by_name = True
    need = Need.WALL_CLOCKS
    look = CLOCK
    drawn_as = 19
    dice = named(
        target=_SOMEBODY,
        by_ms=(-200, 200, 60_000, -_HOUR_MS),
        period_ms=(10, 100, 1000),
    )
    against_leader = named(by_ms=-_HOUR_MS, period_ms=100)
    """A leader whose date is wrong now and again."""
    target: Target
    by_ms: int
    period_ms: int

    def __post_init__(self) -> None:
        check_at_least(1, period_ms=self.period_ms)


ClockFault = JumpClock | StopClock | DriftClock | JumpWallClock | StrobeWallClock


class Timekeeping(Family[ClockFault]):
    """Lets clocks leap, drift, stand still, jump and strobe."""

    faults = (JumpClock, StopClock, DriftClock, JumpWallClock, StrobeWallClock)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._wishes: dict[int, _Wish] = {}
        self._leaps_ms: Counter[int] = Counter()
        self._strobes: dict[int, asyncio.Task[None]] = {}

    async def strike(self, opened: OpenFault[ClockFault]) -> tuple[int, ...]:
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
        assert isinstance(self._system, KeepsTime), "it has what the fault needs"
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
