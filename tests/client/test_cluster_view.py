"""What a client knows of the cluster: where it learns it, what it believes, and what it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from replica.client.asking import REFUSED_MS_MAX, Failed
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.connections import Endpoint, bootstrap_endpoints
from replica.client.failures import ClusterUnreachableError, NotAuthorizedError, UnknownTopicError
from replica.client.leader_calls import LeaderCalls
from replica.core import messages as m
from replica.core.metadata.pages import Cursor
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId, TopicId, TopicPartition
from replica.rpc.addresses import InvalidAddressError
from replica.rpc.transport import (
    DeniedError,
    MalformedRequestError,
    NotAppliedError,
    RefusedError,
    TransportError,
)
from tests.client.views import BOOTSTRAP, ONE, ORDERS, THREE, TWO, broker, described, leads, led_by
from tests.client.virtual import Answer, Script, ScriptedConnections, VirtualClock

DEAD = NotAppliedError("refuses connections")
CONFIG = ViewConfig(api_timeout_ms=1000, request_timeout_ms=100, retry_backoff_ms=10, retry_backoff_max_ms=40)


def view_of(script: Script, config: ViewConfig = CONFIG) -> tuple[ClusterView, ScriptedConnections]:
    connections = ScriptedConnections(script)
    return ClusterView(BOOTSTRAP, config, connections=connections, clock=VirtualClock()), connections


def by_address(**answers: Answer) -> Script:
    """Answer by the host's name; whoever is not named is dead."""
    return lambda endpoint, _: answers.get(endpoint.address.partition(":")[0], DEAD)


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("a:1", ["a:1"]),
        ("a:1, b:2", ["a:1", "b:2"]),
        (["a:1", "b:2,c:3", "a:1"], ["a:1", "b:2", "c:3"]),
        (["1=a:1", "2=b:2"], ["a:1", "b:2"]),
    ],
)
def test_bootstrap_addresses_are_read(given: str | list[str], addresses: list[str]) -> None:
    """One string or several, with commas or with ids: each address is dialled once, under a number below 0."""
    endpoints = bootstrap_endpoints(given)
    assert [endpoint.address for endpoint in endpoints] == addresses
    assert all(endpoint.broker_id < 0 for endpoint in endpoints)
    assert str(endpoints[0]) == addresses[0]


@pytest.mark.parametrize("given", ["", [], "a", "a:1,b"])
def test_what_is_no_address_is_refused(given: str | list[str]) -> None:
    """No address at all, or one without a port, is named."""
    with pytest.raises(InvalidAddressError):
        bootstrap_endpoints(given)


async def test_the_view_is_learned_from_whom_answers() -> None:
    """A dead bootstrap address is passed over; the brokers that are learned are dialled where they say."""
    view, connections = view_of(by_address(b2=described({0: led_by(3, 5)})))
    topic = await view.wait_topic("orders", view.deadline())
    assert topic.name == "orders"
    assert view.leader(ORDERS) == leads(3, 5)
    assert view.endpoint_of(THREE) == Endpoint(THREE, "b3:3")
    assert view.endpoint_of(ReplicaId(9)) is None
    assert connections.asked(m.DescribeClusterRequest) == [-1, -2]


async def test_who_answered_is_asked_again() -> None:
    """Refreshes go to the first broker that is up, and only what was asked for is asked for."""
    view, connections = view_of(lambda _, __: described({0: led_by(3, 5)}))
    await view.wait_topic("orders", view.deadline())
    for _ in range(2):
        await view.refresh(view.deadline())
    assert connections.asked(m.DescribeClusterRequest) == [-1, 1, 1]
    asked = [request.topics for _, request in connections.calls if isinstance(request, m.DescribeClusterRequest)]
    assert asked == [("orders",)] * 3


async def test_a_name_that_no_topic_can_have_spoils_no_question() -> None:
    """It does not exist, without anybody being asked; and the other topics are still asked for."""
    view, connections = view_of(lambda _, __: described({0: led_by(3, 5)}))
    too_long = "x" * 250
    with pytest.raises(UnknownTopicError):
        await view.wait_topic(too_long, view.deadline())
    view.want([too_long, "orders"])
    await view.refresh(view.deadline())
    asked = [request.topics for _, request in connections.calls if isinstance(request, m.DescribeClusterRequest)]
    assert asked == [("orders",)]


