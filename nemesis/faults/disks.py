"""Faults of disks: power that is lost, and disks that are full, slow or failing while a replica runs on them.

Owns which word a fault is for a disk, and that a replica which ended because of its disk is started again. What is lost
with the power, and how a disk refuses, is the disks' business.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from nemesis.cluster.system import HasDisks, SystemDisks
from nemesis.disks.hindrance import Hindrance
from nemesis.faults.family import Family, Healed, OpenFault, Stage
from nemesis.faults.fault import ANYONE, Fault, check_at_least, chosen_from
from nemesis.faults.look import KILLED, OTHER, Look
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import Role, Target

RECOVERY_S = (5.0, 7.0)
"""How long it is healthy after power or a disk was lost: until all are back in sync there is nothing to lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss(Fault):
    """The machine goes dark: what was written and not flushed is lost, all of it or any part."""

    kind: ClassVar[str] = "power-loss"
    does: ClassVar[str] = "SIGKILL, and what was not flushed is taken back, of anyone, a majority, or all at once"
    undone: ClassVar[str] = "a start on what is left"
    healer: ClassVar[str] = "start"
    need: ClassVar[Need] = Need.DISKS
    look: ClassVar[Look] = KILLED
    drawn_as: ClassVar[int | None] = 22
    recovery_s: ClassVar[tuple[float, float]] = RECOVERY_S
    target: Target

    @classmethod
    def on_leader(cls, random: Random) -> PowerLoss:
        """The power goes everywhere, where it costs the most."""
        del random
        return PowerLoss(target=Role.ALL)

    @classmethod
    def drawn(cls, random: Random) -> PowerLoss:
        """Of all more often than of anyone else."""
        return PowerLoss(target=random.choice((*ANYONE, Role.ALL, Role.ALL)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk(Fault):
    """Nothing that takes space can be written."""

    kind: ClassVar[str] = "fill-disk"
    does: ClassVar[str] = "writes that take space are refused (ENOSPC)"
    undone: ClassVar[str] = "there is space; who ended because of it is started"
    healer: ClassVar[str] = "free-disk"
    need: ClassVar[Need] = Need.DISKS
    look: ClassVar[Look] = OTHER
    drawn_as: ClassVar[int | None] = 23
    target: Target

    @property
    def hindrance(self) -> Hindrance:
        """What it does to a disk while it lasts."""
        return Hindrance(is_full=True)

    @classmethod
    def on_leader(cls, random: Random) -> FillDisk:
        """A leader whose disk refuses ends."""
        del random
        return FillDisk(target=Role.LEADER)

    @classmethod
    def drawn(cls, random: Random) -> FillDisk:
        """Anybody's, but not all."""
        return FillDisk(target=random.choice(ANYONE))


_SLOW_FACTORS = (5, 30, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk(Fault):
    """A flush takes ``factor`` times as long."""

    kind: ClassVar[str] = "slow-disk"
    does: ClassVar[str] = "a flush takes many times as long"
    undone: ClassVar[str] = "it takes its usual time"
    healer: ClassVar[str] = "speed-up-disk"
    need: ClassVar[Need] = Need.DISKS
    look: ClassVar[Look] = OTHER
    drawn_as: ClassVar[int | None] = 24
    target: Target
    factor: int

    def __post_init__(self) -> None:
        check_at_least(1, factor=self.factor)

    @property
    def hindrance(self) -> Hindrance:
        """What it does to a disk while it lasts."""
        return Hindrance(slow_factor=self.factor)

    @classmethod
    def on_leader(cls, random: Random) -> SlowDisk:
        """A leader that is late."""
        del random
        return SlowDisk(target=Role.LEADER, factor=_SLOW_FACTORS[-1])

    @classmethod
    def drawn(cls, random: Random) -> SlowDisk:
        """Anybody's."""
        return SlowDisk(target=random.choice((*ANYONE, Role.ALL)), factor=random.choice(_SLOW_FACTORS))


CALLS = ("fsync", "pwrite", "pread", "rename", "create", "ftruncate", "unlink", "mkdir", "fsync_directory")
"""The calls of a disk that can fail."""
_FAILING_CALLS = ("fsync", "pwrite", "pread", "rename")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailDisk(Fault):
    """Every call of one kind (one of ``CALLS``) fails with an input/output error."""

    kind: ClassVar[str] = "fail-disk"
    does: ClassVar[str] = "every call of one kind (`fsync`, `pwrite`, `pread`, `rename`) fails with EIO"
    undone: ClassVar[str] = "none does; who ended because of it is started"
    healer: ClassVar[str] = "repair-disk"
    need: ClassVar[Need] = Need.DISKS
    look: ClassVar[Look] = OTHER
    drawn_as: ClassVar[int | None] = 25
    target: Target
    call: str = chosen_from(CALLS, "call of a disk that can fail")

    @property
    def hindrance(self) -> Hindrance:
        """What it does to a disk while it lasts."""
        return Hindrance(failing=(self.call,))

    @classmethod
    def on_leader(cls, random: Random) -> FailDisk:
        """A leader whose disk refuses ends."""
        del random
        return FailDisk(target=Role.LEADER, call="fsync")

    @classmethod
    def drawn(cls, random: Random) -> FailDisk:
        """Anybody's, but not all."""
        return FailDisk(target=random.choice(ANYONE), call=random.choice(_FAILING_CALLS))


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
