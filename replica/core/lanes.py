"""Lanes: the order in which a driver performs effects of which some wait for a disk.

Owns the order. Each log has a lane. An effect stands in the lanes of all logs that it concerns, behind what was asked
for before it, and is performed once it is the first in each of them. So an effect that waits for a disk holds back what
follows in its own lanes, replies and requests to peers among it, and nothing of another log; a crash comes after any
prefix of each lane. Messages that name no log stand in no lane: they rest on nothing that this replica has on its disk.

What the disk is doing and what a thread is, the drivers know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from replica.core.effects import (
    DeleteLog,
    Effect,
    Halt,
    ReadLog,
    ReplaceLog,
    Reply,
    ReplyWithOffset,
    ReplyWithRecords,
    ReplyWithSnapshot,
    Send,
    StoreHighWatermarks,
)
from replica.core.messages import FetchRequest, FetchResponse, Request, Response
from replica.ids import CallId, TopicPartition

Answering = Reply | ReplyWithRecords | ReplyWithOffset | ReplyWithSnapshot
Lane = TopicPartition | None
"""The lane of a log; None is that of the data directory as a whole."""


@dataclass(slots=True, eq=False)
class Ticket:
    """An effect's place in its lanes."""

    number: int
    """How many effects have entered before it."""
    effect: Effect
    lanes: frozenset[Lane]
    ahead: int
    """In how many of them something is before it."""

    @property
    def may_begin(self) -> bool:
        """Whether it is the first in each of its lanes."""
        return self.ahead == 0


class Lanes:
    """The effects of one process that are being performed or wait for others, lane by lane."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, deque[Ticket]] = {}
        self._entered = 0

    @property
    def are_empty(self) -> bool:
        """Whether nothing waits, so that whatever comes may be performed at once."""
        return not self._lanes

    @property
    def pending(self) -> frozenset[Lane]:
        """Those in which something is performed or waits."""
        return frozenset(self._lanes)

    def enter(self, effect: Effect, lanes: frozenset[Lane]) -> Ticket:
        """Put an effect at the end of its lanes. Whoever performs it must ``leave`` then."""
        self._entered += 1
        ticket = Ticket(self._entered, effect, lanes, ahead=sum(lane in self._lanes for lane in lanes))
        for lane in lanes:
            self._lanes.setdefault(lane, deque()).append(ticket)
        return ticket

    def is_going(self, log: TopicPartition) -> bool:
        """Whether the log that has this name now waits to be deleted: nobody wants to hear of it any more."""
        return any(isinstance(waiting.effect, DeleteLog | ReplaceLog) for waiting in self._lanes.get(log, ()))

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """Take out an effect that was performed; return those that may begin now, in the order in which they came."""
        assert ticket.may_begin, (ticket.effect, ticket.ahead)
        freed = []
        for lane in ticket.lanes:
            waiting = self._lanes[lane]
            first = waiting.popleft()
            assert first is ticket, (lane, first.effect, ticket.effect)
            if not waiting:
                del self._lanes[lane]
                continue
            waiting[0].ahead -= 1
            if waiting[0].may_begin:
                freed.append(waiting[0])
        return sorted(freed, key=lambda ticket: ticket.number)


def lanes_of(effect: Effect, requests: Mapping[CallId, Request]) -> frozenset[Lane]:
    """The lanes of what an effect does, or of what it says to somebody. ``requests`` are those not yet answered."""
    match effect:
        case Send(request=request):
            return _named(request)
        case Reply() | ReplyWithRecords() | ReplyWithOffset() | ReplyWithSnapshot():
            asked = requests.get(effect.call_id)
            return _named(effect.response) | (frozenset() if asked is None else _named(asked))
        case ReadLog(range=log_range):
            return frozenset((log_range.topic_partition,))
        case StoreHighWatermarks():
            return frozenset((None,))
        case Halt():
            return frozenset()
        case _:
            return frozenset((effect.topic_partition,))


def _named(message: Request | Response) -> frozenset[Lane]:
    """The logs of which a message says something.

    Others rest on nothing that this replica has on its disk: on what is committed, or on what others have said.
    """
    match message:
        case FetchRequest(partitions=asked):
            return frozenset(part.topic_partition for part in asked)
        case FetchResponse(partitions=answered):
            return frozenset(part.topic_partition for part in answered)
        case _:
            log: TopicPartition | None = getattr(message, "topic_partition", None)
            return frozenset() if log is None else frozenset((log,))
