"""Faults of processes: killed, killed while they start, stopped, paused; and started or resumed, exactly those hit.

Owns which call of the system does what. What a node has on its disk is not its business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import assert_never

from nemesis.cluster.system import NodeFailedError, System
from nemesis.faults.family import Aim, Family, Healed, OpenFault, Stage
from nemesis.faults.values import Kill, KillStarting, Pause, Stop

OfProcesses = Kill | KillStarting | Stop | Pause
_LOOK_S = 0.02


class Processes(Family[OfProcesses]):
    """Kills, stops and pauses nodes."""

    faults = (Kill, KillStarting, Stop, Pause)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._paused: dict[int, tuple[int, ...]] = {}
        """By the id of the fault: those whom it wants to stand still."""

    async def aim(self, fault: OfProcesses, random: Random) -> Aim:
        """Decide whom it hits."""
        return Aim(nodes=await self._casting.resolve(fault.target, random))

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
                    self._system.pause(node)
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
                        self._system.resume(node)
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


async def start_all(system: System, nodes: Sequence[int]) -> str | None:
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
