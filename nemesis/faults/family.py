"""What every family of faults can do: aim, strike, heal.

Owns the protocol between the injector, which gives every fault to its family and records, and the families, of which
each knows how its faults are done to a system. A new kind of fault is declared in the file of its family; a new family
is one more line of ``catalogue``. Families ask a system whom a step of a schedule means when it strikes (``Casting``),
and tell in one way what became of a change that they ask for (``attempt``).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.breakable import Breakable, ClusterState
from nemesis.faults.fault import Fault
from nemesis.faults.links import Link
from nemesis.faults.targets import Cast, Target, needs_leader, resolve

if TYPE_CHECKING:
    from nemesis.faults.load import Load
    from nemesis.history.recorder import Recorder

FaultT = TypeVar("FaultT", bound=Fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Whom a fault is about, and the links that it touches."""

    nodes: tuple[int, ...]
    links: frozenset[Link] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFault(Generic[FaultT]):
    """A fault that is aimed, or was done and not yet undone. ``draw`` seeds the dice that it throws while it lasts."""

    fault_id: int
    fault: FaultT
    aim: Aim
    draw: int = 0

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it is about; once it is done, those that it hit."""
        return self.aim.nodes

    @property
    def detail(self) -> dict[str, Any]:
        """What the history says of it."""
        return {"fault_id": self.fault_id, "replicas": list(self.nodes), **self.fault.told(self.aim.links)}


class Struck(StrEnum):
    """What became of an injection."""

    STRUCK = "struck"
    """Those that the history names were hit."""
    BEGUN = "begun"
    """It goes on by itself: what it really does are operations of their own."""
    MISSED = "missed"
    """There was nobody to hit."""
    REFUSED = "refused"
    """It could not be done, for the reason that is told."""
    UNKNOWN = "unknown"
    """It broke off, and may have struck some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """How undoing a fault went: what went wrong, and what else is to be told of it.

    ``is_over`` is false where the family goes on with it, and records the end itself.
    """

    error: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    is_over: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a family works with: the system, whom its targets mean, and the history for what it does step by step.

    ``load`` is how often clients ask.
    """

    system: Breakable
    casting: Casting
    recorder: Recorder
    load: Load


class Family(ABC, Generic[FaultT]):
    """Faults of one family, done to one system. The base has no fault, and nothing that goes on by itself."""

    faults: ClassVar[tuple[type[Fault], ...]] = ()
    """The faults that it does."""

    def __init__(self, stage: Stage) -> None:
        self._system = stage.system
        self._casting = stage.casting

    async def aim(self, fault: FaultT, random: Random) -> Aim:
        """Decide whom the fault is about. Raises InvalidTargetError where that is nobody, or it cannot be done."""
        about = [node for target in fault.targets for node in await self._casting.resolve(target, random)]
        return aimed(fault, self._system.nodes, about, random)

    @abstractmethod
    async def strike(self, opened: OpenFault[FaultT]) -> tuple[int, ...]:
        """Do it, all nodes at once; returns the nodes that it hit."""

    def done(self, opened: OpenFault[FaultT]) -> Mapping[str, Any]:
        """What was really done by a strike, where the fault does not say it all."""
        del opened
        return {}

    @abstractmethod
    async def heal(self, opened: OpenFault[FaultT]) -> Healed:
        """Undo it, for those whom it hit; again, where it has failed before. Raises what the system raises."""

    async def finish(self) -> None:
        """At the end, when every fault is healed and every node runs: bring to an end what still goes on."""

    async def abandon(self) -> None:
        """Do nothing more of what goes on by itself: the run is over."""


def aimed(fault: Fault, nodes: Sequence[int], about: Sequence[int], random: Random) -> Aim:
    """What a fault comes to that is ``about`` these of the ``nodes``."""
    links = fault.links(nodes, about, random)
    return Aim(nodes=fault.concerns(nodes, about, links), links=links)


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have tidied up."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def end_all(tasks: MutableMapping[int, asyncio.Task[None]], at_most_s: float) -> None:
    """Wait until the tasks of all faults have ended, and forget them; raises what one of them raised.

    Who is late is cancelled, and has tidied up after itself on return.
    """
    if not tasks:
        return
    done, late = await asyncio.wait(tasks.values(), timeout=at_most_s)
    for task in done:
        task.result()
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    tasks.clear()


class ChangeOutcome(StrEnum):
    """What became of one step."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_TRIED = "not-tried"


async def attempt(recorder: Recorder, f: str, detail: Mapping[str, Any], call: Awaitable[None]) -> ChangeOutcome:
    """Make one change, and record what became of it."""
    recorder.began(f, detail)
    error: str | None = None
    try:
        await call
        outcome = ChangeOutcome.DONE
    except NotDoneError as refused:
        outcome, error = ChangeOutcome.REFUSED, str(refused)
    except UnknownOutcomeError as unknown:
        outcome, error = ChangeOutcome.UNKNOWN, str(unknown)
    is_known = outcome is not ChangeOutcome.UNKNOWN
    recorder.ended(f, {**detail, "outcome": outcome}, error=error, is_known=is_known)
    return outcome


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
