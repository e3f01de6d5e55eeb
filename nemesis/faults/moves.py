"""Partitions that move to other replicas while they are used (KIP-455), and back to as many as they had.

Owns the task of each fault, the choice of partitions and targets by the dice of its step, and what follows: another
target, a cancellation, an election. A move and its healing take their time while other faults strike: nobody waits for
them but the end of the run. Each step is recorded as an operation of its own with what became of it: *done* (a move is
begun then), *refused* (definitely not done), *unknown*, or *not-tried*. That a partition has come to its target is an
operation as well, ``arrive``: it was seen.

Source: KIP-455; Kafka's ``kafka-reassign-partitions.sh``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, assert_never

from nemesis.faults.breakable import ClusterState, HasMoves, PartitionState, SystemMoves
from nemesis.faults.family import Aim, ChangeOutcome, Family, Healed, OpenFault, Stage, attempt, cancelled, end_all
from nemesis.faults.fault import Fault, check_at_least, named
from nemesis.faults.look import CHANGED
from nemesis.faults.needs import Need
from nemesis.faults.targets import InvalidTargetError

MOVE, CANCEL, ELECT = "move-replicas", "cancel-move", "elect-preferred"
ARRIVE = "arrive"
"""The names of the operations, in the history."""
ALL_PLACED = "all-placed"
"""What the harness brings about at the end: nothing moves, and each partition has as many replicas as it should."""
ALL_PLACED_S_MAX = 40.0
KNOWN_S_MAX = 2.0
"""How long a move waits until somebody says who has a partition, and at the end of a fault who has it now."""
SOON_S = (0.0, 0.3)
"""After how long a move that is given another target, or cancelled, is so: it may be over by then."""
LEADER_GOES = 0.5
"""How often a partition moves away from its leader for certain."""
LET_COME = 0.5
"""How often a move that is still under way when the fault is healed is left to come to its end, and not cancelled."""
_LOOK_S = 0.2


class Course(StrEnum):
    """What becomes of a move of partitions, when it is begun."""

    MOVE = "move"
    """It is left to itself."""
    REDIRECT = "redirect"
    """It is given another target, soon after."""
    CANCEL = "cancel"
    """It is cancelled, soon after."""
    REORDER = "reorder"
    """Nobody comes or goes: another of the replicas is the preferred leader, and is to lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign(Fault):
    """So many ``partitions`` move to other replicas (KIP-455), ``more`` of them than their topic was created with.

    Which, and to whom, the dice of the step say; whoever leads is to go with ``leader_goes``, where there are others
    enough. Healed when each partition has as many replicas as before: what is under way is cancelled, or let come to
    its end. Needs topics, and more than one node.
    """

    kind = "reassign"
    does = (
        "partitions move to other replicas, a move is given another target or cancelled, another replica is preferred; "
        "see [below](#moving-partitions)"
    )
    undone = "what is under way is cancelled or comes to its end; each partition has as many replicas as before"
    healer = "restore-replicas"
    need = Need.MOVES
    look = CHANGED
    told_by = "course"
    steps = (MOVE, CANCEL, ELECT)
    drawn_as = 5
    against_leader = named(course=Course.MOVE, leader_goes=True)
    """A leader whose partition moves away from it."""
    share = 0.4
    comes_one_at_a_time = True
    strikes_into_others = True
    is_spared = True
    course: Course
    partitions: int = 1
    more: int = 0
    leader_goes: bool = False

    def __post_init__(self) -> None:
        check_at_least(1, partitions=self.partitions)

    @classmethod
    def drawn(cls, random: Random) -> Reassign:
        """Any course; moves leave as many replicas as there were, as a rule."""
        return Reassign(
            course=random.choice((Course.MOVE, *Course)),
            partitions=random.choice((1, 1, 2, 4)),
            more=random.choice((0, 0, 0, 1, -1)),
            leader_goes=random.random() < LEADER_GOES,
        )

    @classmethod
    def certain(cls, random: Random) -> Reassign:
        """Some that move away from their leaders."""
        del random
        return Reassign(course=Course.MOVE, partitions=2, leader_goes=True)


