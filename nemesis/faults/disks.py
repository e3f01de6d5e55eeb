"""Faults of disks: power that is lost, and disks that are full, slow or failing while a replica runs on them.

Owns which word a fault is for a disk, and that a replica which ended because of its disk is started again. What is lost
with the power, and how a disk refuses, is the disks' business.
"""

from __future__ import annotations

import asyncio
from random import Random

from nemesis.cluster.system import HasDisks, SystemDisks
from nemesis.disks.hindrance import Hindrance
from nemesis.faults.family import Aim, Family, Healed, OpenFault, Stage
from nemesis.faults.processes import start_all
from nemesis.faults.targets import InvalidTargetError
from nemesis.faults.values import FailDisk, FillDisk, PowerLoss, SlowDisk

OfDisks = PowerLoss | FillDisk | SlowDisk | FailDisk


class Disks(Family[OfDisks]):
    """Takes the power of nodes, or hinders their disks."""

    faults = (PowerLoss, FillDisk, SlowDisk, FailDisk)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._lost: dict[int, list[int]] = {}

    async def aim(self, fault: OfDisks, random: Random) -> Aim:
        """Decide whom it hits."""
        if not isinstance(self._system, HasDisks):
            raise InvalidTargetError("the disks of this system cannot be broken")
        return Aim(nodes=await self._casting.resolve(fault.target, random))

    async def strike(self, opened: OpenFault[OfDisks]) -> tuple[int, ...]:
        """Take the power of those who run, all at once, or hinder the disks of all."""
        fault = opened.fault
        if isinstance(fault, PowerLoss):
            return await self._lose_power(opened)
        for node in opened.nodes:
            self._disks.hinder(node, opened.fault_id, hindrance_of(fault))
        return opened.nodes

    async def heal(self, opened: OpenFault[OfDisks]) -> Healed:
        """Start those whose power was lost; let the others' disks do what they should, and start whom they ended."""
        if isinstance(opened.fault, PowerLoss):
            lost = self._lost.get(opened.fault_id, [])
            return Healed(error=await start_all(self._system, opened.nodes), detail={"lost": lost})
        for node in opened.nodes:
            self._disks.relieve(node, opened.fault_id)
        ended = [node for node in opened.nodes if self._disks.ended_by_itself(node)]
        return Healed(error=await start_all(self._system, ended), detail={"ended": ended})

    async def _lose_power(self, opened: OpenFault[OfDisks]) -> tuple[int, ...]:
        """Take the power of all, if anybody runs; those who ran. Who was down loses what it left in memory as well."""
        if not any(self._system.is_running(node) for node in opened.nodes):
            return ()
        done = await asyncio.gather(*(self._disks.lose_power(node, opened.draw) for node in opened.nodes))
        each = tuple(zip(opened.nodes, done, strict=True))
        self._lost[opened.fault_id] = [node for node, what in each if what.lost]
        return tuple(node for node, what in each if what.ran)

    @property
    def _disks(self) -> SystemDisks:
        assert isinstance(self._system, HasDisks), "the fault was aimed"
        return self._system.disks


def hindrance_of(fault: FillDisk | SlowDisk | FailDisk) -> Hindrance:
    """What it does to a disk while it lasts."""
    match fault:
        case FillDisk():
            return Hindrance(is_full=True)
        case SlowDisk(factor=factor):
            return Hindrance(slow_factor=factor)
        case FailDisk(call=call):
            return Hindrance(failing=(call,))
