"""Faults of processes: killed, killed while they start, stopped, paused; and started or resumed, exactly those hit.

Owns these faults, and which call of the system does what. What a node has on its disk is not its business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import assert_never

from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import Breakable
from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import ANYONE, Fault, named
from nemesis.faults.look import KILLED, PAUSED
from nemesis.faults.needs import Need
from nemesis.faults.targets import Role, Target

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Fault):
    """SIGKILL. What the process wrote and the kernel has survives; healed by starting it again."""

    kind = "kill"
    does = "SIGKILL of the leader, a follower, all followers, the controller, anyone, a majority, all"
    undone = "a start on the same data"
    healer = "start"
    need = Need.PROCESSES
    look = KILLED
    drawn_as = 1
    dice = named(target=(*ANYONE, Role.ALL))
    is_usual = True
    target: Target


_STARTING_MS = (0, 100, 300, 600, 1000, 1500)
"""A replica needs something like a second until it serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillStarting(Fault):
    """SIGKILL, a start, and SIGKILL again ``after_ms`` of it, ``times`` times; healed by starting it at last."""

    kind = "kill-starting"
    does = "SIGKILL, a start, and SIGKILL some milliseconds after that, once or twice"
    undone = "a start on the same data"
    healer = "start"
    need = Need.PROCESSES
    look = KILLED
    drawn_as = 13
    dice = named(after_ms=_STARTING_MS, times=(1, 2), target=(*ANYONE, Role.ALL))
    target: Target
    after_ms: int
    times: int = 1

    @classmethod
    def on_leader(cls, random: Random) -> KillStarting:
        """The leader, once."""
        return KillStarting(target=Role.LEADER, after_ms=random.choice(_STARTING_MS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Fault):
    """SIGSTOP: alive, silent, and sure that no time has passed when SIGCONT comes."""

    kind = "pause"
    does = "SIGSTOP of the leader, a follower, all followers, the controller, anyone, a majority"
    undone = "SIGCONT"
    healer = "resume"
    need = Need.PROCESSES
    look = PAUSED
    drawn_as = 2
    dice = named(target=ANYONE)
    is_usual = True
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Fault):
    """A graceful stop: the replica hands over its leadership and closes its logs; healed by starting it again."""

    kind = "stop"
    does = "SIGTERM: it hands over its leadership and closes its logs; by a script only"
    undone = "a start on the same data"
    healer = "start"
    need = Need.PROCESSES
    look = KILLED
    target: Target


OfProcesses = Kill | KillStarting | Stop | Pause


class Processes(Family[OfProcesses]):
    """Kills, stops and pauses nodes."""

    faults = (Kill, KillStarting, Stop, Pause)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._paused: dict[int, tuple[int, ...]] = {}
        """By the id of the fault: those whom it wants to stand still."""

    async def strike(self, opened: OpenFault[OfProcesses]) -> tuple[int, ...]:
        """Hit those who run."""
        match opened.fault:
            case Kill():
                return await _hit(opened.nodes, self._system.kill)
            case KillStarting():
                hit = await _hit(opened.nodes, self._system.kill)
                await asyncio.gather(*(self._kill_starting(node, opened.fault) for node in hit))
                return hit
            case Stop():
                return await _hit(opened.nodes, self._system.stop)
            case Pause():
                hit = tuple(node for node in opened.nodes if self._system.is_running(node))
                for node in hit:
                    await self._system.pause(node)
                self._paused[opened.fault_id] = hit
                return hit
            case _:
                assert_never(opened.fault)

    async def heal(self, opened: OpenFault[OfProcesses]) -> Healed:
        """Let those who were hit run again."""
        match opened.fault:
            case Kill() | KillStarting() | Stop():
                return Healed(error=await start_all(self._system, opened.nodes))
            case Pause():
                self._paused.pop(opened.fault_id, None)
                still = {node for nodes in self._paused.values() for node in nodes}
                for node in opened.nodes:
                    if node not in still:
                        await self._system.resume(node)
                return Healed()
            case _:
                assert_never(opened.fault)

    async def _kill_starting(self, node: int, fault: KillStarting) -> None:
        """Start a node that does not run and kill it, so often; in the end it does not run."""
        for _ in range(fault.times):
            starting = asyncio.create_task(self._system.start(node))
            await asyncio.wait({starting}, timeout=fault.after_ms / 1000)
            # 1. The start has not come to its process yet. 2. A kill finds nobody. 3. So there must be another one.
            while not starting.done():
                await self._system.kill(node)
                await asyncio.wait({starting}, timeout=_LOOK_S)
            with suppress(NodeFailedError):
                starting.result()
            await self._system.kill(node)


async def start_all(system: Breakable, nodes: Sequence[int]) -> str | None:
    """Start nodes side by side; what went wrong, if anything did."""
    done = await asyncio.gather(*(system.start(node) for node in nodes), return_exceptions=True)
    errors = [error for error in done if error is not None]
    for error in errors:
        if not isinstance(error, NodeFailedError):
            raise error
    return "; ".join(str(error) for error in errors) or None


async def _hit(nodes: Sequence[int], strike: Callable[[int], Awaitable[bool]]) -> tuple[int, ...]:
    """Strike nodes side by side; those that were there."""
    were_there = await asyncio.gather(*(strike(node) for node in nodes))
    return tuple(node for node, was_there in zip(nodes, were_there, strict=True) if was_there)
