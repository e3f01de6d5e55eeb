"""Lanes: what waits for what, as values."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.lanes import Lane, Lanes, Place, Ticket, place_of
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Epoch, Offset, ReplicaId, SnapshotId, TopicId, TopicPartition
from replica.machines import EncodedState

A, B, C = (TopicPartition(topic, 0) for topic in "abc")
FETCH_A = m.FetchRequest(
    partitions=(
        m.FetchPartition(
            topic_partition=A, fetch_offset=Offset(0), current_leader_epoch=Epoch(1), last_fetched_epoch=Epoch(0)
        ),
    )
)
FETCHED_B = m.FetchResponse(partitions=(m.FetchedPartition(topic_partition=B, error=ErrorCode.NONE),))
RANGE = fx.LogRange(topic_partition=A, start_offset=Offset(0), end_offset=Offset(1), max_bytes=1)
BEAT = m.BrokerHeartbeatResponse(error=ErrorCode.NONE)
CALL = CallId(1)
SNAPSHOT = SnapshotId(Offset(1), Epoch(1))


def store(log: TopicPartition) -> fx.StoreEpochs:
    return fx.StoreEpochs(topic_partition=log, entries=())


def send(request: m.PeerRequest) -> fx.Send:
    return fx.Send(replica_id=ReplicaId(2), correlation_id=CorrelationId(1), request=request, timeout_ms=1)


PLACES: list[tuple[str, fx.Effect, set[Lane], set[Lane]]] = [
    ("what is done to a log", store(A), {A}, set()),
    ("a read", fx.ReadLog(range=RANGE), {A}, set()),
    ("what is about all logs", fx.StoreHighWatermarks(offsets={A: Offset(1)}), {None}, set()),
    (
        "a cut: no high watermark of what is cut is stored after it",
        fx.Truncate(topic_partition=A, end_offset=Offset(1)),
        {A},
        {None},
    ),
    ("a deletion", fx.DeleteLog(topic_partition=A), {A}, {None}),
    ("a request that names logs", send(FETCH_A), set(), {A}),
    ("an answer: what was asked and what is told", fx.Reply(call_id=CALL, response=FETCHED_B), set(), {A, B}),
    (
        "an answer with records stands where they are read",
        fx.ReplyWithRecords(call_id=CALL, response=FETCHED_B, ranges=(replace(RANGE, topic_partition=C),), max_bytes=1),
        {C},
        {A, B},
    ),
    ("an answer to a caller that has given up", fx.Reply(call_id=CallId(9), response=FETCHED_B), set(), {B}),
    ("a message that names no log", fx.Reply(call_id=CallId(9), response=BEAT), set(), set()),
    ("the end", fx.Halt(reason="bug"), set(), set()),
]


@pytest.mark.parametrize(("effect", "lanes", "awaits"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_the_place_of_an_effect(effect: fx.Effect, lanes: set[Lane], awaits: set[Lane]) -> None:
    """An effect stands in the lanes of the logs that it does something to, and awaits those that it speaks of."""
    assert place_of(effect, {CALL: FETCH_A}) == Place(frozenset(lanes), frozenset(awaits))


class Line:
    """Lanes with effects on logs named by letters, and what has begun."""

    def __init__(self) -> None:
        self.lanes = Lanes()
        self.tickets: list[Ticket] = []

    def enter(self, *logs: TopicPartition) -> Ticket:
        """Put an effect into the lanes of these logs."""
        self.tickets.append(self.lanes.enter(store(A), Place(frozenset(logs))))
        return self.tickets[-1]

    def speak(self, *logs: TopicPartition) -> Ticket:
        """Send a message about these logs."""
        self.tickets.append(self.lanes.enter(send(FETCH_A), Place(awaits=frozenset(logs))))
        return self.tickets[-1]

    @property
    def ready(self) -> list[int]:
        """Which of them may begin."""
        return [number for number, ticket in enumerate(self.tickets) if ticket.may_begin]


def test_an_effect_waits_for_those_before_it_in_each_of_its_lanes() -> None:
    """Other lanes are not held up; an effect of two lanes begins when both have come to it, and holds up both."""
    line = Line()
    first = line.enter(A)
    second = line.enter(B)
    both = line.enter(A, B)
    behind = line.enter(B)
    line.enter(C)
    assert line.ready == [0, 1, 4]
    assert line.lanes.leave(first) == []
    assert line.lanes.leave(second) == [both]
    assert line.lanes.leave(both) == [behind]
    assert line.lanes.pending == {B, C}


def test_a_message_waits_for_what_it_speaks_of_and_holds_up_nothing() -> None:
    """It goes out when all that was before it has left, whatever has come since."""
    line = Line()
    first, second = line.enter(A), line.enter(B)
    message = line.speak(A, B, C)
    behind = line.enter(B)
    assert line.lanes.leave(first) == []
    assert line.lanes.leave(second) == [message, behind]
    assert line.lanes.leave(message) == []
    assert line.speak(A).may_begin
    assert not line.speak(B).may_begin


CUTS = [
    fx.Truncate(topic_partition=A, end_offset=Offset(1)),
    fx.StartLogAt(topic_partition=A, start_offset=Offset(1)),
    fx.InstallSnapshot(topic_partition=A, snapshot_id=SNAPSHOT, data=b""),
    fx.DeleteLog(topic_partition=A),
    fx.ReplaceLog(topic_partition=A, topic_id=TopicId(1)),
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: type(cut).__name__)
def test_a_flush_of_what_is_cut_behind_it_is_moot(cut: fx.Effect) -> None:
    """Nobody awaits it: reported late it would speak for what was appended in place of what was cut."""
    lanes = Lanes()
    flush, kept = (
        fx.Flush(topic_partition=A, end_offset=Offset(4)),
        fx.StoreSnapshot(topic_partition=A, snapshot_id=SNAPSHOT, state=EncodedState(b""), max_bytes=9),
    )
    lanes.enter(store(A), Place(frozenset((A,))))
    lanes.enter(flush, Place(frozenset((A,))))
    assert not lanes.is_moot(flush)
    lanes.enter(cut, Place(frozenset((A,))))
    assert lanes.is_moot(flush)
    assert not lanes.is_moot(replace(flush, topic_partition=B))
    assert lanes.is_moot(kept) is not isinstance(cut, fx.Truncate | fx.StartLogAt)


def test_those_that_were_held_up_begin_in_the_order_in_which_they_came() -> None:
    """Whatever the order of the lanes: a driver does the same in every process."""
    line = Line()
    logs = [TopicPartition("many", number) for number in range(20)]
    wide = line.enter(*logs)
    behind = [line.enter(log) for log in reversed(logs)]
    assert line.lanes.leave(wide) == behind


def test_lanes_are_empty_when_all_have_left() -> None:
    """Then whatever comes may be performed at once."""
    line = Line()
    empty = [line.lanes.are_empty]
    ticket = line.enter(A, B)
    empty.append(line.lanes.are_empty)
    assert line.lanes.leave(ticket) == []
    assert [*empty, line.lanes.are_empty] == [True, False, True]


def test_nobody_leaves_before_its_turn() -> None:
    """That is a mistake of the driver."""
    line = Line()
    line.enter(A)
    with pytest.raises(AssertionError):
        line.lanes.leave(line.enter(A))


def test_a_log_is_going_while_its_deletion_waits() -> None:
    """What storage says of it until then is about the log that is deleted; afterwards about the next of that name."""
    lanes = Lanes()
    cut = lanes.enter(fx.Truncate(topic_partition=A, end_offset=Offset(1)), Place(frozenset((A,))))
    assert not lanes.is_going(A)
    deletion = lanes.enter(fx.DeleteLog(topic_partition=A), Place(frozenset((A,))))
    creation = lanes.enter(fx.CreateLog(topic_partition=A, topic_id=TopicId(2)), Place(frozenset((A,))))
    assert (lanes.is_going(A), lanes.is_going(B)) == (True, False)
    assert lanes.leave(cut) == [deletion]
    assert lanes.leave(deletion) == [creation]
    assert not lanes.is_going(A)
