"""The loop of all calls: when it asks again, when it ends, and what is known then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from replica.client.asking import NEEDS_NEW_VIEW, REFUSED_MS_MAX, RETRIABLE, Failed, repeated
from replica.client.clock import Backoff, Deadline
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.consumer import Consumer
from replica.client.failures import ReadFailedError
from replica.client.leader_calls import LeaderCalls
from replica.core.messages import DescribeClusterRequest, DescribeClusterResponse, ListOffsetsResponse
from replica.errors import DEFINITELY_NOT_WRITTEN, ErrorCode
from tests.client.views import BOOTSTRAP, ORDERS
from tests.client.virtual import ScriptedConnections, VirtualClock

LOST = Failed(reason="lost", may_be_done=True)
NOBODY = Failed(reason="refuses connections", refused=True)
REFUSED = Failed(reason="refused", is_final=True)
LATER = Failed(reason="later")
ELSEWHERE = Failed(reason="elsewhere", at_once=True)


def attempts(*answers: Failed | str) -> Callable[[], Awaitable[Failed | str]]:
    """Attempts that end like this, the last one for ever."""
    waiting = list(answers)

    async def attempt() -> Failed | str:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return attempt


@pytest.mark.parametrize(
    ("answers", "last", "in_doubt", "took_ms"),
    [
        pytest.param(["done"], "done", False, 0, id="answered"),
        pytest.param([LATER, LATER, "done"], "done", False, 30, id="the pause doubles"),
        pytest.param([ELSEWHERE, "done"], "done", False, 0, id="who knows whom to ask does not wait"),
        pytest.param([LOST, "done"], "done", True, 10, id="an attempt before it may be done"),
        pytest.param([LATER, REFUSED], "refused", False, 10, id="refused"),
        pytest.param([LOST, REFUSED], "refused", True, 10, id="refused, and in doubt"),
        pytest.param([LATER], "no answer within 100 ms; last: later", False, 100, id="late"),
        pytest.param([LOST], "no answer within 100 ms; last: lost", True, 100, id="late, and in doubt"),
    ],
)
async def test_attempts_end_with_an_answer_a_refusal_or_the_time(
    answers: list[Failed | str], last: str, in_doubt: bool, took_ms: int
) -> None:
    """What passes is tried again, and it is told whether an attempt before the last may have been carried out."""
    clock = VirtualClock()
    answer, doubt = await repeated(attempts(*answers), Deadline(clock, 100), Backoff(10, 40), late="no answer")
    assert (answer.reason if isinstance(answer, Failed) else answer) == last
    assert (doubt, clock.now_ms()) == (in_doubt, took_ms)


@pytest.mark.parametrize(
    ("answers", "most_ms"), [([NOBODY], REFUSED_MS_MAX + 100), ([LATER, NOBODY], 9_100)], ids=["never", "once"]
)
async def test_whom_everybody_refuses_from_the_beginning_does_not_wait_for_long(
    answers: list[Failed | str], most_ms: int
) -> None:
    """Only whoever has met nobody at all gives up before the time is up."""
    clock = VirtualClock()
    await repeated(attempts(*answers), Deadline(clock, 9_000), Backoff(10, 40), late="no answer")
    assert most_ms - 100 <= clock.now_ms() <= most_ms


def test_errors_that_pass() -> None:
    """Whoever has to look again has not been refused for good, and no mistake of the caller's passes by itself."""
    assert NEEDS_NEW_VIEW < RETRIABLE
    assert ErrorCode.NONE not in RETRIABLE
    assert not RETRIABLE & {error for error in DEFINITELY_NOT_WRITTEN if error.name.startswith(("INVALID", "CORRUPT"))}


async def test_a_client_of_another_cluster_is_told_at_once() -> None:
    """A reader is not left waiting for brokers that are, and stay, of another cluster."""
    clock = VirtualClock()
    other = DescribeClusterResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID)
    connections = ScriptedConnections(lambda _, __: other)
    config = ViewConfig(cluster_id="c")
    calls = LeaderCalls(ClusterView(BOOTSTRAP, config, connections=connections, clock=clock))
    question = calls.offsets_question(ORDERS, latest=True)
    with pytest.raises(ReadFailedError, match="is not of cluster c"):
        await calls.ask(ORDERS, question, ListOffsetsResponse, Deadline(clock, 1000))
    async with Consumer(BOOTSTRAP, view_config=config, connections=connections, clock=clock) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 0)
        with pytest.raises(ReadFailedError, match="is not of cluster c"):
            await consumer.poll(timeout_ms=1000)
    assert len(connections.asked(DescribeClusterRequest)) == 2
    assert clock.now_ms() < 100
