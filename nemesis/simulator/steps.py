"""What is told of a machine's process after the fact: a step that it took, and how it ended.

Owns the shape of what a simulated machine needs of the world around it, too, and of whom it tells; the worlds fill it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

from nemesis.simulator.climate import Climate
from nemesis.simulator.queue import EventQueue
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.effects import Send
from replica.core.events import Event
from replica.core.lanes import Cut, Lane
from replica.core.replica import Replica
from replica.ids import CallId, TopicPartition
from replica.storage import LogTable, StorageError

if TYPE_CHECKING:
    from nemesis.simulator.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """How a process ended. ``performed`` of the ``effects`` of its last step were; both 0 outside a step."""

    cause: str
    performed: int = 0
    effects: int = 0


class Step(Struct, frozen=True, kw_only=True):
    """One step as it came to pass: the effects that were performed, and the one that was broken off, if one was.

    Without an ``event`` the disk was done with an effect of an earlier step, and those went on that had waited for it.

    ``kinds`` are the types of the event and of the effects, whatever was given: who cares for some of them asks for
    these first.

    ``answers`` are the records that were read for a call, log by log, and went out with its answer.

    ``cuts`` are those of logs that were decided in it and may have to wait for the disk.

    ``is_whole`` says that all of them were performed or wait for the disk, in a process whose storage has not failed;
    ``pending`` are the lanes in which something waits, and those of logs that a read has just found to be damaged,
    which the core hears next. What the core believes of a log of which it is not whole is true of nothing but its
    memory, which may be lost. What an effect that was broken off has done is anybody's guess.
    """

    event: ev.Event | None
    effects: tuple[fx.Effect, ...]
    answers: Mapping[CallId, Mapping[TopicPartition, bytes]]
    interrupted: fx.Effect | None
    is_whole: bool
    cuts: tuple[Cut, ...] = ()
    pending: frozenset[Lane] = frozenset()
    kinds: frozenset[type] = frozenset()

    def __post_init__(self) -> None:
        force_setattr(self, "kinds", frozenset((type(self.event), *map(type, self.effects))))

    def is_whole_of(self, log: TopicPartition) -> bool:
        """Whether this log on the disk is what the core believes it to be."""
        return self.is_whole and log not in self.pending


def clause_of(error: AssertionError) -> str:
    """Name the clause that failed, by the function that states it, and its values."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.name}: {error}"


class Surroundings(Protocol):
    """What a node needs of its world."""

    queue: EventQueue
    climate: Climate

    def new_core(self, node: Node, opened: LogTable) -> Replica:
        """A core for a process that begins now."""

    def send(self, node: Node, effect: Send) -> None:
        """Take a request to a peer, and its answer back."""

    def crash_point(self, node: Node, event: Event, effects: int) -> int | None:
        """After how many of a step's effects the process dies; None if it lives."""

    def flush_us(self, node: Node) -> int:
        """How long a flush takes that begins now."""

    def lane_us(self, node: Node, lanes: frozenset[Lane]) -> int:
        """How long what waits for the disk takes that begins now in these lanes; 0 if it is done at once."""

    def report_us(self, node: Node) -> int:
        """How long it takes until the core hears of what was read for it now."""

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """A process has opened its logs and is about to start; so much of a torn tail was cut off."""

    def on_step(self, node: Node, step: Step) -> None:
        """A step was taken."""

    def on_down(self, node: Node, crash: Crash) -> None:
        """The process is gone."""

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """The storage would not open."""
