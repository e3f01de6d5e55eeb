"""Damaged disks: a replica is killed, a file of it rots, and it is started to see that it notices.

Owns that no more than a minority is out because of damage at a time, what is told of each, and the repair: the file is
put back as it was, as from a copy. Until then the replica stays out, so that nobody comes back with less than it has
acknowledged; or it serves without the one partition whose log is damaged, and repairs that itself. One that comes back
in spite of its damage is left as it is: the run is to show what comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from random import Random
from typing import Any

from nemesis.disks.damage import CUT, WAYS, Damage, DiskPart
from nemesis.faults.breakable import HasDisks, SystemDisks
from nemesis.faults.family import Aim, Family, Healed, OpenFault, Stage
from nemesis.faults.fault import ANY_ONE, Fault, chosen_from, named
from nemesis.faults.look import OTHER
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import InvalidTargetError, Target

SAID_CHARACTERS_MAX = 300
NOTICE = "notice-damage"
"""What the harness has waited for in vain, in the history of a run that can never be valid then."""


class DamageOutcome(StrEnum):
    """What became of the start on a damaged disk."""

    REFUSED = "refused"
    """The replica has noticed, and ended."""
    OFFLINE = "offline"
    """It has noticed, and serves all but the partition that it names, whose log it fetches anew."""
    UNNOTICED = "unnoticed"
    """It serves."""
    UNDECIDED = "undecided"
    """It has neither served nor ended in its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One node whose disk is damaged: how, and what it made of that; ``said`` is why it has ended."""

    damage: Damage
    outcome: DamageOutcome
    said: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageDisk(Fault):
    """Flushed bytes are flipped, zeroed or overwritten by others, or cut off (``how``), in a file of this ``part``.

    A process is killed before, and started on what there is; healed by putting back what was there. In the simulator a
    log is damaged under a process that runs, and nobody can undo it.
    """

    kind = "damage-disk"
    does = (
        "SIGKILL, then bytes of a file are flipped, zeroed or overwritten, or its end is cut off; the start on that is "
        "to be refused"
    )
    undone = "the file as it was, and a start"
    healer = "end-damage"
    need = Need.DISKS
    look = OTHER
    drawn_as = 26
    against_leader = named(how="flip")
    """The leader's log."""
    target: Target
    how: str = chosen_from(WAYS, "damage")
    part: DiskPart = DiskPart.LOG

    @classmethod
    def drawn(cls, random: Random) -> DamageDisk:
        """Anybody's: a log more often than anything else."""
        part = random.choice((DiskPart.LOG, DiskPart.LOG, DiskPart.SNAPSHOT, DiskPart.STATE))
        how = CUT if part is DiskPart.STATE else random.choice(WAYS)
        return DamageDisk(target=random.choice(ANY_ONE), how=how, part=part)


class DamagedDisks(Family[DamageDisk]):
    """Damages disks of nodes and repairs them."""

    faults = (DamageDisk,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._struck: dict[int, dict[int, Struck]] = {}
        """By the id of the fault, by node; of those that are not healed."""

    async def aim(self, fault: DamageDisk, random: Random) -> Aim:
        """Decide whom it hits: no more at a time, of all such faults, than a majority can do without."""
        if fault.part is DiskPart.STATE and fault.how != CUT:
            raise InvalidTargetError(f"the small files have no checksum: nobody can notice more than a {CUT}")
        nodes = await self._casting.resolve(fault.target, random)
        damaged = {node for struck in self._struck.values() for node in struck}
        if again := sorted(damaged & set(nodes)):
            raise InvalidTargetError(f"the disks of {again} are damaged already, and have one sound copy each")
        number, most = len(damaged) + len(nodes), (len(self._system.nodes) - 1) // 2
        if number > most:
            raise InvalidTargetError(f"{number} damaged disks at a time are more than {most}, which may be lost")
        return Aim(nodes=nodes)

    async def strike(self, opened: OpenFault[DamageDisk]) -> tuple[int, ...]:
        """Damage the disks of those who run, one after the other, and start each."""
        struck = self._struck[opened.fault_id] = {}
        for node in opened.nodes:
            damage = await self._disks.damage(node, opened.fault.part, opened.fault.how, opened.draw)
            if damage is not None:
                await start_all(self._system, [node])
                said = self._said(node)
                struck[node] = Struck(damage=damage, outcome=self._outcome(node, damage, said), said=said)
                if struck[node].outcome is DamageOutcome.UNNOTICED:
                    self._tell_unnoticed(node, struck[node])
        return tuple(struck)

    def done(self, opened: OpenFault[DamageDisk]) -> Mapping[str, Any]:
        """What was damaged, and what each node made of it."""
        return {"done": [_told(node, struck) for node, struck in self._struck[opened.fault_id].items()]}

    async def heal(self, opened: OpenFault[DamageDisk]) -> Healed:
        """Put back what there was, for those who stay out, and start them."""
        errors, restored = [], []
        ill = self._struck[opened.fault_id]
        for node, struck in tuple(ill.items()):
            if struck.outcome is DamageOutcome.OFFLINE:
                self._disks.replaced(node)
                del ill[node]
                continue
            if self._system.is_running(node):
                # Another fault may just be starting it: it serves after that, or has ended.
                await start_all(self._system, [node])
            if self._system.is_running(node) and self._disks.is_damaged(node):
                errors.append(f"replica {node} runs on a damaged {struck.damage.file}")
                if struck.outcome is not DamageOutcome.UNNOTICED:
                    ill[node] = replace(struck, outcome=DamageOutcome.UNNOTICED)
                    self._tell_unnoticed(node, ill[node])
                continue
            why_not = await self._disks.repair(node)
            if why_not is None:
                del ill[node]
                restored.append({"replica": node, "file": struck.damage.file})
            else:
                errors.append(f"replica {node}: {why_not}")
        error = await start_all(self._system, opened.nodes)
        return Healed(error="; ".join(filter(None, (*errors, error))) or None, detail={"restored": restored})

    def _tell_unnoticed(self, node: int, struck: Struck) -> None:
        self._recorder.harness_began(NOTICE, {"replicas": [node]})
        self._recorder.harness_ended(NOTICE, _told(node, struck), error="it serves")

    def _outcome(self, node: int, damage: Damage, said: str | None) -> DamageOutcome:
        if self._system.is_running(node):
            log = PurePosixPath(damage.file).parent.name  # Empty where it is a file of no log.
            is_told = said is not None and log != "" and f"/{log}/" in said
            return DamageOutcome.OFFLINE if is_told else DamageOutcome.UNNOTICED
        return DamageOutcome.REFUSED if self._disks.ended_by_itself(node) else DamageOutcome.UNDECIDED

    def _said(self, node: int) -> str | None:
        words = self._disks.last_words(node)
        return None if words is None else words[:SAID_CHARACTERS_MAX]

    @property
    def _disks(self) -> SystemDisks:
        assert isinstance(self._system, HasDisks), "it has what the fault needs"
        return self._system.disks


def _told(node: int, struck: Struck) -> dict[str, Any]:
    told = {"replica": node, **struck.damage.to_json(), "outcome": struck.outcome.value}
    return told if struck.said is None else {**told, "said": struck.said}
