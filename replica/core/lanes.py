"""Lanes: the order in which a driver performs effects of which some wait for a disk.

Owns the order. Each log has a lane, and the data directory has one. An effect stands in the lanes of all logs that it
does something to, behind what was asked for before it, and is performed once it is the first in each of them. So one
that waits for a disk holds back what follows in its own lanes, and nothing of another log; a crash comes after any
prefix of each lane. A message, to a caller or a peer, waits for what is in the lanes of the logs that it says something
about, and holds back nothing. One that names no log rests on nothing that this replica has on its disk.

What the disk is doing and what a thread is, the drivers know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from replica.core.effects import (
    ApplySettings,
    DeleteLog,
    Effect,
    Flush,
    Halt,
    InstallSnapshot,
    ReadLog,
    ReplaceLog,
    Reply,
    ReplyWithOffset,
    ReplyWithRecords,
    ReplyWithSnapshot,
    Send,
    StartLogAt,
    StoreHighWatermarks,
    StoreSnapshot,
    Truncate,
)
from replica.core.messages import FetchRequest, FetchResponse, Request, Response
from replica.ids import CallId, TopicPartition

Question = ReplyWithRecords | ReplyWithOffset | ReplyWithSnapshot
"""What is answered with something that is looked up in logs."""
Answering = Reply | Question
Cut = Truncate | StartLogAt | InstallSnapshot | DeleteLog | ReplaceLog
Lane = TopicPartition | None
"""The lane of a log; None is that of the data directory as a whole."""
_DIRECTORY: frozenset[Lane] = frozenset((None,))


class Place(Struct, frozen=True):
    """In which ``lanes`` an effect stands, and what is in which others it ``awaits`` without standing there."""

    lanes: frozenset[Lane] = frozenset()
    awaits: frozenset[Lane] = frozenset()


@dataclass(slots=True, eq=False)
class Ticket:
    """An effect that has its place."""

    number: int
    """How many effects have entered before it."""
    effect: Effect
    lanes: frozenset[Lane]
    ahead: int = 0
    """In how many lanes something is before it."""
    awaited_by: list[Ticket] = field(default_factory=list)
    """Who stands elsewhere, and begins when this one has left."""

    @property
    def may_begin(self) -> bool:
        """Whether nothing is before it."""
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

    def enter(self, effect: Effect, place: Place) -> Ticket:
        """Put an effect at the end of its lanes. Whoever performs it must ``leave`` then."""
        self._entered += 1
        ticket = Ticket(self._entered, effect, place.lanes)
        for lane in place.lanes:
            ticket.ahead += lane in self._lanes
            self._lanes.setdefault(lane, deque()).append(ticket)
        for lane in place.awaits - place.lanes:
            if lane in self._lanes:
                ticket.ahead += 1
                self._lanes[lane][-1].awaited_by.append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """Take out an effect that was performed; return those that may begin now, in the order in which they came."""
        assert ticket.may_begin, (ticket.effect, ticket.ahead)
        followers = ticket.awaited_by
        for lane in ticket.lanes:
            waiting = self._lanes[lane]
            first = waiting.popleft()
            assert first is ticket, (lane, first.effect, ticket.effect)
            if waiting:
                followers.append(waiting[0])
            else:
                del self._lanes[lane]
        for follower in followers:
            follower.ahead -= 1
        freed = {follower.number: follower for follower in followers if follower.may_begin}
        return [freed[number] for number in sorted(freed)]

    def is_moot(self, effect: Effect) -> bool:
        """Whether a flush, or a snapshot that is to be stored, is of what is cut or deleted behind it in its lane.

        The core awaits neither: it cuts only what is flushed to its end, and abandons a snapshot for one that it loads.
        """
        match effect:
            case Flush(topic_partition=log):
                return any(isinstance(waiting.effect, Cut) for waiting in self._lanes.get(log, ()))
            case StoreSnapshot(topic_partition=log):
                ends = InstallSnapshot | DeleteLog | ReplaceLog
                return any(isinstance(waiting.effect, ends) for waiting in self._lanes.get(log, ()))
            case _:
                return False

    def is_going(self, log: TopicPartition) -> bool:
        """Whether the log that has this name now waits to be deleted: nobody wants to hear of it any more."""
        return any(isinstance(waiting.effect, DeleteLog | ReplaceLog) for waiting in self._lanes.get(log, ()))


def place_of(effect: Effect, requests: Mapping[CallId, Request]) -> Place:
    """The place of what an effect does, or of what it says to somebody. ``requests`` are those not yet answered.

    What cuts a log awaits the high watermarks that are being stored: they may name one of what is cut.
    """
    match effect:
        case Send(request=request):
            return Place(awaits=_named(request))
        case Reply(call_id=call_id, response=response):
            return Place(awaits=_named(response) | _asked(call_id, requests))
        case ReplyWithRecords(call_id=call_id, response=answer, ranges=ranges):
            read = frozenset(log_range.topic_partition for log_range in ranges)
            return Place(read, awaits=_named(answer) | _asked(call_id, requests))
        case ReadLog(range=log_range):
            return Place(frozenset((log_range.topic_partition,)))
        case StoreHighWatermarks():
            return Place(_DIRECTORY)
        case Halt() | ApplySettings():
            return Place()
        case Truncate() | StartLogAt() | InstallSnapshot() | DeleteLog() | ReplaceLog():
            return Place(frozenset((effect.topic_partition,)), awaits=_DIRECTORY)
        case _:
            return Place(frozenset((effect.topic_partition,)))


def _asked(call_id: CallId, requests: Mapping[CallId, Request]) -> frozenset[Lane]:
    asked = requests.get(call_id)
    return frozenset() if asked is None else _named(asked)


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
