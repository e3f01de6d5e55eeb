"""Faults of disks: power that is lost, and disks that are full, slow or failing while a replica runs on them.

Owns which word a fault is for a disk, and that a replica which ended because of its disk is started again. What is lost
with the power, and how a disk refuses, is the disks' business.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nemesis.disks.hindrance import Hindrance
from nemesis.faults.breakable import HasDisks, SystemDisks
from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import ANYONE, Fault, check_at_least, chosen_from, named
from nemesis.faults.look import KILLED, OTHER
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import Role, Target

RECOVERY_S = (5.0, 7.0)
"""How long it is healthy after power or a disk was lost: until all are back in sync there is nothing to lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss(Fault):
    """The machine goes dark: what was written and not flushed is lost, all of it or any part."""

    kind = "power-loss"
    does = "SIGKILL, and what was not flushed is taken back, of anyone, a majority, or all at once"
    undone = "a start on what is left"
    healer = "start"
    need = Need.DISKS
    look = KILLED
    drawn_as = 22
    dice = named(target=(*ANYONE, Role.ALL, Role.ALL))
    against_leader = named(target=Role.ALL)
    """The power goes everywhere, where it costs the most."""
    recovery_s = RECOVERY_S
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk(Fault):
    """Nothing that takes space can be written."""

    kind = "fill-disk"
    does = "writes that take space are refused (ENOSPC)"
    undone = "there is space; who ended because of it is started"
    healer = "free-disk"
    need = Need.DISKS
    look = OTHER
    drawn_as = 23
    dice = named(target=ANYONE)
    target: Target

    @property
    def hindrance(self) -> Hindrance:
        """What it does to a disk while it lasts."""
        return Hindrance(is_full=True)


_SLOW_FACTORS = (5, 30, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(Fault):
    """A flush takes ``factor`` times as long."""

    kind = "slow-disk"
    does = "a flush takes many times as long"
    undone = "it takes its usual time"
    healer = "speed-up-disk"
    need = Need.DISKS
    look = OTHER
    drawn_as = 24
    dice = named(target=(*ANYONE, Role.ALL), factor=_SLOW_FACTORS)
    against_leader = named(factor=_SLOW_FACTORS[-1])
    """A leader that is late."""
    target: Target
    factor: int

    def __post_init__(self) -> None:
        check_at_least(1, factor=self.factor)

    @property
    def hindrance(self) -> Hindrance:
        """What it does to a disk while it lasts."""
        return Hindrance(slow_factor=self.factor)


CALLS = ("fsync", "pwrite", "pread", "rename", "create", "ftruncate", "unlink", "mkdir", "fsync_directory")
"""The calls of a disk that can fail."""
_FAILING_CALLS = ("fsync", "pwrite", "pread", "rename")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailDisk(Fault):
    """Every call of one kind (one of ``CALLS``) fails with an input/output error."""

    kind = "fail-disk"
    does = "every call of one kind (`fsync`, `pwrite`, `pread`, `rename`) fails with EIO"
    undone = "none does; who ended because of it is started"
    healer = "repair-disk"
    need = Need.DISKS
    look = OTHER
    drawn_as = 25
    dice = named(target=ANYONE, call=("fsync", "pwrite", "pread", "rename"))
    against_leader = named(call="fsync")
    """A leader whose disk refuses ends."""
    target: Target
    call: str = chosen_from(CALLS, "call of a disk that can fail")

    @property
    def hindrance(self) -> Hindrance:
        """What it does to a disk while it lasts."""
        return Hindrance(failing=(self.call,))


Hindering = FillDisk | SlowDisk | FailDisk
"""What hinders a disk while it lasts."""
OfDisks = PowerLoss | Hindering


class Disks(Family[OfDisks]):
    """Takes the power of nodes, or hinders their disks."""

    faults = (PowerLoss, FillDisk, SlowDisk, FailDisk)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._lost: dict[int, list[int]] = {}

    async def strike(self, opened: OpenFault[OfDisks]) -> tuple[int, ...]:
        """Take the power of those who run, all at once, or hinder the disks of all."""
        fault = opened.fault
        if isinstance(fault, PowerLoss):
            return await self._lose_power(opened)
        for node in opened.nodes:
            self._disks.hinder(node, opened.fault_id, fault.hindrance)
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
        assert isinstance(self._system, HasDisks), "it has what the fault needs"
        return self._system.disks
