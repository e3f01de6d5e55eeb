"""What every family of faults can do: aim, strike, heal.

Owns the protocol between the injector, which gives every fault to its family and records, and the families, of which
each knows how its faults are done to a system. A new kind of fault is a new family, and a line where the injector
lists them.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from nemesis.cluster.system import System
from nemesis.faults.casting import Casting
from nemesis.faults.links import Link
from nemesis.faults.network import NetworkFault
from nemesis.faults.values import (
    Burst,
    ClockFault,
    CutClients,
    CutLink,
    DiskFault,
    Fault,
    KillAt,
    KillStarting,
    LimitMemory,
    Partition,
    Reassign,
    ReplaceDisk,
    fault_to_json,
)
from nemesis.workload.pace import Load
from nemesis.workload.recorder import Recorder

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
        detail: dict[str, Any] = {"fault_id": self.fault_id, "replicas": list(self.nodes)}
        if isinstance(self.fault, Partition | CutLink | CutClients):
            detail |= {"mode": self.fault.mode.value, "cut": sorted(self.aim.links)}
        if isinstance(self.fault, NetworkFault):
            detail |= {"links": sorted(self.aim.links)}
        if isinstance(self.fault, NetworkFault | KillStarting | KillAt | ClockFault | DiskFault | Burst):
            detail |= {"fault": fault_to_json(self.fault)}
        if isinstance(self.fault, Reassign | LimitMemory | ReplaceDisk):
            detail |= {"fault": fault_to_json(self.fault)}
        return detail


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

    system: System
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

    @abstractmethod
    async def aim(self, fault: FaultT, random: Random) -> Aim:
        """Decide whom the fault is about. Raises InvalidTargetError where that is nobody, or it cannot be done."""

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