async def test_a_question_that_is_out_of_bounds_is_not_repeated() -> None:
    """Every broker would refuse it: the sentence that names the field reaches the caller at once."""
    view, connections = view_of(lambda _, __: MalformedRequestError("topics has 10001 entries"))
    with pytest.raises(ClusterUnreachableError, match="topics has 10001 entries"):
        await view.describe(None, view.deadline())
    assert len(connections.calls) == 1


async def test_who_is_not_believed_asks_nobody_else() -> None:
    """A token that has expired, or the wrong certificate, is the same everywhere."""
    view, connections = view_of(lambda _, __: DeniedError("the token has expired"))
    with pytest.raises(ClusterUnreachableError, match="the token has expired") as refused:
        await view.describe(None, view.deadline())
    assert refused.value.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(connections.asked(m.DescribeClusterRequest)) == 1


async def test_a_topic_that_one_may_not_know_of_is_not_waited_for() -> None:
    """It is told at once, by name; another topic of the same question is learned, and rights that come count."""
    answers = [replace(described({0: led_by(3, 5)}), unauthorized_topics=("secret",)), described({0: led_by(3, 5)})]
    view, connections = view_of(lambda _, __: answers[0])
    await view.wait_topic("orders", view.deadline())
    with pytest.raises(NotAuthorizedError, match="secret: TOPIC_AUTHORIZATION_FAILED"):
        await view.wait_topic("secret", view.deadline())
    assert len(connections.asked(m.DescribeClusterRequest)) == 2
    assert view.is_unauthorized("secret")
    leaders = LeaderCalls(view)
    found = await leaders.find(TopicPartition("secret", 0), view.deadline())
    assert isinstance(found, Failed)
    assert (found.error, found.is_final) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True)
    del answers[0]
    with pytest.raises(UnknownTopicError):
        await view.wait_topic("secret", view.deadline())
    assert not view.is_unauthorized("secret")


async def test_a_description_in_pages_is_put_together() -> None:
    """One broker is asked for page after page; a topic is whole again, and as new as the oldest page."""

    def page(request: m.DescribeClusterRequest) -> m.DescribeClusterResponse:
        number = 0 if request.cursor is None else request.cursor.partition
        following = Cursor(topic_id=TopicId(7), partition=number + 1) if number < 2 else None
        return replace(described({number: led_by(3, 5)}, offset=10 + number), next_cursor=following)

    def answer(_: Endpoint, request: m.Request) -> Answer:
        assert isinstance(request, m.DescribeClusterRequest)
        return page(request)

    view, connections = view_of(answer)
    whole = await view.describe(None, view.deadline())
    (topic,) = whole.topics
    assert (list(topic.partitions), whole.metadata_offset, whole.next_cursor) == ([0, 1, 2], 10, None)
    assert connections.asked(m.DescribeClusterRequest) == [-1, -1, -1]


async def test_a_page_that_fails_is_no_description() -> None:
    """What is half told may be the half that matters: the next broker is asked from the beginning."""

    def answer(endpoint: Endpoint, request: m.Request) -> Answer:
        assert isinstance(request, m.DescribeClusterRequest)
        if endpoint.address == "b1:1" and request.cursor is None:
            return replace(described({0: led_by(1, 1)}), next_cursor=Cursor(topic_id=TopicId(7), partition=1))
        return DEAD if endpoint.address == "b1:1" else described({0: led_by(3, 5), 1: led_by(3, 5)})

    view, connections = view_of(answer)
    (topic,) = (await view.describe(None, view.deadline())).topics
    assert list(topic.partitions) == [0, 1]
    assert [request.cursor for _, request in connections.calls if isinstance(request, m.DescribeClusterRequest)] == [
        None,
        Cursor(topic_id=TopicId(7), partition=1),
        None,
    ]


async def test_pages_without_end_end_with_the_time() -> None:
    """A broker that always names another page keeps nobody for longer than the call may take."""

    def answer(_: Endpoint, __: m.Request) -> Answer:
        view.clock.pass_ms(100)  # type: ignore[attr-defined]  # it is a virtual one
        return replace(described({0: led_by(3, 5)}), next_cursor=Cursor(topic_id=TopicId(7), partition=0))

    view, _ = view_of(answer)
    with pytest.raises(ClusterUnreachableError, match="not all was told in time"):
        await view.describe(None, view.deadline())


