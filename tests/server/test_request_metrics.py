"""Requests are counted by API: how long answers took, what went wrong, and at what cost on their way."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import Any

import grpc
import grpc.aio
import prometheus_client
import pytest
import structlog
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset, ReplicaId, TopicId, TopicPartition
from replica.rpc.codec import PRODUCE
from replica.rpc.transport import GrpcTransport, TransportError
from replica.server.driver import ReplicaStoppedError
from replica.server.request_metrics import FENCING, RequestCounts
from replica.server.service import ReplicaService
from tests.server.driver_fakes import LOG
from tests.server.served import called

ONE = ReplicaId(1)
LIST = m.ListOffsetsRequest(topic_partition=LOG, latest=True)
LISTED = m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(3))
FOLLOWS = m.FetchRequest(partitions=(), replica_id=ReplicaId(2))
WRITE = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=100, records=b"x")


class Clock:
    """A clock that goes on when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def shown(counts: RequestCounts, name: str, **labels: str) -> float | None:
    """What the page says of one metric."""
    registry = CollectorRegistry()
    registry.register(counts)
    return registry.get_sample_value(name, labels)


def serving(
    call: Callable[[m.Request], Awaitable[m.Response]], counts: RequestCounts
) -> AbstractAsyncContextManager[tuple[GrpcTransport, str]]:
    """Serve ``call`` on loopback, and count."""
    return called(ReplicaService(call=call, addresses={}, logger=structlog.get_logger(), counts=counts))


async def test_answers_are_timed_by_api_and_by_who_asks() -> None:
    """What the core takes for an answer is counted for its API, and a follower's fetch is none of a client."""
    clock = Clock()
    counts = RequestCounts(seconds=clock)

    async def call(request: m.Request) -> m.Response:
        clock.now_s += 0.02
        return m.FetchResponse() if isinstance(request, m.FetchRequest) else LISTED

    async with serving(call, counts) as (transport, _):
        for request in (LIST, LIST, FOLLOWS):
            await transport.call(ONE, request, 5000)
    listed = {"api": "ListOffsets", "asker": "client"}
    assert shown(counts, "replica_request_seconds_count", **listed) == 2
    assert shown(counts, "replica_request_seconds_sum", **listed) == pytest.approx(0.04)
    assert shown(counts, "replica_request_seconds_bucket", le="0.01", **listed) == 0
    assert shown(counts, "replica_request_seconds_bucket", le="0.03", **listed) == 2
    assert shown(counts, "replica_request_seconds_count", api="Fetch", asker="replica") == 1
    assert shown(counts, "replica_request_seconds_count", api="Fetch", asker="client") is None
    assert shown(counts, "replica_request_errors_total", api="Fetch", error="NONE") is None


@pytest.mark.parametrize(
    ("request_", "answer", "api", "errors"),
    [
        pytest.param(
            FOLLOWS,
            m.FetchResponse(
                partitions=tuple(
                    m.FetchedPartition(topic_partition=TopicPartition("t", number), error=error)
                    for number, error in enumerate(
                        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
                    )
                )
            ),
            "Fetch",
            {"FENCED_LEADER_EPOCH": 2},
            id="each_partition_of_a_fetch",
        ),
        pytest.param(
            m.AlterPartitionRequest(
                broker_id=ONE, broker_epoch=BrokerEpoch(7), incarnation_id="i", cluster_id="c", partitions=()
            ),
            m.AlterPartitionResponse(
                error=ErrorCode.NONE,
                partitions=(m.AlteredPartition(topic_id=TopicId(1), partition=0, error=ErrorCode.FENCED_LEADER_EPOCH),),
            ),
            "AlterPartition",
            {"FENCED_LEADER_EPOCH": 1},
            id="each_proposal",
        ),
        pytest.param(
            WRITE,
            m.ProduceResponse(error=ErrorCode.INVALID_PRODUCER_EPOCH, not_appended=True),
            "Produce",
            {"INVALID_PRODUCER_EPOCH": 1},
            id="a_write",
        ),
        pytest.param(
            LIST,
            m.ListOffsetsResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            "ListOffsets",
            {"UNKNOWN_TOPIC_OR_PARTITION": 1},
            id="no_fencing",
        ),
    ],
)
async def test_errors_are_counted_where_they_are(
    request_: m.Request, answer: m.Response, api: str, errors: dict[str, int]
) -> None:
    """Each error of an answer counts for its API, and once more among those that fence, if it does."""
    counts = RequestCounts()

    async def call(_: m.Request) -> m.Response:
        return answer

    async with serving(call, counts) as (transport, _):
        await transport.call(ONE, request_, 5000)
    for error, count in errors.items():
        assert shown(counts, "replica_request_errors_total", api=api, error=error) == count
    fenced = {error.value: shown(counts, "replica_fenced_requests_total", error=error.value) for error in FENCING}
    assert fenced == {error.value: errors.get(error.value, 0) for error in FENCING}


async def test_writes_that_travel_together_are_one_request_with_an_error_each() -> None:
    """Two writes in one call are timed once, and each of their errors is counted."""
    counts = RequestCounts()

    async def call(_: m.Request) -> m.Response:
        return m.ProduceResponse(error=ErrorCode.NOT_ENOUGH_REPLICAS, not_appended=True)

    writes = [replace(WRITE, topic_partition=TopicPartition("t", number)) for number in range(2)]
    encoded = PRODUCE.request.encode(PRODUCE.request_type(requests=tuple(writes)))
    async with serving(call, counts) as (_, address), grpc.aio.insecure_channel(address) as channel:
        produce: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PRODUCE.full_name)
        await produce(encoded, timeout=5)
    assert shown(counts, "replica_request_seconds_count", api="Produce", asker="client") == 1
    assert shown(counts, "replica_request_errors_total", api="Produce", error="NOT_ENOUGH_REPLICAS") == 2


async def test_what_ends_a_call_instead_of_an_answer_is_counted() -> None:
    """A status at the door, and that of a replica which has stopped, have the names that gRPC gives them."""
    counts = RequestCounts()

    async def call(_: m.Request) -> m.Response:
        raise ReplicaStoppedError("stopping", not_applied=True)

    async with serving(call, counts) as (transport, address), grpc.aio.insecure_channel(address) as channel:
        produce: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PRODUCE.full_name)
        with pytest.raises(grpc.aio.AioRpcError):
            await produce(b"\xff\xff garbage", timeout=5)
        with pytest.raises(TransportError):
            await transport.call(ONE, LIST, 5000)
    assert shown(counts, "replica_request_errors_total", api="Produce", error="INVALID_ARGUMENT") == 1
    assert shown(counts, "replica_request_errors_total", api="ListOffsets", error="UNAVAILABLE") == 1
    assert shown(counts, "replica_request_seconds_count", api="ListOffsets", asker="client") is None


async def test_a_request_calls_nothing_of_prometheus() -> None:
    """On its way there are plain numbers alone: no object of prometheus_client, with its labels and locks, is asked."""
    counts, asked = RequestCounts(), list[str]()

    async def call(_: m.Request) -> m.Response:
        return LISTED

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "prometheus_client" in frame.f_code.co_filename:
            asked.append(frame.f_code.co_qualname)

    async with serving(call, counts) as (transport, _):
        await transport.call(ONE, LIST, 5000)
        sys.setprofile(note)
        try:
            await transport.call(ONE, LIST, 5000)
            on_the_way, asked = asked, []
            prometheus_client.generate_latest(CollectorRegistry())
        finally:
            sys.setprofile(None)
    assert on_the_way == []
    assert asked, "the profile sees such calls"
