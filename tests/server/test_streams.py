"""Streams that are kept: one call after the other goes by them, and whatever ends a call badly ends its stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
import structlog

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.rpc.channels import CHANNEL_CALLS_MAX, server_options
from replica.rpc.codec import FETCH, LIST_OFFSETS
from replica.rpc.transport import (
    KEPT_STREAM_BYTES_MAX,
    GrpcTransport,
    MalformedRequestError,
    NotAppliedError,
    TransportError,
)
from replica.server.driver import ReplicaStoppedError
from replica.server.service import ReplicaService
from tests.server.driver_fakes import LOG

ONE = ReplicaId(1)
LIST = m.ListOffsetsRequest(topic_partition=LOG, latest=True)
DESCRIBE = m.DescribeReplicaRequest(topic_partition=LOG)
NAME = TopicPartition("t" * 200, 0)
LISTED = m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(3))


@dataclass
class Serving:
    """A server, and the streams that it has served: each is a task of gRPC's."""

    server: grpc.aio.Server
    transport: GrpcTransport
    address: str
    streams: list[asyncio.Task[Any]] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    holds: bool = False
    halts: bool = False
    service: ReplicaService = field(init=False)

    async def call(self, request: m.Request = LIST, timeout_ms: int = 20_000) -> m.Response:
        """Call as a client would."""
        return await self.transport.call(ONE, request, timeout_ms)

    async def answer(self, request: m.Request) -> m.Response:
        """What the core would answer, once it is not held any more."""
        stream = asyncio.current_task()
        assert stream is not None
        if stream not in self.streams:
            self.streams.append(stream)
        if self.halts:
            raise ReplicaStoppedError("halted", not_applied=True)
        if self.holds:
            await self.held.wait()
        if isinstance(request, m.DescribeReplicaRequest):
            return m.DescribeReplicaResponse(error=ErrorCode.NONE, replica_id=ONE)
        return m.FetchResponse() if isinstance(request, m.FetchRequest) else LISTED

    @property
    def open_streams(self) -> int:
        """How many of them have not ended."""
        return sum(not stream.done() for stream in self.streams)


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[Serving]:
    """Serve on loopback; a transport's replica 1 is that server."""
    server = grpc.aio.server(options=server_options())
    address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    transport = GrpcTransport(lambda _: address)
    serves = Serving(server, transport, address)
    serves.service = ReplicaService(call=serves.answer, addresses={}, logger=structlog.get_logger())
    server.add_generic_rpc_handlers(serves.service.handlers())
    await server.start()
    try:
        yield serves
    finally:
        await transport.close()
        await server.stop(None)


async def test_one_call_after_the_other_goes_by_the_same_stream() -> None:
    """A hundred calls begin one stream, and each has its own answer."""
    async with serving() as serves:
        assert [await serves.call() for _ in range(100)] == [LISTED] * 100
    assert len(serves.streams) == 1


async def test_calls_at_once_have_a_stream_each_and_each_method_has_its_own() -> None:
    """What is slow holds back nothing: a stream has one call at a time."""
    async with serving() as serves:
        for _ in range(3):
            await asyncio.gather(*(serves.call() for _ in range(5)))
        assert len(serves.streams) <= 5
        before = len(serves.streams)
        await serves.call(DESCRIBE)
        assert len(serves.streams) == before + 1


async def test_a_call_that_is_given_up_ends_its_stream() -> None:
    """The next call does not get the answer that came too late for the one before: it has a stream of its own."""
    async with serving() as serves:
        serves.holds = True
        with pytest.raises(TransportError, match="has not answered within 100 ms") as failed:
            await serves.call(DESCRIBE, 100)
        assert not isinstance(failed.value, NotAppliedError)
        cancelled = asyncio.ensure_future(serves.call())
        await asyncio.sleep(0.1)
        cancelled.cancel()
        serves.holds = False
        serves.held.set()
        assert await serves.call() == LISTED
        assert len(serves.streams) == 3


