"""Faults of memory: a node may use no more than part of what it uses, so that the kernel reclaims it or kills the node.

Owns whom it hits, that more and more is taken until it is as little as was asked for, and that a node that the kernel
has killed is started again. How much was left to each is recorded as
an operation of its own, ``squeeze``: a kernel may refuse to take what it cannot have back. How that is done is the
system's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import HasMemory, SystemMemory
from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import ANYONE, Fault, check_at_least, named
from nemesis.faults.look import OTHER
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import Target

SQUEEZE = "squeeze"
"""The name of the operation, in the history."""
PRESS_S = 0.2
SQUEEZED_S = (6.0, 10.0)
"""How long memory is limited."""
_TIGHT_PERCENTS = (50, 80, 95, 105)
"""Of the memory in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitMemory(Fault):
    """``target`` may use no more memory than ``percent`` of what it uses now, or as much as the kernel can take away.

    Healed by the limit that it had; whom the kernel killed meanwhile is started. Needs nodes with a limit of their own.
    """

    kind = "memory-limit"
    does = "a container may use no more memory than part of what it uses; see [below](#memory)"
    undone = "the limit that it had; whom the kernel killed is started"
    healer = "free-memory"
    need = Need.MEMORY
    look = OTHER
    drawn_as = 21
    dice = named(target=ANYONE, percent=_TIGHT_PERCENTS)
    against_leader = named(percent=_TIGHT_PERCENTS[0])
    """A leader without memory may be killed."""
    target: Target
    percent: int

    def __post_init__(self) -> None:
        check_at_least(1, percent=self.percent)

    @property
    def lasts_s(self) -> tuple[float, float]:
        """Finding the least that a kernel lets a node have takes some of it."""
        return SQUEEZED_S


class MemoryLimits(Family[LimitMemory]):
    """Limits the memory of nodes."""

    faults = (LimitMemory,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._pressing: dict[int, tuple[asyncio.Event, asyncio.Task[None]]] = {}
        self._left: dict[int, dict[int, int]] = {}
        """By fault and node: what may be used."""

    async def strike(self, opened: OpenFault[LimitMemory]) -> tuple[int, ...]:
        """Squeeze those who run, all at once, and go on with it until the healing."""
        self._left[opened.fault_id] = {}
        squeezed = await asyncio.gather(*(self._squeeze(node, opened) for node in opened.nodes))
        hit = tuple(node for node, is_hit in zip(opened.nodes, squeezed, strict=True) if is_hit)
        enough = asyncio.Event()
        self._pressing[opened.fault_id] = enough, asyncio.create_task(self._press(opened.fault_id, hit, enough))
        return hit

    async def heal(self, opened: OpenFault[LimitMemory]) -> Healed:
        """Give back the limit that they had, and start whom the kernel killed for want of memory."""
        await self._end_pressing(opened.fault_id)
        errors = await asyncio.gather(*(self._release(node, opened.fault_id) for node in opened.nodes))
        killed = [node for node in opened.nodes if await self._memory.killed(node)]
        errors.append(await start_all(self._system, killed))
        said = "; ".join(error for error in errors if error is not None)
        return Healed(error=said or None, detail={"killed": killed, "limit_bytes": self._left[opened.fault_id]})

    async def abandon(self) -> None:
        """Take no more from anybody."""
        for fault_id in tuple(self._pressing):
            await self._end_pressing(fault_id)

    @property
    def _memory(self) -> SystemMemory:
        assert isinstance(self._system, HasMemory), "it has what the fault needs"
        return self._system.memory

    async def _press(self, fault_id: int, nodes: Sequence[int], enough: asyncio.Event) -> None:
        while not enough.is_set():
            for node in nodes:
                limit_bytes = await self._memory.press(node, fault_id)
                if limit_bytes is not None:
                    self._left[fault_id][node] = limit_bytes
            with suppress(TimeoutError):
                async with asyncio.timeout(PRESS_S):
                    await enough.wait()

    async def _end_pressing(self, fault_id: int) -> None:
        """Wait until it has ended by itself: a call that is under way would come after what follows."""
        if fault_id in self._pressing:
            enough, task = self._pressing.pop(fault_id)
            enough.set()
            await task

    async def _squeeze(self, node: int, opened: OpenFault[LimitMemory]) -> bool:
        detail = {"replicas": [node], "percent": opened.fault.percent}
        self._recorder.began(SQUEEZE, detail)
        try:
            limit_bytes = await self._memory.squeeze(node, opened.fault_id, opened.fault.percent)
        except NodeFailedError as error:
            self._recorder.ended(SQUEEZE, detail, error=str(error))
            return False
        if limit_bytes is None:
            self._recorder.ended(SQUEEZE, detail, error="it does not run")
            return False
        self._left[opened.fault_id][node] = limit_bytes
        self._recorder.ended(SQUEEZE, {**detail, "limit_bytes": limit_bytes})
        return True

    async def _release(self, node: int, key: int) -> str | None:
        try:
            await self._memory.release(node, key)
        except NodeFailedError as error:
            return str(error)
        return None
