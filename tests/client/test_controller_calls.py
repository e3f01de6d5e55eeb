"""Finding the controller, and what is known of a change whose attempts went wrong."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Endpoint
from replica.client.controller_calls import ControllerCalls
from replica.client.failures import AdminError, ClusterUnreachableError
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import TopicId
from replica.rpc.transport import MalformedRequestError, NotAppliedError, TransportError
from tests.client.views import BOOTSTRAP, described, leads
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock

REQUEST = m.CreateTopicRequest(name="orders")
DONE = m.CreateTopicResponse(error=ErrorCode.NONE, topic_id=TopicId(7))
EXISTS = m.CreateTopicResponse(error=ErrorCode.TOPIC_ALREADY_EXISTS, message="orders exists")
LOST = TransportError("UNAVAILABLE")
NEVER_SENT = NotAppliedError("refuses connections")


def not_controller(hint: m.CurrentLeader | None = None) -> m.CreateTopicResponse:
    return m.CreateTopicResponse(error=ErrorCode.NOT_CONTROLLER, current_leader=hint)


def calls_of(
    *answers: Answer, controller: m.CurrentLeader | None = None
) -> tuple[ControllerCalls, ScriptedConnections]:
    """A client whose brokers name this controller, and that gets these answers in turn, the last one for ever."""
    script = chain(answers, repeat(answers[-1]))

    def answer(_: Endpoint, request: m.Request) -> Answer:
        return described(controller=controller) if isinstance(request, m.DescribeClusterRequest) else next(script)

    connections = ScriptedConnections(answer)
    config = ViewConfig(api_timeout_ms=1000, retry_backoff_ms=10)
    return ControllerCalls(ClusterView(BOOTSTRAP, config, connections=connections, clock=VirtualClock())), connections


async def test_the_controller_is_asked_for_first() -> None:
    """Brokers say who the controller is, so that nobody else need be asked for the change."""
    calls, connections = calls_of(DONE, controller=leads(2, 4))
    assert await calls.ask(REQUEST, m.CreateTopicResponse) == DONE
    assert await calls.ask(REQUEST, m.CreateTopicResponse) == DONE
    assert connections.asked(m.CreateTopicRequest) == [2, 2]
    assert len(connections.asked(m.DescribeClusterRequest)) == 1


async def test_hints_are_followed_as_far_as_their_epoch_goes() -> None:
    """A newer hint is followed at once; an older one, of a replica that was cut off, is not."""
    calls, connections = calls_of(
        not_controller(leads(3, 5)), not_controller(leads(1, 3)), DONE, controller=leads(2, 4)
    )
    assert await calls.ask(REQUEST, m.CreateTopicResponse) == DONE
    assert connections.asked(m.CreateTopicRequest)[:2] == [2, 3]
    assert len(connections.asked(m.DescribeClusterRequest)) == 2, "brokers are asked again after the old hint"


@pytest.mark.parametrize(
    ("before", "may_be_done"),
    [
        pytest.param([], False, id="first"),
        pytest.param([NEVER_SENT], False, id="never sent"),
        pytest.param([LOST], True, id="lost"),
        pytest.param([LOST, NEVER_SENT], True, id="lost before"),
        pytest.param([not_controller()], True, id="leadership lost, perhaps after it was written"),
        pytest.param([m.CreateTopicResponse(error=ErrorCode.REQUEST_TIMED_OUT)], True, id="timed out"),
        pytest.param(
            [m.CreateTopicResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)], False, id="refused at the door"
        ),
    ],
)
async def test_a_refusal_remembers_the_attempts_before_it(before: list[Answer], may_be_done: bool) -> None:
    """A refusal has Kafka's name and the controller's words, and tells whether an earlier attempt may count."""
    calls, _ = calls_of(*before, EXISTS, controller=leads(2, 4))
    with pytest.raises(AdminError, match=r"^TOPIC_ALREADY_EXISTS: orders exists") as refused:
        await calls.ask(REQUEST, m.CreateTopicResponse)
    assert refused.value.error is ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.value.may_be_done is may_be_done
    assert ("earlier attempt" in str(refused.value)) is may_be_done


@pytest.mark.parametrize(("failure", "may_be_done"), [(NEVER_SENT, False), (LOST, True), (not_controller(), True)])
async def test_without_an_answer_the_call_ends_in_time(failure: Answer, may_be_done: bool) -> None:
    """At the deadline the last failure is named, and whether the change may be done all the same."""
    calls, _ = calls_of(failure, controller=leads(2, 4))
    with pytest.raises(AdminError, match="has not answered within 1000 ms; last: ") as unanswered:
        await calls.ask(REQUEST, m.CreateTopicResponse)
    assert unanswered.value.may_be_done is may_be_done


@pytest.mark.parametrize(("attempt", "may_be_done"), [(None, False), (NEVER_SENT, False), (LOST, True)])
async def test_what_was_sent_before_all_were_lost_is_in_doubt(attempt: Answer | None, may_be_done: bool) -> None:
    """Where nobody can be reached any more, a change may be done if an attempt at it was lost, and else is not."""
    attempts = 0

    def answer(_: Endpoint, request: m.Request) -> Answer:
        nonlocal attempts
        if isinstance(request, m.DescribeClusterRequest):
            return NEVER_SENT if attempts or attempt is None else described(controller=leads(2, 4))
        attempts += 1
        assert attempt is not None, request
        return attempt

    config = ViewConfig(api_timeout_ms=1000, retry_backoff_ms=10)
    connections = ScriptedConnections(answer)
    calls = ControllerCalls(ClusterView(BOOTSTRAP, config, connections=connections, clock=VirtualClock()))
    with pytest.raises(AdminError if may_be_done else ClusterUnreachableError, match="nobody described the") as lost:
        await calls.ask(REQUEST, m.CreateTopicResponse)
    assert ("may have done it" in str(lost.value)) is may_be_done
    assert getattr(lost.value, "may_be_done", False) is may_be_done
    assert len(connections.asked(m.CreateTopicRequest)) == attempts == (attempt is not None)


async def test_a_request_that_is_out_of_bounds_is_not_repeated() -> None:
    """Whoever is asked would refuse it: the sentence that names the field reaches the caller at once."""
    calls, connections = calls_of(MalformedRequestError("name has 300 bytes; it may have at most 249"))
    with pytest.raises(AdminError, match="name has 300 bytes") as refused:
        await calls.ask(REQUEST, m.CreateTopicResponse)
    assert (refused.value.error, refused.value.may_be_done) == (ErrorCode.INVALID_REQUEST, False)
    assert len(connections.asked(m.CreateTopicRequest)) == 1