async def test_a_refusal_ends_the_stream_and_nothing_else() -> None:
    """A call that is refused at the door is certainly not applied, and the next call is served."""
    malformed = m.ListOffsetsRequest(topic_partition=TopicPartition("", 0), latest=True)
    async with serving() as serves:
        await serves.call()
        with pytest.raises(MalformedRequestError):
            await serves.call(malformed)
        assert await serves.call() == LISTED
        assert len(serves.streams) == 2


async def test_who_makes_one_call_a_stream_is_served_like_any_other() -> None:
    """Stubs that others have generated know the methods as unary: one message each way, and the status OK."""
    async with serving() as serves, grpc.aio.insecure_channel(serves.address) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(LIST_OFFSETS.full_name)
        answers = [LIST_OFFSETS.response.decode(await call(LIST_OFFSETS.request.encode(LIST))) for _ in range(3)]
    assert answers == [LISTED] * 3
    assert len(serves.streams) == 3


async def test_a_server_that_stops_waits_for_calls_and_for_no_idle_stream() -> None:
    """What is inside is answered within the grace, a unary call with status OK; streams without a call end at once."""
    async with serving() as serves, grpc.aio.insecure_channel(serves.address) as channel:
        await serves.call(DESCRIBE)
        serves.holds = True
        unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(LIST_OFFSETS.full_name)
        kept = asyncio.ensure_future(serves.call())
        once = asyncio.ensure_future(unary(LIST_OFFSETS.request.encode(LIST)))
        while len(serves.streams) < 3:
            await asyncio.sleep(0.01)
        serves.service.end_idle_streams()
        began = time.monotonic()
        stopping = asyncio.ensure_future(serves.server.stop(60))
        await asyncio.sleep(0.1)
        serves.held.set()
        assert await kept == LISTED
        assert LIST_OFFSETS.response.decode(await once) == LISTED
        await stopping
        assert time.monotonic() - began < 30


async def test_a_call_that_comes_while_the_server_stops_reaches_nobody() -> None:
    """It is not looked at, and its caller hears that no answer came."""
    async with serving() as serves:
        serves.service.end_idle_streams()
        with pytest.raises(TransportError):
            await serves.call()
        assert not serves.streams


async def test_streams_that_ended_while_nobody_used_them_are_not_used() -> None:
    """A replica that was restarted on its port is asked on a new stream, and the first call to it succeeds."""
    async with serving() as serves:
        await serves.call()
        await serves.server.stop(None)
        async with serving(int(serves.address.rpartition(":")[2])) as again:
            await asyncio.sleep(0.2)
            assert await serves.call() == LISTED
            assert len(again.streams) == 1


@pytest.mark.slow
async def test_idle_streams_make_way_for_calls_of_another_method() -> None:
    """However many calls there were of one method: a connection never has more streams than it may have calls."""
    async with serving() as serves:
        await asyncio.gather(*(serves.call() for _ in range(CHANNEL_CALLS_MAX)))
        await asyncio.gather(*(serves.call(DESCRIBE) for _ in range(CHANNEL_CALLS_MAX)))
        await asyncio.sleep(0.5)
        assert len(serves.streams) > CHANNEL_CALLS_MAX
        assert serves.open_streams <= CHANNEL_CALLS_MAX


async def test_a_replica_that_halts_says_of_each_call_what_it_knows() -> None:
    """The mark of a refusal travels on a stream as on a call of its own."""
    async with serving() as serves:
        await serves.call()
        serves.halts = True
        with pytest.raises(NotAppliedError, match="halted"):
            await serves.call()


async def test_a_request_that_is_larger_than_a_window_has_a_stream_of_its_own() -> None:
    """It is served and answered, and the stream that was kept is still there for the next small one."""
    large = m.FetchRequest(
        partitions=tuple(m.FetchPartition(topic_partition=NAME, fetch_offset=Offset(0)) for _ in range(500))
    )
    assert len(FETCH.request.encode(large)) > KEPT_STREAM_BYTES_MAX
    async with serving() as serves:
        for request in (LIST, large, LIST, large, LIST):
            await serves.call(request)
    assert len(serves.streams) == 3
