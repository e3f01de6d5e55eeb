"""What is told of a machine's process after the fact: a step that it took, and how it ended."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import force_setattr

from replica.core import effects as fx
from replica.core import events as ev
from replica.core.lanes import Lane
from replica.ids import CallId, TopicPartition


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
