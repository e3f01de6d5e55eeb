"""What a producer sends to whom, and what it never sends, over scripted brokers."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from typing import Any

import pytest

from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.failures import NotWrittenError, OutcomeUnknownError, WriteError
from replica.client.producer import Producer
from replica.client.producer_config import ProducerConfig
from replica.client.values import RecordMetadata
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset
from tests.client.views import BOOTSTRAP, described, leads, led_by
from tests.client.virtual import Answer, Script, ScriptedConnections, VirtualClock

CONFIG = ProducerConfig(
    enable_idempotence=False,
    linger_ms=0,
    request_timeout_ms=900,
    delivery_timeout_ms=1000,
    retry_backoff_ms=10,
    max_block_ms=500,
)
WRITTEN = m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(4), leader_epoch=Epoch(5))


def wrong_broker(leader_id: int | None = None, epoch: int = 6) -> m.ProduceResponse:
    hint = None if leader_id is None else leads(leader_id, epoch)
    return m.ProduceResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True, current_leader=hint)


class SlowToDescribe(ScriptedConnections):
    """Brokers that describe the cluster at once the first time, and after ``delay_ms`` from then on."""

    def __init__(self, script: Script, clock: VirtualClock, delay_ms: int) -> None:
        super().__init__(script)
        self._clock = clock
        self._delay_ms = delay_ms

    async def call(self, endpoint: Endpoint, request: m.Request, timeout_ms: int) -> m.Response:
        """Answer in time, or late."""
        if isinstance(request, m.DescribeClusterRequest) and self.asked(m.DescribeClusterRequest):
            await self._clock.sleep(self._delay_ms)
        return await super().call(endpoint, request, timeout_ms)


def producer_of(
    *answers: Answer, config: ProducerConfig = CONFIG, delay_ms: int = 0, clock: VirtualClock | None = None
) -> tuple[Producer, ScriptedConnections, VirtualClock]:
    """A producer whose batches get these answers in turn; broker 1 leads by the metadata."""
    waiting = list(answers)

    def script(_: Endpoint, request: m.Request) -> Answer:
        match request:
            case m.DescribeClusterRequest():
                return described({0: led_by(1, 5)}, controller=leads(2, 3))
            case m.InitProducerIdRequest():
                return m.InitProducerIdResponse(error=ErrorCode.NONE, producer_id=7, producer_epoch=0)
            case _:
                return waiting.pop(0)

    clock = clock or VirtualClock()
    connections = SlowToDescribe(script, clock, delay_ms)
    view_config = ViewConfig(retry_backoff_ms=10, cluster_id="c")
    producer = Producer(BOOTSTRAP, config, view_config=view_config, connections=connections, clock=clock)
    return producer, connections, clock


async def test_a_hint_is_followed_without_asking_again() -> None:
    """A refusal that names a newer leader leads there; nobody has to describe the cluster again."""
    producer, connections, _ = producer_of(wrong_broker(3), WRITTEN)
    async with producer:
        written = await producer.send("orders", b"a")
    assert (written.offset, written.leader_epoch) == (4, 5)
    assert connections.asked(m.ProduceRequest) == [1, 3]
    assert len(connections.asked(m.DescribeClusterRequest)) == 1


async def test_without_a_hint_the_view_is_made_new() -> None:
    """A refusal that names nobody has the cluster described before the next attempt."""
    producer, connections, _ = producer_of(wrong_broker(), WRITTEN)
    async with producer:
        await producer.send("orders", b"a")
    assert len(connections.asked(m.DescribeClusterRequest)) == 2


async def test_what_was_given_up_is_never_sent() -> None:
    """A batch whose time is up while the leader is being looked up is not written, and not sent when that is known."""
    producer, connections, clock = producer_of(wrong_broker(), WRITTEN, delay_ms=3000)
    async with producer:
        delivery = producer.send("orders", b"a")
        with pytest.raises(NotWrittenError, match="NOT_LEADER_OR_FOLLOWER"):
            await delivery
        await clock.sleep(5000)
        assert len(connections.asked(m.DescribeClusterRequest)) == 2
        assert len(connections.asked(m.ProduceRequest)) == 1


async def test_an_idempotent_producer_asks_for_its_id_first() -> None:
    """The controller gives the id that every batch bears; one is enough for all partitions."""
    config = ProducerConfig(linger_ms=0, retry_backoff_ms=10)
    producer, connections, _ = producer_of(WRITTEN, WRITTEN, config=config)
    async with producer:
        for _ in range(2):
            await producer.send("orders", b"a")
    assert connections.asked(m.InitProducerIdRequest) == [2]
    produced = [request for _, request in connections.calls if isinstance(request, m.ProduceRequest)]
    assert {request.cluster_id for request in produced} == {"c"}
    assert connections.is_closed


async def test_sending_in_a_loop_does_not_starve_the_sender() -> None:
    """Full batches are on their way while more records are handed over without a pause."""
    config = ProducerConfig(enable_idempotence=False, batch_size=200, linger_ms=0)
    producer, connections, _ = producer_of(*[WRITTEN] * 50, config=config)
    async with producer:
        for _ in range(50):
            await producer.ready()
            producer.send("orders", bytes(100))
        assert len(connections.asked(m.ProduceRequest)) > 10


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"value": "text"}, TypeError),
        ({"value": bytearray(b"a")}, TypeError),
        ({"value": b"a", "key": "k"}, TypeError),
        ({"value": b"a", "key": 7}, TypeError),
        ({"value": b"a", "headers": {"h": b"v"}}, TypeError),
        ({"value": b"a", "headers": [("h", "v")]}, TypeError),
        ({"value": b"a", "headers": [(b"h", b"v")]}, TypeError),
        ({"value": b"a", "headers": [("h", b"v", b"w")]}, TypeError),
        ({"value": b"a", "headers": [("\ud800", b"v")]}, ValueError),
        ({"value": b"a", "headers": 7}, TypeError),
        ({"value": b"a", "timestamp_ms": "now"}, TypeError),
        ({"value": b"a", "timestamp_ms": 1.5}, TypeError),
        ({"value": b"a", "partition": 0.0}, TypeError),
        ({"value": b"a", "partition": False}, TypeError),
        ({"value": b"a", "topic": 7}, TypeError),
        ({"value": b"a", "timestamp_ms": -1}, ValueError),
        ({"value": b"a", "timestamp_ms": 1 << 63}, ValueError),
    ],
)
async def test_what_is_no_record_is_refused_at_once(given: dict[str, Any], error: type[Exception]) -> None:
    """What cannot be encoded is raised by ``send`` itself, and the producer goes on with other records."""
    producer, _, _ = producer_of(WRITTEN)
    async with producer:
        first = producer.send("orders", b"a", timestamp_ms=1)
        with pytest.raises(error):
            producer.send(**{"topic": "orders", **given})
        assert (await first).offset == 4


class BrokenClock(VirtualClock):
    """A clock that raises on a wait for anything, once it is broken."""

    is_broken = False

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> bool:
        """Wait as long as this works."""
        if self.is_broken:
            raise OSError("the clock is broken")
        return await super().wait(event, timeout_ms)


@pytest.mark.parametrize("breaks", ["loop", "attempt"])
async def test_a_producer_that_has_failed_leaves_nobody_waiting(breaks: str) -> None:
    """A mistake in a task of the producer ends every record that waits as unknown, and refuses all that come later."""
    clock = BrokenClock()
    answers = [WRITTEN] if breaks == "loop" else []  # The script breaks where it has no more.
    producer, _, _ = producer_of(*answers, clock=clock)
    outcomes: list[RecordMetadata | WriteError] = []
    with pytest.raises(OSError if breaks == "loop" else IndexError):
        async with producer:
            clock.is_broken = breaks == "loop"
            delivery = producer.send("orders", b"a", on_delivery=outcomes.append)
            with pytest.raises(OutcomeUnknownError, match="the producer has failed"):
                await asyncio.wait_for(delivery, 10)
            with pytest.raises(NotWrittenError, match="the producer has failed"):
                producer.send("orders", b"b")
    await asyncio.sleep(0)  # Who awaits an outcome may go on before the event loop calls who is told.
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknownError]


async def test_a_record_that_waits_for_its_topic_is_not_left_behind_by_a_failure() -> None:
    """A producer that has failed meanwhile takes no record any more, and says that it is not written."""
    producer, connections, clock = producer_of()
    known = connections.script

    def script(endpoint: Endpoint, request: m.Request) -> Answer:
        answer = known(endpoint, request)
        if isinstance(answer, m.DescribeClusterResponse) and clock.now_ms() > 100:
            others = tuple(replace(topic, name="other") for topic in answer.topics)
            return replace(answer, topics=(*answer.topics, *others), metadata_offset=Offset(11))
        return answer

    connections.script = script
    with pytest.raises(IndexError):  # The script has no answer to what is produced.
        async with producer:
            waiting, failing = producer.send("other", b"a"), producer.send("orders", b"b")
            with pytest.raises(OutcomeUnknownError):
                await failing
            with pytest.raises(NotWrittenError, match="the producer has failed"):
                await asyncio.wait_for(waiting, 10)


@pytest.mark.parametrize("answer", [WRITTEN, m.ProduceResponse(error=ErrorCode.INVALID_RECORD, message="the reason")])
async def test_who_ceases_to_wait_takes_nothing_back(answer: m.ProduceResponse) -> None:
    """Who gave up waiting for a record, as a timeout does, is told by ``on_delivery`` all the same."""
    producer, connections, _ = producer_of(answer)
    outcomes: list[RecordMetadata | WriteError] = []
    async with producer:
        delivery = producer.send("orders", b"a", on_delivery=outcomes.append)
        waiting = asyncio.ensure_future(delivery)
        await asyncio.sleep(0)
        waiting.cancel()
        await producer.flush()
        assert delivery.done()
        assert connections.asked(m.ProduceRequest) == [1]
    (outcome,) = outcomes
    if answer is WRITTEN:
        assert isinstance(outcome, RecordMetadata)
        assert outcome.offset == 4
    else:
        assert isinstance(outcome, NotWrittenError)
        assert "INVALID_RECORD: the reason" in str(outcome)


async def test_an_outcome_that_was_delivered_is_no_loose_end() -> None:
    """Who is told by ``on_delivery`` need not await it as well: asyncio complains of nothing."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    producer, _, _ = producer_of(m.ProduceResponse(error=ErrorCode.INVALID_RECORD, not_appended=True))
    outcomes: list[RecordMetadata | WriteError] = []
    async with producer:
        producer.send("orders", b"a", on_delivery=outcomes.append)
        await producer.flush()
    gc.collect()
    assert (len(outcomes), complaints) == (1, [])


async def test_a_failure_that_nobody_looks_at_is_told() -> None:
    """What was not written, and nobody has asked about, is told once a batch by asyncio's handler of loose ends."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    producer, _, _ = producer_of(WRITTEN, m.ProduceResponse(error=ErrorCode.INVALID_RECORD, not_appended=True))
    async with producer:
        await producer.send("orders", b"a")
        for _ in range(3):
            producer.send("orders", b"a")
        await producer.flush()
    gc.collect()
    (complaint,) = complaints
    assert complaint["message"].startswith("3 records for orders-0 are not acknowledged")
    assert isinstance(complaint["exception"], NotWrittenError)


async def test_a_record_that_nobody_waits_for_is_written_before_the_close() -> None:
    """A producer is not closed over records that nobody waits for any more."""
    producer, connections, _ = producer_of(wrong_broker(3), WRITTEN)
    async with producer:
        producer.send("orders", b"a")
    assert connections.asked(m.ProduceRequest) == [1, 3]