async def test_a_broker_that_lags_behind_teaches_nothing() -> None:
    """An answer from before what is known changes neither leaders nor addresses."""
    answers = [described({0: led_by(3, 5)}, offset=10), described({0: led_by(2, 4)}, offset=9, brokers=())]
    view, _ = view_of(lambda _, __: answers.pop(0))
    await view.wait_topic("orders", view.deadline())
    await view.refresh(view.deadline())
    assert view.leader(ORDERS) == leads(3, 5)
    assert view.endpoint_of(THREE) is not None


async def test_who_is_behind_what_was_read_is_not_asked_again() -> None:
    """A broker that knows older leaders or an earlier topic than the reader is believed, but asked no more."""
    view, connections = view_of(lambda _, __: described({0: led_by(3, 5)}))
    await view.wait_topic("orders", view.deadline())
    for epoch, topic_id in ((6, None), (None, None), (None, 8), (None, None), (5, 7)):
        view.on_epoch(ORDERS, None if epoch is None else Epoch(epoch))
        view.on_topic("orders", None if topic_id is None else TopicId(topic_id))
        await view.refresh(view.deadline())
    assert connections.asked(m.DescribeClusterRequest) == [-1, 1, 2, 2, 3, 3]
    assert view.leader(ORDERS) == leads(3, 5)


async def test_a_topic_that_is_deleted_is_forgotten() -> None:
    """What a newer answer leaves out does not exist any more."""
    answers = [described({0: led_by(3, 5)}, offset=10), described(offset=11)]
    view, _ = view_of(lambda _, __: answers.pop(0))
    await view.wait_topic("orders", view.deadline())
    await view.refresh(view.deadline())
    assert view.topic("orders") is None
    assert view.leader(ORDERS) is None


async def test_a_broker_that_moves_is_dialled_where_it_is() -> None:
    """A broker that comes back under another address is dialled there; ``dial`` replaces what is advertised."""
    answers = [described(), described(brokers=(broker(1, port=99), broker(2)), offset=11)]
    view, _ = view_of(lambda _, __: answers.pop(0), ViewConfig(dial={TWO: "proxy:5"}))
    await view.refresh(view.deadline())
    await view.refresh(view.deadline())
    assert view.endpoint_of(ONE) == Endpoint(ONE, "b1:99")
    assert view.endpoint_of(TWO) == Endpoint(TWO, "proxy:5")


@pytest.mark.parametrize(
    ("hint", "is_news", "leader"),
    [
        pytest.param(leads(2, 6), True, leads(2, 6), id="newer"),
        pytest.param(leads(2, 5), False, leads(3, 5), id="no newer"),
        pytest.param(leads(2, 4), False, leads(3, 5), id="older"),
        pytest.param(leads(None, 6), False, leads(3, 5), id="nobody"),
        pytest.param(leads(9, 6), False, leads(3, 5), id="unknown broker"),
        pytest.param(None, False, leads(3, 5), id="none"),
    ],
)
async def test_a_newer_leader_is_believed_at_once(
    hint: m.CurrentLeader | None, is_news: bool, leader: m.CurrentLeader
) -> None:
    """What a refusal says of the leader counts if it is newer than what is known and names who can be dialled."""
    view, _ = view_of(lambda _, __: described({0: led_by(3, 5)}))
    await view.wait_topic("orders", view.deadline())
    assert view.on_hint(ORDERS, hint) is is_news
    await view.refresh(view.deadline())
    assert view.leader(ORDERS) == leader


async def test_those_who_ask_at_the_same_time_share_the_answer() -> None:
    """Ten callers that want news at once cost one request."""
    view, connections = view_of(lambda _, __: described())
    await asyncio.gather(*(view.refresh(view.deadline()) for _ in range(10)))
    assert len(connections.calls) == 1


