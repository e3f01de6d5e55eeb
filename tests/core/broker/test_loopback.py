"""What a replica asks of itself stays inside it."""

from __future__ import annotations

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.loopback import Loopback
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, CorrelationId, Offset, ReplicaId


def beat(broker_id: int) -> m.BrokerHeartbeatRequest:
    return m.BrokerHeartbeatRequest(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(1),
        incarnation_id="i",
        cluster_id="c",
        metadata_offset=Offset(0),
    )


ANSWER = m.BrokerHeartbeatResponse(error=ErrorCode.NONE)


def test_requests_and_answers_come_in_their_order() -> None:
    """What was asked first is handed over first, and its answer finds who asked."""
    loopback = Loopback()
    for number in (0, 1, 7):
        loopback.ask(CorrelationId(number), beat(number))
    calls = []
    while (asked := loopback.take_request()) is not None:
        call_id, request = asked
        assert isinstance(request, m.BrokerHeartbeatRequest)
        calls.append((call_id, request.broker_id))
    assert [broker_id for _, broker_id in calls] == [0, 1, 7]
    for call_id, _ in reversed(calls):
        assert loopback.catches(fx.Reply(call_id=call_id, response=ANSWER))
    assert [loopback.take_answer() for _ in range(4)] == [(7, ANSWER), (1, ANSWER), (0, ANSWER), None]


def test_calls_of_others_are_not_caught() -> None:
    """A reply to a driver's call goes out, whatever its number."""
    loopback = Loopback()
    assert not any(loopback.catches(fx.Reply(call_id=CallId(number), response=ANSWER)) for number in range(10))
    assert not loopback.catches(fx.Halt(reason="any"))
    assert loopback.take_answer() is None
