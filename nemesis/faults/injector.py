"""Do the steps of a schedule to a system, undo them, and record what was really done.

Owns which faults are open and how each is undone: links by the key of their cut, processes by being started or resumed,
for exactly those that the fault hit, a rolling restart by the end of its task, a change of voters by adding those back
who vote no more. Everything that was opened is closed by
``heal_all``, whatever the schedule says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, assert_never

from nemesis.cluster.system import ClusterState, NodeFailedError, System
from nemesis.faults.links import CLIENTS, Link
from nemesis.faults.rolling import RollingRestarts
from nemesis.faults.shapes import cut_links
from nemesis.faults.targets import Cast, InvalidTargetError, Target, needs_leader, resolve
from nemesis.faults.values import (
    ChangeVoters,
    Clog,
    CutClients,
    CutLink,
    Fault,
    Kill,
    LiveFault,
    Partition,
    Pause,
    RollingRestart,
    Stop,
)
from nemesis.faults.voters import VoterChanges
from nemesis.history import EventType
from nemesis.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step
from nemesis.workload.recorder import Recorder

LEADER_S_MAX = 2.0
"""How long a step waits for somebody to lead before it hits anyone instead."""
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFault:
    """A fault that was done and not yet undone: the nodes it is about, and the links that it cut."""

    fault: LiveFault
    nodes: tuple[int, ...]
    links: frozenset[Link]


class Injector:
    """Does one schedule to one system."""

    def __init__(self, system: System, recorder: Recorder) -> None:
        self._system = system
        self._recorder = recorder
        self._names: dict[str, int] = {}
        self._open: dict[int, OpenFault] = {}
        self._rolling = RollingRestarts(system, recorder)
        self._voters = VoterChanges(system, recorder)

    @property
    def open_faults(self) -> tuple[str, ...]:
        """What is broken now, in words, for the progress line."""
        return tuple(f"{name_of(fault.fault)} {list(fault.nodes)}" for fault in self._open.values())

    async def run(self, schedule: Schedule, *, begin_s: float, stop: asyncio.Event | None = None) -> None:
        """Do the steps at their times; ``begin_s`` is the event loop's time at which the schedule begins.

        When ``stop`` is set no further step is done, and what is open stays so.
        """
        loop = asyncio.get_running_loop()
        for step in schedule.steps:
            if await is_set_within(stop or asyncio.Event(), begin_s + step.at_s - loop.time()):
                return
            await self._do(step)

    async def heal_all(self) -> None:
        """Undo whatever is still open, start what does not run, whoever ended it, and let all vote again."""
        for fault_id in tuple(self._open):
            await self._heal(fault_id)
        self._system.links.heal_all()
        for node in self._system.nodes:
            self._system.resume(node)
            if not self._system.is_running(node):
                detail = {"replicas": [node]}
                self._recorder.nemesis(EventType.INVOKE, "start-dead", detail)
                error = await self._start([node])
                self._recorder.nemesis(_outcome(error), "start-dead", detail, error=error)
        await self._voters.finish()

    async def abandon(self) -> None:
        """Leave all as it is, and do nothing more: what goes on by itself would start nodes of a closed system."""
        await self._rolling.abandon()
        await self._voters.abandon()

    async def _do(self, step: Step) -> None:
        match step.action:
            case Inject(fault_id=fault_id, fault=fault, draw=draw):
                await self._inject(fault_id, fault, Random(draw))
            case Heal(fault_id=fault_id):
                await self._heal(fault_id)
            case Name(name=name, target=target, draw=draw):
                self._names[name] = (await self._resolve(target, Random(draw)))[0]
                self._recorder.nemesis(EventType.INVOKE, "name", {"name": name})
                self._recorder.nemesis(EventType.INFO, "name", {"name": name, "replicas": [self._names[name]]})
            case AwaitLeader():
                await self._await_leader(step.action)
            case _:
                assert_never(step.action)

    # --- whom ---------------------------------------------------------------------------------------------------------

    async def _resolve(self, target: Target, random: Random) -> tuple[int, ...]:
        names = dict(self._names)
        if not needs_leader(target):
            return resolve(target, Cast(nodes=self._system.nodes, leader=None, names=names), random)
        name = random.choice(self._system.topic_partitions)
        state = await self._wait_state(lambda state: _leader(state, name) is not None, LEADER_S_MAX)
        partition = None if state is None else state.partitions.get(name)
        cast = Cast(
            nodes=self._system.nodes,
            leader=_leader(state, name),
            names=names,
            replicas=() if partition is None else partition.replicas,
            isr=() if partition is None else partition.isr,
            controller=None if state is None else state.controller,
        )
        return resolve(target, cast, random)

    async def _wait_state(self, holds: Callable[[ClusterState | None], bool], at_most_s: float) -> ClusterState | None:
        """What is decided, as soon as it is as wanted; or as it is when the time is up."""
        state = None
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                while not holds(state := await self._system.cluster_state()):
                    await asyncio.sleep(_LOOK_S)
        return state

    async def _await_leader(self, wait: AwaitLeader) -> None:
        (wanted,) = await self._resolve(wait.target, Random(0))

        def leader(state: ClusterState | None) -> int | None:
            if wait.of_metadata:
                return None if state is None else state.controller
            return _leader(state, self._system.topic_partitions[0])

        self._recorder.nemesis(EventType.INVOKE, "await-leader", {"replicas": [wanted]})
        state = await self._wait_state(lambda state: leader(state) == wanted, wait.at_most_s)
        self._recorder.nemesis(EventType.INFO, "await-leader", {"replicas": [wanted], "leader": leader(state)})

    # --- doing --------------------------------------------------------------------------------------------------------

    async def _inject(self, fault_id: int, fault: Fault, random: Random) -> None:
        f = name_of(fault)
        try:
            if not isinstance(fault, LiveFault):
                raise InvalidTargetError(f"{fault.kind} cannot be done to processes, only in the simulator")
            opened = await self._aim(fault, random)
        except InvalidTargetError as error:
            self._recorder.nemesis(EventType.INVOKE, f, {"fault_id": fault_id})
            self._recorder.nemesis(EventType.FAIL, f, {"fault_id": fault_id}, error=str(error))
            return
        detail = _detail(fault_id, opened)
        self._recorder.nemesis(EventType.INVOKE, f, detail)
        hit = await self._strike(fault_id, opened)
        self._open[fault_id] = OpenFault(fault=fault, nodes=hit, links=opened.links)
        if hit:
            self._recorder.nemesis(EventType.INFO, f, detail | {"replicas": list(hit)})
        else:
            self._recorder.nemesis(EventType.FAIL, f, detail, error="there was no running process to hit")

    async def _aim(self, fault: LiveFault, random: Random) -> OpenFault:
        """Decide whom the fault is about and which links it cuts."""
        all_nodes = self._system.nodes
        match fault:
            case Partition(shape=shape, target=target):
                about = await self._resolve(target, random)
                links = cut_links(shape, all_nodes, about, random)
                return OpenFault(fault=fault, nodes=about or _smaller_side(all_nodes, links), links=links)
            case CutLink(source=source, destination=destination):
                ends = (*await self._resolve(source, random), *await self._resolve(destination, random))
                return OpenFault(fault=fault, nodes=ends, links=frozenset({(ends[0], ends[1])}))
            case CutClients(target=target):
                nodes = await self._resolve(target, random)
                links = frozenset(link for node in nodes for link in ((CLIENTS, node), (node, CLIENTS)))
                return OpenFault(fault=fault, nodes=nodes, links=links)
            case Kill(target=target) | Pause(target=target) | Stop(target=target) | RollingRestart(target=target):
                return OpenFault(fault=fault, nodes=await self._resolve(target, random), links=frozenset())
            case ChangeVoters(target=target):
                if not self._system.voters.logs:
                    raise InvalidTargetError("the voters of this cluster are voters for ever")
                return OpenFault(fault=fault, nodes=await self._resolve(target, random), links=frozenset())
            case _:
                assert_never(fault)

    async def _strike(self, fault_id: int, opened: OpenFault) -> tuple[int, ...]:
        """Do it, all nodes at once; returns the nodes that it hit."""
        match opened.fault:
            case Partition(mode=mode) | CutLink(mode=mode) | CutClients(mode=mode):
                self._system.links.cut(str(fault_id), opened.links, mode)
                return opened.nodes
            case Kill():
                return await _hit(opened.nodes, self._system.kill)
            case Stop():
                return await _hit(opened.nodes, self._system.stop)
            case RollingRestart():
                self._rolling.begin(fault_id, opened.nodes)
                return opened.nodes
            case ChangeVoters():
                self._voters.begin(fault_id, opened.fault, opened.nodes)
                return opened.nodes
            case Pause():
                return tuple(node for node in opened.nodes if self._system.pause(node))
            case _:
                assert_never(opened.fault)

    # --- undoing ------------------------------------------------------------------------------------------------------

    async def _heal(self, fault_id: int) -> None:
        opened = self._open.pop(fault_id, None)
        if opened is None or not (opened.nodes or opened.links):
            return
        f = healer_of(opened.fault)
        detail = _detail(fault_id, opened)
        self._recorder.nemesis(EventType.INVOKE, f, detail)
        error: str | None = None
        match opened.fault:
            case Partition() | CutLink() | CutClients():
                self._system.links.heal(str(fault_id))
            case Kill() | Stop():
                error = await self._start(opened.nodes)
            case RollingRestart():
                error = await self._rolling.end(fault_id)
            case ChangeVoters():
                self._voters.heal(fault_id, detail)
                return
            case Pause():
                for node in opened.nodes:
                    self._system.resume(node)
            case _:
                assert_never(opened.fault)
        self._recorder.nemesis(_outcome(error), f, detail, error=error)

    async def _start(self, nodes: Sequence[int]) -> str | None:
        """Start nodes side by side; what went wrong, if anything did."""
        done = await asyncio.gather(*(self._system.start(node) for node in nodes), return_exceptions=True)
        errors = [error for error in done if error is not None]
        for error in errors:
            if not isinstance(error, NodeFailedError):
                raise error
        return "; ".join(str(error) for error in errors) or None


async def is_set_within(event: asyncio.Event, at_most_s: float) -> bool:
    """Wait for the event, or until the time is up; whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, at_most_s)):
            await event.wait()
    return event.is_set()


