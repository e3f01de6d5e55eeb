"""Deleting records by scripted brokers: what is known of a deletion whose attempts went wrong."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from replica.client.admin_records import RecordDeletion
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Endpoint
from replica.client.failures import AdminError, ClusterUnreachableError, UnknownTopicError
from replica.core.messages import DeleteRecordsRequest, DeleteRecordsResponse, DescribeClusterRequest, Request
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.rpc.transport import NotAppliedError, TransportError
from tests.client.views import BOOTSTRAP, ORDERS, described, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock

DONE = DeleteRecordsResponse(error=ErrorCode.NONE, low_watermark=Offset(5))
LOST = TransportError("UNAVAILABLE")
NEVER_SENT = NotAppliedError("refuses connections")


def answered(error: ErrorCode) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(error=error)


REFUSED = answered(ErrorCode.OFFSET_OUT_OF_RANGE)
KNOWN = described({0: led_by(1, 1)})


async def delete(*answers: Answer, views: tuple[Answer, ...] = (KNOWN,)) -> Offset:
    """Delete records of ``orders-0``; brokers answer in turn, and describe the cluster, the last one for ever."""
    script, descriptions = chain(answers, repeat(answers[-1])), chain(views, repeat(views[-1]))

    def answer(_: Endpoint, request: Request) -> Answer:
        assert isinstance(request, DeleteRecordsRequest | DescribeClusterRequest), request
        if isinstance(request, DescribeClusterRequest):
            return next(descriptions)
        assert 0 < request.timeout_ms <= 1000, "the other replicas have as long as the call itself"
        return next(script)

    config = ViewConfig(api_timeout_ms=1000, retry_backoff_ms=10)
    view = ClusterView(BOOTSTRAP, config, connections=ScriptedConnections(answer), clock=VirtualClock())
    return await RecordDeletion(view).delete(ORDERS, 5, view.deadline())


@pytest.mark.parametrize(
    ("before", "may_be_done"),
    [
        pytest.param([], False, id="first"),
        pytest.param([NEVER_SENT], False, id="never sent"),
        pytest.param([LOST], True, id="lost"),
        pytest.param([LOST, NEVER_SENT], True, id="lost before"),
        pytest.param([answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)], False, id="not the leader"),
        pytest.param([answered(ErrorCode.KAFKA_STORAGE_ERROR)], True, id="the disk failed"),
        pytest.param([answered(ErrorCode.REQUEST_TIMED_OUT)], True, id="the leader alone has done it"),
    ],
)
async def test_a_refusal_remembers_the_attempts_before_it(before: list[Answer], may_be_done: bool) -> None:
    """A definite refusal may speak of what an attempt without a clear answer has done before it, and says so."""
    with pytest.raises(AdminError, match="OFFSET_OUT_OF_RANGE") as refused:
        await delete(*before, REFUSED)
    assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused.value.may_be_done == may_be_done
    assert ("an earlier attempt, whose answer was lost, may have done it" in str(refused.value)) == may_be_done


@pytest.mark.parametrize(
    ("answers", "may_be_done"),
    [([NEVER_SENT], False), ([answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)], False), ([LOST, NEVER_SENT], True)],
)
async def test_without_an_answer_it_is_in_doubt_only_if_it_was_sent(answers: list[Answer], may_be_done: bool) -> None:
    """A leader that was never reached has deleted nothing."""
    with pytest.raises(AdminError, match="no answer within 1000 ms") as unanswered:
        await delete(*answers)
    assert unanswered.value.may_be_done == may_be_done
    assert ("may be done all the same" in str(unanswered.value)) == may_be_done


async def test_a_cluster_out_of_reach_is_called_so() -> None:
    """Whoever reaches nobody is told so, as by any other call."""
    with pytest.raises(ClusterUnreachableError, match="nobody described the cluster"):
        await delete(DONE, views=(NEVER_SENT,))


async def test_a_cluster_that_goes_out_of_reach_takes_no_doubt_away() -> None:
    """An attempt whose answer was lost may have done it, whoever can be reached afterwards."""
    with pytest.raises(AdminError, match="may be done all the same") as unanswered:
        await delete(LOST, views=(KNOWN, NEVER_SENT))
    assert unanswered.value.may_be_done


async def test_a_topic_that_appears_is_waited_for() -> None:
    """A broker that has not heard of it yet may hear of it; only when the time is up it is unknown."""
    assert await delete(DONE, views=(described(), described(), KNOWN)) == 5
    with pytest.raises(UnknownTopicError, match=r"^orders-0 does not exist$"):
        await delete(DONE, views=(described(),))


async def test_a_topic_that_goes_takes_no_doubt_away() -> None:
    """It may have been there when it was asked."""
    with pytest.raises(AdminError, match="orders-0 does not exist") as unanswered:
        await delete(LOST, views=(KNOWN, described(offset=11)))
    assert (unanswered.value.error, unanswered.value.may_be_done) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
