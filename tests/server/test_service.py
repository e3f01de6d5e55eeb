"""The service over a real gRPC server: what is refused at the door, and what a caller learns of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import grpc
import grpc.aio
import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import capture_logs

from replica.bounds import MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX
from replica.core import messages as m
from replica.core.effects import Append, Effect, Reply
from replica.core.events import Event, RequestReceived
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, Epoch, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch
from replica.rpc.codec import PRODUCE, method_of
from replica.rpc.transport import GrpcTransport, MalformedRequestError, NotAppliedError, TransportError
from replica.server.driver import Driver, ReplicaStoppedError
from replica.server.service import ReplicaService, ServiceLimits, is_from_replica
from tests.server.driver_fakes import (
    LOG,
    FakeStorage,
    FakeTransport,
    FakeWatch,
    NotingObserver,
    ScriptedCore,
    knowing_nobody,
)
from tests.server.served import called

ONE = ReplicaId(1)
LIST = m.ListOffsetsRequest(topic_partition=LOG, latest=True)
LATE = m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(0))
PRODUCE_REQUEST = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=100, records=b"x")


def serving(
    call: Callable[[m.Request], Awaitable[m.Response]], client_calls_max: int = 10, producer_ids_per_hour: int = 10
) -> AbstractAsyncContextManager[tuple[GrpcTransport, str]]:
    """Serve ``call`` on loopback."""
    limits = ServiceLimits(client_calls_max=client_calls_max, producer_ids_per_hour=producer_ids_per_hour)
    return called(
        ReplicaService(call=call, addresses={ONE: "127.0.0.1:1"}, logger=structlog.get_logger(), limits=limits)
    )


def produce_bytes(channel: grpc.aio.Channel) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return the Produce call without its codec."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PRODUCE.full_name)
    return call


async def answer_ok(request: m.Request) -> m.Response:
    """Answer every kind of request that these tests send."""
    if isinstance(request, m.DescribeReplicaRequest):
        return m.DescribeReplicaResponse(error=ErrorCode.NONE, replica_id=ONE)
    if isinstance(request, m.FetchRequest):
        return m.FetchResponse(error=ErrorCode.NONE)
    return m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(3))


async def test_a_request_goes_in_and_its_answer_comes_back() -> None:
    """A request reaches the core as the value that was sent, and its response returns as a value."""
    seen: list[m.Request] = []

    async def call(request: m.Request) -> m.Response:
        seen.append(request)
        return await answer_ok(request)

    async with serving(call) as (transport, _):
        assert await transport.call(ONE, LIST, 5000) == m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(3))
        assert seen == [LIST]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        pytest.param(
            m.DeleteRecordsRequest(topic_partition=LOG, offset=Offset(3), timeout_ms=1000),
            m.DeleteRecordsResponse(error=ErrorCode.NONE, low_watermark=Offset(3)),
            id="replica_service",
        ),
        pytest.param(
            m.AlterPartitionRequest(
                broker_id=ONE, broker_epoch=BrokerEpoch(7), incarnation_id="i", cluster_id="c", partitions=()
            ),
            m.AlterPartitionResponse(error=ErrorCode.STALE_BROKER_EPOCH),
            id="controller_service",
        ),
        pytest.param(
            m.CreateTopicRequest(name="t", assignment=((ONE,), (ONE, ReplicaId(2)))),
            m.CreateTopicResponse(error=ErrorCode.NOT_CONTROLLER, message="ask replica 2"),
            id="admin_service",
        ),
    ],
)
async def test_every_service_leads_to_the_core(request_: m.Request, answer: m.Response) -> None:
    """Brokers' and administrators' requests go the same way as those about a log."""
    seen: list[m.Request] = []

    async def call(request: m.Request) -> m.Response:
        seen.append(request)
        return answer

    async with serving(call) as (transport, _):
        assert await transport.call(ONE, request_, 5000) == answer
        assert seen == [request_]


async def test_a_replica_says_which_addresses_it_dials() -> None:
    """DescribeReplica carries the address table, which the core does not know."""
    async with serving(answer_ok) as (transport, _):
        response = await transport.call(ONE, m.DescribeReplicaRequest(topic_partition=LOG), 5000)
        assert isinstance(response, m.DescribeReplicaResponse)
        assert response.addresses == {ONE: "127.0.0.1:1"}


@pytest.mark.parametrize("rack_bytes", [250, 3 << 20, 6 << 20, 11 << 20])
async def test_a_registration_that_is_too_large_is_refused_at_the_door(rack_bytes: int) -> None:
    """No field may be larger than it is honest to be: 11 MiB of rack used to halt the controller, and 6 depose it."""

    async def call(request: m.Request) -> m.Response:
        raise AssertionError("what is out of bounds must not get here")

    request = m.BrokerRegistrationRequest(
        broker_id=ReplicaId(9),
        cluster_id="c",
        incarnation_id="i",
        directory_id="d",
        flushes=True,
        metadata_end_offset=Offset(0),
        address="h:1",
        rack="\x01" * rack_bytes,
    )
    async with serving(call) as (transport, _):
        complaint = r"BrokerRegistrationRequest(: rack)? has \d+ bytes; it may have at most \d+"
        if rack_bytes > REQUEST_BYTES_MAX:  # gRPC does not even collect it: that is certainly not applied either.
            complaint = r"Received message larger than max \(\d+ vs\. \d+\)"
        with pytest.raises(MalformedRequestError, match=complaint):
            await transport.call(ONE, request, 5000)


async def test_a_malformed_message_is_refused_before_the_core_sees_it() -> None:
    """Bytes that are no Produce earn INVALID_ARGUMENT, marked as not applied, and a log line."""

    async def call(request: m.Request) -> m.Response:
        raise AssertionError("a malformed message must not get here")

    with capture_logs() as lines:
        async with serving(call) as (_, address), grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await produce_bytes(channel)(b"\xff\xff garbage", timeout=5)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "malformed Produce" in (refused.value.details() or "")
    assert ("highwater-not-applied", "1") in tuple(refused.value.trailing_metadata())
    assert [line["event"] for line in lines] == ["request_refused"]


async def test_a_message_above_the_limit_is_refused_and_the_server_lives() -> None:
    """A message larger than gRPC may take ends in RESOURCE_EXHAUSTED; the next call is served."""
    async with serving(answer_ok) as (transport, address):
        unlimited = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(address, options=unlimited) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await produce_bytes(channel)(bytes(MESSAGE_BYTES_MAX + 1), timeout=10)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await transport.call(ONE, LIST, 5000) == m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(3))


async def test_bad_input_that_the_core_refuses_gets_a_log_line() -> None:
    """An answer that blames the asker is logged with the RPC and the error."""

    async def call(request: m.Request) -> m.Response:
        return m.ProduceResponse(error=ErrorCode.CORRUPT_MESSAGE, not_appended=True)

    with capture_logs() as lines:
        async with serving(call) as (transport, _):
            await transport.call(ONE, PRODUCE_REQUEST, 5000)
    assert [(line["event"], line["rpc"], line["error"]) for line in lines] == [
        ("request_refused", "Produce", "CORRUPT_MESSAGE")
    ]


async def test_a_client_call_too_many_is_refused_as_not_applied_and_replicas_pass() -> None:
    """Beyond the limit a client's call definitely does nothing, while a replica's fetch is still served."""
    inside, may_end = asyncio.Event(), asyncio.Event()

    async def call(request: m.Request) -> m.Response:
        if not is_from_replica(request):
            inside.set()
            await may_end.wait()
        return await answer_ok(request)

    async with serving(call, client_calls_max=1) as (transport, _):
        first = asyncio.ensure_future(transport.call(ONE, LIST, 10_000))
        await asyncio.wait_for(inside.wait(), 10)
        with pytest.raises(NotAppliedError, match="RESOURCE_EXHAUSTED"):
            await transport.call(ONE, LIST, 5000)
        fetch = m.FetchRequest(partitions=(), replica_id=ReplicaId(2))
        assert await transport.call(ONE, fetch, 5000) == m.FetchResponse(error=ErrorCode.NONE)
        may_end.set()
        await first
        assert await transport.call(ONE, LIST, 5000) == await answer_ok(LIST)


async def test_one_address_may_be_so_many_producers() -> None:
    """Of one producer more neither a write nor its wish for an id gets in; nothing is done, and both may try again."""
    asked: list[m.Request] = []

    async def call(request: m.Request) -> m.Response:
        asked.append(request)
        return LATE if isinstance(request, m.ProduceRequest) else given

    given = m.InitProducerIdResponse(error=ErrorCode.NONE, producer_id=77, producer_epoch=0)
    writes = [
        replace(
            PRODUCE_REQUEST, records=encode_batch([b"v"], producer_id=number, producer_epoch=0, base_sequence=0).data
        )
        for number in range(2)
    ]
    async with serving(call, producer_ids_per_hour=2) as (transport, _):
        assert await transport.call(ONE, writes[0], 5000) == LATE
        assert await transport.call(ONE, m.InitProducerIdRequest(), 5000) == given
        refused = await transport.call(ONE, writes[1], 5000)
        assert isinstance(refused, m.ProduceResponse)
        assert (refused.error, refused.not_appended) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
        assert "2 producers of this address" in refused.message
        refused = await transport.call(ONE, m.InitProducerIdRequest(), 5000)
        assert refused == m.InitProducerIdResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        assert await transport.call(ONE, writes[0], 5000) == LATE
    assert asked == [writes[0], m.InitProducerIdRequest(), writes[0]]


@pytest.mark.parametrize(("not_applied", "expected"), [(True, NotAppliedError), (False, TransportError)])
async def test_a_stopped_replica_says_whether_the_request_got_in(
    not_applied: bool, expected: type[TransportError]
) -> None:
    """A replica that has stopped answers UNAVAILABLE, as not applied only if the core never saw the request."""

    async def call(request: m.Request) -> m.Response:
        raise ReplicaStoppedError("stopping", not_applied=not_applied)

    async with serving(call) as (transport, _):
        with pytest.raises(TransportError) as failed:
            await transport.call(ONE, PRODUCE_REQUEST, 5000)
    assert type(failed.value) is expected


def writes_of(*partitions: int) -> tuple[m.ProduceRequest, ...]:
    """One write for each of these partitions."""
    return tuple(replace(PRODUCE_REQUEST, topic_partition=TopicPartition("t", number)) for number in partitions)


async def test_writes_that_travel_together_are_taken_one_by_one() -> None:
    """Each is a request of its own to the core, in order, and each has its answer, whichever comes first."""
    asked: list[int] = []

    async def call(request: m.Request) -> m.Response:
        assert isinstance(request, m.ProduceRequest)
        partition = request.topic_partition.partition
        asked.append(partition)
        await asyncio.sleep(0.01 * (3 - partition))
        if partition == 1:
            return m.ProduceResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True)
        return m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(partition))

    async with serving(call) as (transport, _):
        answers = await asyncio.gather(*(transport.call(ONE, write, 5000) for write in writes_of(0, 1, 2)))
    assert asked == [0, 1, 2]
    assert [(answer.error, answer.base_offset) for answer in answers if isinstance(answer, m.ProduceResponse)] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
        (ErrorCode.NONE, 2),
    ]


async def test_each_of_several_writes_counts_as_a_call() -> None:
    """Whoever sends many at once has no more of them inside than whoever sends them one by one."""
    inside, may_end = asyncio.Event(), asyncio.Event()

    async def call(request: m.Request) -> m.Response:
        inside.set()
        await may_end.wait()
        return LATE

    async with serving(call, client_calls_max=3) as (transport, _):
        first = [asyncio.ensure_future(transport.call(ONE, write, 10_000)) for write in writes_of(0, 1, 2)]
        await asyncio.wait_for(inside.wait(), 10)
        with pytest.raises(NotAppliedError, match="3 calls are being served"):
            await transport.call(ONE, PRODUCE_REQUEST, 5000)
        may_end.set()
        assert await asyncio.gather(*first) == [LATE] * 3


@pytest.mark.parametrize(("applied", "expected"), [((False, False), NotAppliedError), ((False, True), TransportError)])
async def test_several_writes_are_not_applied_if_none_was(
    applied: tuple[bool, bool], expected: type[TransportError]
) -> None:
    """A replica that stops between two writes says of both that they may have been."""

    async def call(request: m.Request) -> m.Response:
        assert isinstance(request, m.ProduceRequest)
        raise ReplicaStoppedError("stopping", not_applied=not applied[request.topic_partition.partition])

    async with serving(call) as (transport, _):
        calls = (transport.call(ONE, write, 5000) for write in writes_of(0, 1))
        failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(failure) for failure in failures] == [expected, expected]


async def test_a_client_that_gives_up_does_not_hurt_its_append() -> None:
    """A deadline that ends while the core holds the request leaves the append whole and the replica serving."""
    storage = FakeStorage()
    log = storage.logs[LOG]

    def script(event: Event) -> tuple[Effect, ...]:
        match event:
            case RequestReceived(request=m.ProduceRequest()):
                return (Append(topic_partition=LOG, batches=(encode_batch([b"v"]),)),)
            case RequestReceived(call_id=call_id):
                answer = m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(1))
                return (Reply(call_id=CallId(0), response=LATE), Reply(call_id=call_id, response=answer))
            case _:
                return ()

    core = ScriptedCore(script)
    driver = Driver(
        core=core,
        storage=storage,
        transport=FakeTransport(),
        observer=NotingObserver(),
        watch=FakeWatch(),
        leaders=knowing_nobody(),
    )
    driver.start()
    async with serving(driver.call) as (transport, _):
        with pytest.raises(TransportError, match="has not answered within 200 ms") as failed:
            await transport.call(ONE, PRODUCE_REQUEST, 200)
        assert not isinstance(failed.value, NotAppliedError)
        assert await transport.call(ONE, LIST, 5000) == m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(1))
        assert log.journal == ["append 1"]
    await driver.stop()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (m.VoteRequest(topic_partition=LOG, candidate_id=ONE, candidate_epoch=Epoch(1), last_offset_epoch=0,
                     last_offset=0, pre_vote=True), True),
        (m.FetchRequest(partitions=(), replica_id=ONE), True),
        (m.FetchRequest(partitions=()), False),
        (m.BrokerHeartbeatRequest(broker_id=ONE, broker_epoch=BrokerEpoch(7), incarnation_id="i", cluster_id="c",
                                metadata_offset=Offset(9)), True),
        (m.InitProducerIdRequest(), False),
        (m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(0)), False),
        (LIST, False),
        (m.ProduceRequests(requests=(PRODUCE_REQUEST,)), False),
    ],
)  # fmt: skip
def test_replicas_are_told_from_clients(request_: m.Request | m.ProduceRequests, expected: bool) -> None:
    """A request counts as a replica's by its kind, or by the replica id that it carries."""
    assert is_from_replica(request_) is expected
    assert method_of(request_).request_type is type(request_)
