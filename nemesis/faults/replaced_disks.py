"""Disks that are lost for good: a node is killed, and comes back on an empty disk, alone or with all the others.

Owns that one disk is lost at a time: until it is in sync again wherever it is a replica, and votes again, no other one
is. More would be a loss by right: what is acknowledged need not be on more than two disks. The vote is taken from the
disk that is gone, and given to the new one, after the fact and in the way in which ``voters`` does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import ClusterState
from nemesis.faults.disks import RECOVERY_S
from nemesis.faults.family import LEADER_S_MAX, Aim, Family, Healed, OpenFault, Stage, cancelled, end_all
from nemesis.faults.fault import ANY_ONE, Fault, named
from nemesis.faults.look import OTHER
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import InvalidTargetError, Target
from nemesis.faults.voters import REPLACED_S, VoterChanges

END = "end-replacement"
BACK_S_MAX = 40.0
"""How long the last one may take at the end of a run."""
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceDisk(Fault):
    """SIGKILL of ``target``, one node, an empty disk in the place of its own, and a start. With ``outage`` all others
    are killed with it, and started with it, before it or after it.

    Healed when it is in sync again wherever it is a replica, and votes again. Needs a cluster whose voters can be
    changed, and topics whose acknowledged records are on two disks at least.
    """

    kind = "replace-disk"
    does = (
        "SIGKILL of a replica, alone or with all others, and a start on an empty disk; see "
        "[below](#disks-that-are-replaced)"
    )
    undone = "it is in sync again, and votes again"
    healer = END
    need = Need.OTHER_DISKS
    look = OTHER
    drawn_as = 27
    dice = named(target=ANY_ONE, outage=(True, False))
    against_leader = named(outage=True)
    """The leader's, while nobody runs."""
    recovery_s = RECOVERY_S
    comes_one_at_a_time = True
    target: Target
    outage: bool = False

    @property
    def lasts_s(self) -> tuple[float, float]:
        """As long as it takes to be back."""
        return REPLACED_S


class ReplacedDisks(Family[ReplaceDisk]):
    """Replaces disks, and watches until each is what the one before it was."""

    faults = (ReplaceDisk,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._votes = VoterChanges(stage.system, stage.recorder)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._healings: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._killed: dict[int, list[int]] = {}
        self._former: str | None = None
        """The disk that goes, by its id, as somebody has known it."""

    async def aim(self, fault: ReplaceDisk, random: Random) -> Aim:
        """Decide whom it hits: one node, and nobody before the last one is back."""
        if not self._system.voters.logs:
            raise InvalidTargetError("the voters of this cluster are voters for ever, and must not forget their votes")
        if any(not task.done() for task in self._tasks.values()):
            raise InvalidTargetError("a disk was replaced before, and is not in sync yet: both could be the last two")
        nodes = await self._casting.resolve(fault.target, random)
        if len(nodes) != 1:
            raise InvalidTargetError(f"one disk can be lost at a time, and {fault.target} means {list(nodes)}")
        state = await self._casting.wait_state(lambda state: state is not None, LEADER_S_MAX)
        if state is None or nodes[0] not in state.registrations:
            raise InvalidTargetError(f"nobody says with which disk replica {nodes[0]} is registered")
        self._former = state.registrations[nodes[0]].disk
        return Aim(nodes=nodes)

    async def strike(self, opened: OpenFault[ReplaceDisk]) -> tuple[int, ...]:
        """Kill it, running or not, give it an empty disk, and start it; nobody waits until it is back in sync."""
        (node,) = opened.nodes
        doomed = self._system.nodes if opened.fault.outage else (node,)
        were_there = await asyncio.gather(*(self._system.kill(other) for other in doomed))
        killed = [other for other, was_there in zip(doomed, were_there, strict=True) if was_there]
        try:
            await self._system.wipe(node)
        except NodeFailedError:
            await start_all(self._system, killed)
            return ()
        healing = self._healings[opened.fault_id] = asyncio.get_running_loop().create_future()
        self._killed[opened.fault_id] = killed
        rest = [other for other in killed if other != node]
        for turn in Random(opened.draw).choice((([node], rest), ([node, *rest],), (rest, [node]))):
            await start_all(self._system, turn)
        self._tasks[opened.fault_id] = asyncio.create_task(self._watch(node, self._former, healing))
        return opened.nodes

    def done(self, opened: OpenFault[ReplaceDisk]) -> Mapping[str, Any]:
        """Who was killed for it."""
        return {"killed": self._killed[opened.fault_id]}

    async def heal(self, opened: OpenFault[ReplaceDisk]) -> Healed:
        """Start it if it could not be started; that it is back is recorded when it is."""
        healing = self._healings.pop(opened.fault_id, None)
        if healing is None:  # It broke off: nobody watches, and whoever was killed for it may be down.
            return Healed(error=await start_all(self._system, self._system.nodes))
        await start_all(self._system, opened.nodes)
        healing.set_result({**opened.detail, "killed": self._killed.pop(opened.fault_id)})
        return Healed(is_over=False)

    async def finish(self) -> None:
        """Wait until all are back."""
        await end_all(self._tasks, BACK_S_MAX)

    async def abandon(self) -> None:
        """Watch nobody any more."""
        await cancelled(self._tasks.values())

    async def _watch(self, node: int, former: str | None, healing: asyncio.Future[Mapping[str, Any]]) -> None:
        """Let it vote, wait until it is in sync, and tell so when the fault is to be healed."""
        await self._votes.readmit(node)
        while not _is_in_sync(node, former, await self._system.cluster_state()):
            await asyncio.sleep(_LOOK_S)
        self._recorder.ended(END, await healing)


def _is_in_sync(node: int, former: str | None, state: ClusterState | None) -> bool:
    """Whether a node is registered with another disk than before, and in sync with that wherever it is a replica."""
    if state is None or node not in state.active or state.registrations[node].disk == former:
        return False
    return all(node in partition.isr for partition in state.partitions.values() if node in partition.replicas)