async def _hit(nodes: Sequence[int], strike: Callable[[int], Awaitable[bool]]) -> tuple[int, ...]:
    """Strike nodes side by side; those that were there."""
    were_there = await asyncio.gather(*(strike(node) for node in nodes))
    return tuple(node for node, was_there in zip(nodes, were_there, strict=True) if was_there)


def _leader(state: ClusterState | None, topic_partition: str) -> int | None:
    partition = None if state is None else state.partitions.get(topic_partition)
    return None if partition is None else partition.leader


def name_of(fault: Fault) -> str:
    """The name of doing it, in the history; its first word says the kind."""
    if isinstance(fault, ChangeVoters):
        return f"{fault.kind}-{fault.change}"
    return f"{fault.kind}-{fault.shape}" if isinstance(fault, Partition | Clog) else fault.kind


def healer_of(fault: Fault) -> str:
    """The name of undoing it."""
    return f"{fault.healer}-{name_of(fault)}" if fault.healer == "heal" else fault.healer


def _outcome(error: str | None) -> EventType:
    return EventType.INFO if error is None else EventType.FAIL


def _detail(fault_id: int, opened: OpenFault) -> dict[str, Any]:
    detail: dict[str, Any] = {"fault_id": fault_id, "replicas": list(opened.nodes)}
    if isinstance(opened.fault, Partition | CutLink | CutClients):
        detail |= {"mode": opened.fault.mode.value, "cut": sorted(opened.links)}
    return detail


def _smaller_side(nodes: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
    """The nodes that hear the fewest others: those whom a partition without a target is about."""
    deaf = {node: sum(destination == node for _, destination in links) for node in nodes}
    worst = max(deaf.values(), default=0)
    return tuple(node for node in nodes if deaf[node] == worst)
