"""Many calls on one stream: each gets its own answer, and none claims to know more than it can when the stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from replica.client.connections import Endpoint
from replica.client.groups.streams import GroupConnections
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.server.codec import DESCRIBE_REPLICA
from replica.server.codec_conversation import CONVERSE, GroupAnswer, GroupCall
from replica.server.transport import NOT_APPLIED_KEY, NotAppliedError, TransportError
from tests.client.group_fakes import GROUP

Serve = Callable[[AsyncIterator[bytes], Any], Awaitable[None]]
PATIENCE_MS = 20_000


def question(number: int) -> m.QueryRequest:
    return m.QueryRequest(
        topic_partition=GROUP, request=b"%d" % number, consistency=m.Consistency.STALE, timeout_ms=PATIENCE_MS
    )


async def answer(call: GroupCall, context: Any) -> None:
    """Answer a question with itself, and say so at the offset that it names."""
    request = call.request
    assert isinstance(request, m.QueryRequest)
    response = m.QueryResponse(error=ErrorCode.NONE, outcome=request.request, applied_offset=Offset(call.id))
    await context.write(CONVERSE.encode_answer(GroupAnswer(id=call.id, response=response)))


@asynccontextmanager
async def replica(serve: Serve) -> AsyncIterator[Endpoint]:
    """A replica that serves its streams so, and describes itself."""
    server = grpc.aio.server()

    async def describe(_: bytes, __: Any) -> bytes:
        return DESCRIBE_REPLICA.encode_response(m.DescribeReplicaResponse(error=ErrorCode.NONE))

    async def converse(calls: AsyncIterator[bytes], context: Any) -> None:
        await serve(calls, context)

    handlers: dict[str, dict[str, Any]] = {
        CONVERSE.service: {CONVERSE.rpc: grpc.stream_stream_rpc_method_handler(converse)},
        DESCRIBE_REPLICA.service: {DESCRIBE_REPLICA.rpc: grpc.unary_unary_rpc_method_handler(describe)},
    }
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(*service) for service in handlers.items())
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Endpoint(ReplicaId(1), f"127.0.0.1:{port}")
    finally:
        await server.stop(None)


@asynccontextmanager
async def connected() -> AsyncIterator[GroupConnections]:
    """Connections that are closed in the end."""
    connections = GroupConnections()
    try:
        yield connections
    finally:
        await connections.close()


async def ask(connections: GroupConnections, endpoint: Endpoint, number: int, timeout_ms: int = PATIENCE_MS) -> bytes:
    response = await connections.call(endpoint, question(number), timeout_ms)
    assert isinstance(response, m.QueryResponse)
    return response.outcome


async def test_every_call_gets_its_own_answer() -> None:
    """Answers come in any order, and all calls share one stream; what is no question goes past it."""
    streams = 0

    async def backwards(calls: AsyncIterator[bytes], context: Any) -> None:
        nonlocal streams
        streams += 1
        heard = [CONVERSE.decode_call(await anext(calls)) for _ in range(20)]
        for call in reversed(heard):
            await answer(call, context)

    async with replica(backwards) as endpoint, connected() as connections:
        answers = await asyncio.gather(*(ask(connections, endpoint, number) for number in range(20)))
        described = await connections.call(endpoint, m.DescribeReplicaRequest(topic_partition=GROUP), PATIENCE_MS)
    assert answers == [b"%d" % number for number in range(20)]
    assert isinstance(described, m.DescribeReplicaResponse)
    assert streams == 1


async def test_a_refused_connection_is_not_applied() -> None:
    """Nothing was sent to a port that refuses."""
    async with connected() as connections:
        with pytest.raises(NotAppliedError, match=r"broker 1 at 127\.0\.0\.1:1 refuses connections"):
            await ask(connections, Endpoint(ReplicaId(1), "127.0.0.1:1"), 0)


async def test_a_stream_that_breaks_leaves_a_doubt() -> None:
    """What was written may have been carried out; the next call begins a new stream."""
    streams = 0

    async def break_once(calls: AsyncIterator[bytes], context: Any) -> None:
        nonlocal streams
        streams += 1
        async for encoded in calls:
            if streams == 1:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the replica stops")
            await answer(CONVERSE.decode_call(encoded), context)

    async with replica(break_once) as endpoint, connected() as connections:
        with pytest.raises(TransportError, match="UNAVAILABLE: the replica stops") as told:
            await ask(connections, endpoint, 0)
        assert not isinstance(told.value, NotAppliedError)
        assert await ask(connections, endpoint, 1) == b"1"


async def test_a_stream_that_is_refused_at_the_door_is_not_applied() -> None:
    """The server's own mark makes it certain that no call on the stream was looked at."""

    async def refuse(calls: AsyncIterator[bytes], context: Any) -> None:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many", ((NOT_APPLIED_KEY, "1"),))

    async with replica(refuse) as endpoint, connected() as connections:
        with pytest.raises(NotAppliedError, match="RESOURCE_EXHAUSTED: too many"):
            await ask(connections, endpoint, 0)


async def test_who_gives_up_does_not_stop_the_others() -> None:
    """A call whose time is up is unknown; its answer may come later, and the stream goes on."""
    late: list[GroupCall] = []

    async def hold_back_the_first(calls: AsyncIterator[bytes], context: Any) -> None:
        async for encoded in calls:
            call = CONVERSE.decode_call(encoded)
            if call.id == 0:
                late.append(call)
                continue
            await answer(late.pop() if late else call, context)
            await answer(call, context)

    async with replica(hold_back_the_first) as endpoint, connected() as connections:
        with pytest.raises(TransportError, match="has not answered within 300 ms") as told:
            await ask(connections, endpoint, 0, timeout_ms=300)
        assert not isinstance(told.value, NotAppliedError)
        assert await ask(connections, endpoint, 1) == b"1"


async def test_nonsense_ends_the_stream() -> None:
    """An answer that cannot be read leaves a doubt at all who wait."""

    async def babble(calls: AsyncIterator[bytes], context: Any) -> None:
        await anext(calls)
        await context.write(b"\xff\xff")
        async for _ in calls:
            pass

    async with replica(babble) as endpoint, connected() as connections:
        with pytest.raises(TransportError, match="answered what cannot be read"):
            await ask(connections, endpoint, 0)


async def test_what_waits_at_the_end_fails() -> None:
    """Closing ends the calls that are open; what was sent is in doubt."""
    heard = asyncio.Event()

    async def listen(calls: AsyncIterator[bytes], context: Any) -> None:
        async for _ in calls:
            heard.set()

    async with replica(listen) as endpoint:
        connections = GroupConnections()
        waiting = asyncio.create_task(ask(connections, endpoint, 0))
        await heard.wait()
        await connections.close()
        with pytest.raises(TransportError):
            await waiting
