"""Changes of who votes: a voter removed, added back, replaced by one with an empty disk; leadership handed over.

Owns the task of each change, that there is one at a time, that enough voters remain, and whom to add back. A change and
its healing take their time while other faults strike: nobody waits for them but the end of the run. Each step is
recorded as an operation of its own with what became of it: *done*, *refused* (definitely not done), *unknown*, or
*not-tried*. A disk is wiped only when every removal before that is done: who may still vote must not forget its votes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, assert_never

from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import Breakable
from nemesis.faults.family import Aim, ChangeOutcome, Family, Healed, OpenFault, Stage, attempt, cancelled, end_all
from nemesis.faults.fault import FAULT_S, Fault, named
from nemesis.faults.look import CHANGED
from nemesis.faults.needs import Need
from nemesis.faults.targets import InvalidTargetError, Role, Target

if TYPE_CHECKING:
    from nemesis.history.recorder import Recorder

ADD = "add-voter"
REMOVE, TRANSFER, EMPTY_DISK = "remove-voter", "transfer-leadership", "empty-disk"
"""The names of the operations, in the history."""
ALL_VOTE = "all-vote"
"""What the harness brings about at the end: every node is a voter again."""
REPLACED_S = (8.0, 12.0)
"""How long it may take: a voter is removed, stopped, wiped, started, catches up, and is added."""
LED_S_MAX = 2.0
"""How long a change waits for somebody to lead."""
ALL_VOTE_S_MAX = 40.0
_LOOK_S = 0.1
_PAUSE_S = 0.5


class VoterChange(StrEnum):
    """The ways to change who votes, or who of them leads."""

    REMOVE = "remove"
    REPLACE = "replace"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVoters(Fault):
    """``target`` votes no more in quorum logs, or votes no more and comes back with an empty disk, or is to lead.

    Healed by being added to the voters again, where it is none. Who is removed only stays up and goes on fetching.
    Needs a cluster whose voters can be changed.
    """

    kind = "membership"
    does = (
        "a voter is removed, or replaced by one with an empty disk; the leadership is handed over; see "
        "[below](#changing-who-votes)"
    )
    undone = "whoever votes no more is added again"
    healer = "restore-voters"
    need = Need.VOTERS
    look = CHANGED
    told_by = "change"
    steps = (REMOVE, TRANSFER, EMPTY_DISK)
    drawn_as = 4
    against_leader = named(change=VoterChange.REMOVE)
    """A leader that votes no more."""
    share = 0.4
    second_share = 0.7
    is_alone_at_first = True
    comes_one_at_a_time = True
    is_spared = True
    change: VoterChange
    target: Target

    @property
    def lasts_s(self) -> tuple[float, float]:
        """A disk that is replaced takes its time."""
        return REPLACED_S if self.change is VoterChange.REPLACE else FAULT_S

    @classmethod
    def drawn(cls, random: Random) -> ChangeVoters:
        """Any change, of anybody; who leads already is not made to."""
        change = random.choice(tuple(VoterChange))
        is_transfer = change is VoterChange.TRANSFER
        target = Role.FOLLOWER if is_transfer else random.choice((Role.LEADER, Role.FOLLOWER, Role.CONTROLLER))
        return ChangeVoters(change=change, target=target)

    @classmethod
    def certain(cls, random: Random) -> ChangeVoters:
        """A voter that is replaced: a run without that shows little."""
        return ChangeVoters(change=VoterChange.REPLACE, target=random.choice((Role.LEADER, Role.FOLLOWER)))


_STEPS = {VoterChange.REMOVE: REMOVE, VoterChange.REPLACE: EMPTY_DISK, VoterChange.TRANSFER: TRANSFER}


class VoterChanges:
    """The changes of voters of one run, by the id of their fault. They wait ``led_s_max`` for somebody to lead."""

    def __init__(self, system: Breakable, recorder: Recorder, *, led_s_max: float = LED_S_MAX) -> None:
        self._system = system
        self._recorder = recorder
        self._led_s_max = led_s_max
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._healings: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._is_under_way = False
        self._may_be_missed = False
        """Whether anything was ever begun after which a node may not vote."""
        self._missing: dict[tuple[str, int], None] = {}
        """(log, node) of those that do not vote any more, or may not; in the order in which they were removed."""
        self._stale: set[tuple[str, int]] = set()
        """Those of them that are still voters on a disk that is gone, or may be."""

    def begin(self, fault_id: int, fault: ChangeVoters, nodes: Sequence[int]) -> None:
        """Begin the change, of one node after the other."""
        self._may_be_missed = True
        healing = self._healings[fault_id] = asyncio.get_running_loop().create_future()
        self._tasks[fault_id] = asyncio.create_task(self._go(fault, tuple(nodes), healing))

    def heal(self, fault_id: int, detail: Mapping[str, Any]) -> None:
        """Begin to add those who vote no more; that all vote is recorded with ``detail``, when they do."""
        self._healings.pop(fault_id).set_result(detail)

    async def readmit(self, node: int) -> None:
        """Let a node vote on the disk that it has now in the place of one that is gone, in every log."""
        for log in self._system.voters.logs:
            self._missing[log, node] = None
            self._stale.add((log, node))
        await self._add_until_none_is_missing()

    async def finish(self, at_most_s: float = ALL_VOTE_S_MAX) -> None:
        """Wait until all changes are over, and add whoever does not vote, whoever has removed it."""
        end_s = asyncio.get_running_loop().time() + at_most_s
        await end_all(self._tasks, at_most_s)
        if self._may_be_missed:
            await self._add_all(end_s)

    async def abandon(self) -> None:
        """Do nothing more, whoever votes: the run is over."""
        await cancelled(self._tasks.values())

    # --- changes ------------------------------------------------------------------------------------------------------

    async def _go(self, fault: ChangeVoters, nodes: Sequence[int], healing: asyncio.Future[Mapping[str, Any]]) -> None:
        """The change, its healing, and until all vote again: meanwhile there is no other."""
        if self._is_under_way:
            for node in nodes:
                self._not_tried(_STEPS[fault.change], node, "another change is under way")
        else:
            self._is_under_way = True
            try:
                for node in nodes:
                    await self._change(fault.change, node)
                if fault.change is not VoterChange.REPLACE:
                    await healing
                await self._add_until_none_is_missing()
            finally:
                self._is_under_way = False
        self._recorder.ended(fault.healer, await healing)

    async def _change(self, change: VoterChange, node: int) -> None:
        match change:
            case VoterChange.TRANSFER:
                for log in self._client_logs:
                    await self._attempt(TRANSFER, log, node, self._system.voters.transfer)
            case VoterChange.REMOVE:
                for log in self._client_logs:
                    await self._remove(log, node)
            case VoterChange.REPLACE:
                await self._replace(node)
            case _:
                assert_never(change)

    @property
    def _client_logs(self) -> Sequence[str]:
        """Those of the logs that clients write to; where there is none, that of the metadata."""
        logs = self._system.voters.logs
        return [log for log in logs if log in self._system.topic_partitions] or logs

    async def _remove(self, log: str, node: int) -> bool:
        """Whether the node certainly votes no more."""
        reason = await self._why_not_removed(log, node)
        if reason is not None:
            self._not_tried(REMOVE, node, reason, log=log)
            return False
        self._missing[log, node] = None
        outcome = await self._attempt(REMOVE, log, node, self._system.voters.remove)
        if outcome is ChangeOutcome.REFUSED:
            self._missing.pop((log, node), None)
        return outcome is ChangeOutcome.DONE

    async def _why_not_removed(self, log: str, node: int) -> str | None:
        """Why a removal is not even tried: a majority of all nodes must go on voting."""
        least = len(self._system.nodes) // 2 + 1
        gone = {other for name, other in self._missing if name == log} | {node}
        stay = len(set(await self._wait_voters(log)) - gone)
        return None if stay >= least else f"{stay} voters would be left, as far as anybody says; {least} must be"

    async def _wait_voters(self, log: str) -> tuple[int, ...]:
        """Who votes by the word of the leader; nobody if none leads in time."""
        end_s = asyncio.get_running_loop().time() + self._led_s_max
        while (voters := await self._system.voters.of(log)) is None:
            if asyncio.get_running_loop().time() >= end_s:
                return ()
            await asyncio.sleep(_LOOK_S)
        return voters

    async def _replace(self, node: int) -> None:
        for log in self._system.voters.logs:
            if not await self._remove(log, node):
                self._not_tried(EMPTY_DISK, node, f"it may vote in {log}")
                return
        await self._replace_disk(node)

    async def _replace_disk(self, node: int) -> None:
        detail = {"replicas": [node]}
        self._recorder.began(EMPTY_DISK, detail)
        await self._system.stop(node)
        try:
            await self._system.wipe(node)
            await self._system.start(node)
        except NodeFailedError as error:
            told = {**detail, "outcome": ChangeOutcome.REFUSED}
            self._recorder.ended(EMPTY_DISK, told, error=str(error))
        else:
            self._recorder.ended(EMPTY_DISK, {**detail, "outcome": ChangeOutcome.DONE})

    # --- adding back --------------------------------------------------------------------------------------------------

    async def _add_all(self, end_s: float) -> None:
        self._recorder.harness_began(ALL_VOTE, {})
        while not self._all_vote(voters := await self._look()) and asyncio.get_running_loop().time() < end_s:
            await self._add_missing()
            await asyncio.sleep(_LOOK_S)
        error = None if self._all_vote(voters) else "not every replica votes again in time"
        self._recorder.harness_ended(ALL_VOTE, {"voters": voters}, error=error)

    async def _look(self) -> dict[str, list[int]]:
        """Who votes in each log of which somebody says it; who is missing is what that says, from now on."""
        found: dict[str, list[int]] = {}
        for log in self._system.voters.logs:
            voters = await self._system.voters.of(log)
            if voters is not None:
                found[log] = list(voters)
        for log, voters_now in found.items():
            for node in self._system.nodes:
                if node in voters_now:
                    self._missing.pop((log, node), None)
                else:
                    self._missing.setdefault((log, node))
        return found

    def _all_vote(self, voters: dict[str, list[int]]) -> bool:
        return voters.keys() == set(self._system.voters.logs) and not self._missing

    async def _add_until_none_is_missing(self) -> None:
        while True:
            await self._add_missing()
            if not self._missing:
                return
            await asyncio.sleep(_PAUSE_S)

    async def _add_missing(self) -> None:
        """Try to add each once, where somebody leads."""
        for log, node in tuple(self._missing):
            if await self._system.voters.of(log) is None:
                continue
            if (log, node) in self._stale:
                removed = await self._attempt(REMOVE, log, node, self._system.voters.remove)
                self._stale -= {(log, node)} if removed is ChangeOutcome.DONE else set()
            outcome = await self._attempt(ADD, log, node, self._system.voters.add)
            votes = outcome is ChangeOutcome.REFUSED and node in (await self._system.voters.of(log) or ())
            if votes or outcome is ChangeOutcome.DONE:
                self._missing.pop((log, node), None)
                self._stale.discard((log, node))

    # --- recording ----------------------------------------------------------------------------------------------------

    async def _attempt(self, f: str, log: str, node: int, call: Callable[[str, int], Awaitable[None]]) -> ChangeOutcome:
        """Make one change, and record what became of it."""
        return await attempt(self._recorder, f, {"replicas": [node], "log": log}, call(log, node))

    def _not_tried(self, f: str, node: int, reason: str, **where: str) -> None:
        detail = {"replicas": [node], **where}
        self._recorder.began(f, detail)
        self._recorder.ended(f, {**detail, "outcome": ChangeOutcome.NOT_TRIED}, error=reason)


class Voters(Family[ChangeVoters]):
    """Begins changes of voters and their healings, which take their time while other faults strike."""

    faults = (ChangeVoters,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._changes = VoterChanges(stage.system, stage.recorder)

    async def aim(self, fault: ChangeVoters, random: Random) -> Aim:
        """Decide who is removed, replaced, or is to lead. Raises InvalidTargetError where nobody can be."""
        if not self._system.voters.logs:
            raise InvalidTargetError("the voters of this cluster are voters for ever")
        return await super().aim(fault, random)

    async def strike(self, opened: OpenFault[ChangeVoters]) -> tuple[int, ...]:
        self._changes.begin(opened.fault_id, opened.fault, opened.nodes)
        return opened.nodes

    async def heal(self, opened: OpenFault[ChangeVoters]) -> Healed:
        """Begin to add those back who vote no more; the end is recorded when all vote."""
        self._changes.heal(opened.fault_id, opened.detail)
        return Healed(is_over=False)

    async def finish(self) -> None:
        """Wait until all changes are over, and let all vote again."""
        await self._changes.finish()

    async def abandon(self) -> None:
        """Do nothing more, whoever votes."""
        await self._changes.abandon()