async def test_nobody_there_is_an_error_in_time() -> None:
    """With everybody dead the call ends at its deadline, after pauses, and names the last reason."""
    view, connections = view_of(by_address(b2=TransportError("DEADLINE_EXCEEDED")))
    with pytest.raises(ClusterUnreachableError, match="within 1000 ms; last: "):
        await view.refresh(view.deadline())
    assert 1000 <= view.clock.now_ms() < 1100
    assert len(connections.calls) < 100


async def test_who_meets_nobody_does_not_wait_for_long() -> None:
    """Where every address refuses connections from the beginning, the call ends after five seconds of a minute."""
    view, _ = view_of(by_address(b1=RefusedError("b1:1 refuses"), b2=RefusedError("b2:2 refuses")), ViewConfig())
    with pytest.raises(ClusterUnreachableError, match=r"within \d+ ms; last: b[12]:[12] refuses"):
        await view.refresh(view.deadline())
    assert REFUSED_MS_MAX <= view.clock.now_ms() < REFUSED_MS_MAX + 500


@pytest.mark.parametrize("other", [TransportError("DEADLINE_EXCEEDED"), NotAppliedError("no address")])
async def test_who_may_meet_somebody_goes_on(other: TransportError) -> None:
    """One address that does not refuse may be a broker that is busy: then the whole time is used."""
    view, _ = view_of(by_address(b1=RefusedError("b1:1 refuses"), b2=other), ViewConfig(api_timeout_ms=9000))
    with pytest.raises(ClusterUnreachableError, match="within 9000 ms"):
        await view.refresh(view.deadline())


async def test_a_cluster_that_was_met_is_waited_for() -> None:
    """Whose brokers have all gone may have them back: then the whole time is used."""
    answers: list[Any] = [described(), *[RefusedError("refuses")] * 10_000]
    view, _ = view_of(lambda _, __: answers.pop(0), ViewConfig(api_timeout_ms=9000))
    await view.refresh(view.deadline())
    with pytest.raises(ClusterUnreachableError, match="within 9000 ms"):
        await view.refresh(view.deadline())


async def test_another_cluster_is_named() -> None:
    """Bootstrap addresses of another cluster are an error at once."""
    wrong = m.DescribeClusterResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID)
    view, connections = view_of(lambda _, __: wrong, ViewConfig(cluster_id="mine"))
    with pytest.raises(ClusterUnreachableError, match="b1:1 is not of cluster mine"):
        await view.refresh(view.deadline())
    assert len(connections.calls) == 1


async def test_a_topic_is_waited_for() -> None:
    """A topic that is created a little later is found; one that is not is an error at the deadline."""

    def script(_: Endpoint, __: m.Request) -> Answer:
        ready = view.clock.now_ms() > 200
        return described({0: led_by(3, 5)}, offset=11) if ready else described()

    view, _ = view_of(script)
    with pytest.raises(UnknownTopicError, match="orders does not exist"):
        await view.wait_topic("orders", view.deadline(100))
    assert (await view.wait_topic("orders", view.deadline())).name == "orders"


async def test_a_client_waits_as_long_as_a_broker_tells_it_to() -> None:
    """After an answer that says that the quota is used up the broker is asked nothing more until that time is over.

    What would come too late is not sent, and certainly not done; other brokers are asked at once.
    """
    answers = iter(
        [m.ProduceResponse(error=ErrorCode.NONE, throttle_time_ms=500), *[m.ProduceResponse(error=ErrorCode.NONE)] * 3]
    )
    view, connections = view_of(
        lambda _, request: next(answers) if isinstance(request, m.ProduceRequest) else described({0: led_by(1, 5)})
    )
    await view.wait_topic("orders", view.deadline())
    write = m.ProduceRequest(topic_partition=ORDERS, acks=-1, timeout_ms=1, records=b"x")
    begun_ms = view.clock.now_ms()
    for broker_id in (ONE, TWO):
        await view.call(broker_id, write, 1000)
    with pytest.raises(NotAppliedError, match=r"serves this client again in \d+ ms: its quota is used up"):
        await view.call(ONE, write, 100)
    assert view.clock.now_ms() - begun_ms < 100
    await view.call(ONE, write, 1000)
    assert view.clock.now_ms() - begun_ms >= 500
    assert connections.asked(m.ProduceRequest) == [1, 2, 1]