class Moves(Family[Reassign]):
    """Moves partitions; each fault in a task of its own."""

    faults = (Reassign,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._healings: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._has_moved = False
        self._bound: dict[str, tuple[int, ...]] = {}
        """Where partitions are on their way to, or may be, by the last move that was not refused."""

    @property
    def _moves(self) -> SystemMoves:
        assert isinstance(self._system, HasMoves), "it has what the fault needs"
        return self._system.moves

    async def aim(self, fault: Reassign, random: Random) -> Aim:
        """Choose the partitions; it is about those who have them now, or about everybody if nobody says who has."""
        if not self._moves.logs:
            raise InvalidTargetError("this system has no topics whose partitions could be moved")
        state = await self._system.cluster_state()
        known = [_of(state, log) for log in self._chosen(fault, random)]
        have = {node for partition in known if partition is not None for node in partition.replicas}
        return Aim(nodes=tuple(sorted(have)) or self._system.nodes)

    async def strike(self, opened: OpenFault[Reassign]) -> tuple[int, ...]:
        healing = self._healings[opened.fault_id] = asyncio.get_running_loop().create_future()
        self._has_moved = True
        self._tasks[opened.fault_id] = asyncio.create_task(self._go(opened, healing))
        return opened.nodes

    async def heal(self, opened: OpenFault[Reassign]) -> Healed:
        """Begin to cancel or move back; the end is recorded when that was tried."""
        self._healings.pop(opened.fault_id).set_result(opened.detail)
        return Healed(is_over=False)

    async def finish(self) -> None:
        """Wait until nothing moves, and see that each partition has as many replicas as it should."""
        if self._has_moved:
            await self.place_all(ALL_PLACED_S_MAX)

    async def abandon(self) -> None:
        """Do nothing more, wherever the partitions are."""
        await cancelled(self._tasks.values())

    # --- one fault ----------------------------------------------------------------------------------------------------

    def _chosen(self, fault: Reassign, random: Random) -> Sequence[str]:
        """The partitions: what the dice of the step say first."""
        return random.sample(self._moves.logs, min(fault.partitions, len(self._moves.logs)))

    async def _go(self, opened: OpenFault[Reassign], healing: asyncio.Future[Mapping[str, Any]]) -> None:
        random = Random(opened.draw)
        logs = self._chosen(opened.fault, random)
        dice = [Random(random.getrandbits(64)) for _ in logs]
        await asyncio.gather(*(self._move(opened.fault, log, one) for log, one in zip(logs, dice, strict=True)))
        while not healing.done():
            await self._look()
            await asyncio.wait({healing}, timeout=_LOOK_S)
        await asyncio.gather(*(self._restore(log, one) for log, one in zip(logs, dice, strict=True)))
        self._recorder.ended(opened.fault.healer, await healing)

    async def _move(self, fault: Reassign, log: str, random: Random) -> None:
        """Begin to move one partition, and do what is to follow."""
        was = await self._wait_known(log)
        target = None if was is None else self._target(fault, was, random)
        if was is None or target is None:
            why = "nobody says who has it" if was is None else "there is no other order of one replica"
            self._not_tried(MOVE, log, why)
            return
        outcome = await self._begin(log, target)
        match fault.course:
            case Course.MOVE:
                pass
            case Course.REDIRECT:
                await asyncio.sleep(random.uniform(*SOON_S))
                other = drawn_target(random, self._system.nodes, target, size=len(target))
                assert other is not None, f"{target} had no other order, and was one"
                await self._begin(log, other)
            case Course.CANCEL:
                await asyncio.sleep(random.uniform(*SOON_S))
                await self._cancel(log)
            case Course.REORDER:
                if outcome is ChangeOutcome.DONE:
                    await self._attempt(ELECT, log, self._moves.elect_preferred(log))
            case _:
                assert_never(fault.course)

    def _target(self, fault: Reassign, was: PartitionState, random: Random) -> tuple[int, ...] | None:
        usual = self._moves.replication_factor
        if fault.course is Course.REORDER:
            have = was.replicas[:usual]
            return drawn_target(random, have, have, size=len(have))
        leader = was.leader if fault.leader_goes else None
        size = min(max(1, usual + fault.more), len(self._system.nodes))
        return drawn_target(random, self._system.nodes, was.replicas, size=size, goes=leader)

    async def _restore(self, log: str, random: Random) -> None:
        """Cancel the move, or let it come; move the partition back to as many replicas as it should have."""
        under_way = await self._look()
        if under_way is not None and log in under_way and random.random() >= LET_COME:
            await self._cancel(log)
        elif under_way is not None and log not in under_way:
            await self._resize(log, await self._wait_known(log), random)

    async def _resize(self, log: str, was: PartitionState | None, random: Random) -> None:
        """Move a partition that has too many replicas or too few, and does not move."""
        if was is None or self._has_usual(was):
            return
        others = [node for node in self._system.nodes if node not in was.replicas]
        target = (*was.replicas, *random.sample(others, len(others)))[: self._moves.replication_factor]
        await self._begin(log, target)

    # --- at the end ---------------------------------------------------------------------------------------------------

    async def place_all(self, at_most_s: float) -> None:
        """Wait until nothing moves and every partition has its replicas, which takes a move for some of them."""
        loop, random = asyncio.get_running_loop(), Random(ALL_PLACED)
        end_s = loop.time() + at_most_s
        await end_all(self._tasks, at_most_s)
        self._recorder.harness_began(ALL_PLACED, {})
        while (missing := await self._why_not_placed(random)) is not None and loop.time() < end_s:
            await asyncio.sleep(_LOOK_S)
        state = await self._system.cluster_state()
        told = {log: list(placed.replicas) for log in self._moves.logs if (placed := _of(state, log)) is not None}
        self._recorder.harness_ended(ALL_PLACED, {"replicas_of": told}, error=missing)

    async def _why_not_placed(self, random: Random) -> str | None:
        """What is not as it should be; begins to put it right if it does not move."""
        under_way, state = await self._look(), await self._system.cluster_state()
        if under_way is None:
            return "nobody says which partitions move"
        if under_way:
            return f"{', '.join(sorted(under_way))}: still moving"
        placed = {log: _of(state, log) for log in self._moves.logs}
        unlike = [log for log, is_at in placed.items() if is_at is None or not self._has_usual(is_at)]
        for log in unlike:
            await self._resize(log, placed[log], random)
        return f"{', '.join(unlike)}: too many replicas or too few, as far as anybody says" if unlike else None

    def _has_usual(self, partition: PartitionState) -> bool:
        return len(partition.replicas) == self._moves.replication_factor

    # --- looking ------------------------------------------------------------------------------------------------------

    async def _look(self) -> frozenset[str] | None:
        """What moves, by the word of the controller; what has come to its target is recorded."""
        under_way = await self._moves.under_way()
        if under_way is not None and self._bound.keys() - under_way:
            state = await self._system.cluster_state()
            for log, target in tuple(self._bound.items()):
                is_at = _of(state, log)
                if log not in under_way and is_at is not None and is_at.replicas == target:
                    self._arrived(log, target)
        return under_way

    def _arrived(self, log: str, target: tuple[int, ...]) -> None:
        del self._bound[log]
        detail = {"replicas": list(target), "log": log}
        self._recorder.began(ARRIVE, detail)
        self._recorder.ended(ARRIVE, detail)
        self._recorder.moved(target[0], log, detail)

    async def _wait_known(self, log: str) -> PartitionState | None:
        state = await self._casting.wait_state(lambda state: _of(state, log) is not None, KNOWN_S_MAX)
        return _of(state, log)

    # --- recording ----------------------------------------------------------------------------------------------------

    async def _cancel(self, log: str) -> None:
        if await self._attempt(CANCEL, log, self._moves.cancel(log)) is ChangeOutcome.DONE:
            self._bound.pop(log, None)

    async def _begin(self, log: str, target: tuple[int, ...]) -> ChangeOutcome:
        if log in self._bound:
            await self._look()
        before = self._bound.get(log)
        self._bound[log] = target
        outcome = await self._attempt(MOVE, log, self._moves.begin(log, target), target)
        if outcome is ChangeOutcome.REFUSED and self._bound.get(log) == target:
            self._bound.pop(log)
            self._bound |= {} if before is None else {log: before}
        return outcome

    async def _attempt(self, f: str, log: str, call: Awaitable[None], target: Sequence[int] = ()) -> ChangeOutcome:
        """Make one change, and record what became of it."""
        return await attempt(self._recorder, f, {"log": log} | ({"replicas": list(target)} if target else {}), call)

    def _not_tried(self, f: str, log: str, reason: str) -> None:
        self._recorder.began(f, {"log": log})
        self._recorder.ended(f, {"log": log, "outcome": ChangeOutcome.NOT_TRIED}, error=reason)


def drawn_target(
    random: Random, nodes: Sequence[int], was: Sequence[int], *, size: int, goes: int | None = None
) -> tuple[int, ...] | None:
    """So many of ``nodes`` in any order, other than ``was``; None if there is nothing else.

    Without the one that ``goes``, or with it at the end where there are too few others.
    """
    others = [node for node in nodes if node != goes]
    target = (*random.sample(others, min(size, len(others))), *(node for node in nodes if node == goes))[:size]
    if target != tuple(was):
        return target
    if size > 1:
        return *target[1:], target[0]
    elsewhere = [node for node in nodes if node not in was]
    return (random.choice(elsewhere),) if elsewhere else None


def _of(state: ClusterState | None, log: str) -> PartitionState | None:
    return None if state is None else state.partitions.get(log)
