"""Whom a step of a schedule means in a live system, asked of the system when the step strikes.

Owns the names that were given so far, and how long a step waits for somebody to lead. What the words mean is said by
``targets``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from nemesis.faults.breakable import Breakable, ClusterState
from nemesis.faults.targets import Cast, Target, needs_leader, resolve

LEADER_S_MAX = 2.0
"""How long a step waits for somebody to lead before it hits anyone instead."""
_LOOK_S = 0.05


class Casting:
    """Turns targets into nodes of one system."""

    def __init__(self, system: Breakable) -> None:
        self._system = system
        self._names: dict[str, int] = {}

    async def name(self, name: str, target: Target, random: Random) -> int:
        """Call whoever ``target`` is now ``name``; returns who that is."""
        self._names[name] = (await self.resolve(target, random))[0]
        return self._names[name]

    async def resolve(self, target: Target, random: Random) -> tuple[int, ...]:
        """The nodes that ``target`` means now. Raises InvalidTargetError for a word that means nobody."""
        names = dict(self._names)
        if not needs_leader(target):
            return resolve(target, Cast(nodes=self._system.nodes, leader=None, names=names), random)
        log = random.choice(self._system.topic_partitions)
        state = await self.wait_state(lambda state: leader_of(state, log) is not None, LEADER_S_MAX)
        partition = None if state is None else state.partitions.get(log)
        cast = Cast(
            nodes=self._system.nodes,
            leader=leader_of(state, log),
            names=names,
            replicas=() if partition is None else partition.replicas,
            isr=() if partition is None else partition.isr,
            controller=None if state is None else state.controller,
        )
        return resolve(target, cast, random)

    async def wait_state(self, holds: Callable[[ClusterState | None], bool], at_most_s: float) -> ClusterState | None:
        """What is decided, as soon as it is as wanted; or as it is when the time is up."""
        state = None
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                while not holds(state := await self._system.cluster_state()):
                    await asyncio.sleep(_LOOK_S)
        return state


def leader_of(state: ClusterState | None, topic_partition: str) -> int | None:
    """Who leads a log, if that is known."""
    partition = None if state is None else state.partitions.get(topic_partition)
    return None if partition is None else partition.leader
