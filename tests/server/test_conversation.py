"""Many calls on one stream, over a real gRPC server: begun in order, answered as they are done, bounded, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
import structlog
from structlog.testing import capture_logs

from replica.core.messages import (
    ApplyRequest,
    ApplyResponse,
    Consistency,
    ListOffsetsRequest,
    QueryRequest,
    QueryResponse,
    Request,
    Response,
)
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.server.channels import channel_options, server_options
from replica.server.codec_conversation import CONVERSE, GroupAnswer, GroupCall
from replica.server.driver import ReplicaStoppedError
from replica.server.service import ReplicaService, ServiceLimits
from replica.server.transport import NOT_APPLIED_KEY, GrpcTransport, NotAppliedError
from replica.v1 import group_pb2  # the wire itself is looked at here
from tests.server.driver_fakes import PATIENCE_SECONDS, wait_until

LOG = TopicPartition("kv", 0)
Stream = grpc.aio.StreamStreamCall[bytes, bytes]


def apply(number: int) -> GroupCall:
    """A call that writes one entry, which is its number."""
    entries = (str(number).encode(),)
    return GroupCall(id=number, request=ApplyRequest(topic_partition=LOG, entries=entries, timeout_ms=1000))


def query(number: int) -> GroupCall:
    """A call that asks."""
    request = QueryRequest(
        topic_partition=LOG, request=b"?", consistency=Consistency.LINEARIZABLE, timeout_ms=1000, after_offset=None
    )
    return GroupCall(id=number, request=request)


APPLIED = ApplyResponse(error=ErrorCode.NONE, base_offset=Offset(3), outcomes=(b"done",))
ANSWERED = QueryResponse(error=ErrorCode.NONE, outcome=b"!", applied_offset=Offset(4))


class Core:
    """Answers calls when the test says so."""

    def __init__(self) -> None:
        self.inside: list[tuple[Request, asyncio.Future[Response]]] = []
        self.given_up = 0

    async def call(self, request: Request) -> Response:
        """Wait for the answer that the test sets."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.inside.append((request, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self.given_up += 1
            raise

    def answer(self, at: int, response: Response | Exception) -> None:
        """Answer the call that came in as number ``at``."""
        if isinstance(response, Exception):
            self.inside[at][1].set_exception(response)
        else:
            self.inside[at][1].set_result(response)


@asynccontextmanager
async def serving(
    call: Callable[[Request], Awaitable[Response]], *, stream_calls_max: int = 100, client_calls_max: int = 10
) -> AsyncIterator[tuple[grpc.aio.Channel, str, grpc.aio.Server]]:
    """Serve ``call`` on loopback; yields a channel to it, its address, and the server."""
    service = ReplicaService(
        call=call,
        addresses={},
        logger=structlog.get_logger(),
        limits=ServiceLimits(client_calls_max=client_calls_max, stream_calls_max=stream_calls_max),
    )
    server = grpc.aio.server(options=server_options())
    server.add_generic_rpc_handlers(service.handlers())
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    channel = grpc.aio.insecure_channel(address, options=channel_options())
    try:
        yield channel, address, server
    finally:
        await channel.close()
        await server.stop(None)


def converse(channel: grpc.aio.Channel) -> Stream:
    """Open a stream."""
    call: Stream = channel.stream_stream(CONVERSE.full_name)()
    return call


async def read(stream: Stream) -> GroupAnswer:
    """The next answer of a stream."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        encoded = await stream.read()
    assert isinstance(encoded, bytes), encoded
    return CONVERSE.decode_answer(encoded)


async def status_of(stream: Stream) -> tuple[grpc.StatusCode, str, bool]:
    """How a stream has ended: code, reason, and whether certainly nothing was done."""
    marked = any(key == NOT_APPLIED_KEY for key, _ in await stream.trailing_metadata() or ())
    return await stream.code(), await stream.details(), marked


async def test_answers_come_as_they_are_done_under_the_ids_of_their_calls() -> None:
    """Calls are begun in the order in which they were written; a later one may be answered first."""
    core = Core()
    async with serving(core.call) as (channel, _, _):
        stream = converse(channel)
        for call in (apply(7), query(8), apply(-9)):
            await stream.write(CONVERSE.encode_call(call))
        await wait_until(lambda: len(core.inside) == 3, "three calls inside")
        assert [request for request, _ in core.inside] == [apply(7).request, query(8).request, apply(-9).request]
        core.answer(2, APPLIED)
        assert await read(stream) == GroupAnswer(id=-9, response=APPLIED)
        core.answer(1, ANSWERED)
        assert await read(stream) == GroupAnswer(id=8, response=ANSWERED)
        await stream.done_writing()
        core.answer(0, APPLIED)
        assert await read(stream) == GroupAnswer(id=7, response=APPLIED)
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK


async def test_thousands_of_calls_are_inside_at_once() -> None:
    """One client has as many operations under way as the limit allows, and each gets its own answer."""
    core, count = Core(), 3000
    async with serving(core.call, stream_calls_max=count) as (channel, _, _):
        stream = converse(channel)
        for number in range(count):
            await stream.write(CONVERSE.encode_call(apply(number)))
        await wait_until(lambda: len(core.inside) == count, "all calls inside")
        for at, (request, _) in enumerate(core.inside):
            assert isinstance(request, ApplyRequest)
            core.answer(at, ApplyResponse(error=ErrorCode.NONE, outcomes=request.entries))
        await stream.done_writing()
        answers = [CONVERSE.decode_answer(encoded) async for encoded in stream]
        assert sorted(answer.id for answer in answers) == list(range(count))
        own = [ApplyResponse(error=ErrorCode.NONE, outcomes=(str(answer.id).encode(),)) for answer in answers]
        assert [answer.response for answer in answers] == own


async def test_beyond_the_limit_nothing_more_is_read() -> None:
    """A call too many is no error: it waits until another has been answered, and then it is served."""
    core = Core()
    async with serving(core.call, stream_calls_max=2) as (channel, _, _):
        stream = converse(channel)
        for number in range(4):
            await stream.write(CONVERSE.encode_call(apply(number)))
        await wait_until(lambda: len(core.inside) >= 2, "two calls inside")
        core.answer(1, APPLIED)
        assert (await read(stream)).id == 1
        await wait_until(lambda: len(core.inside) >= 3, "the third")
        other = converse(channel)  # What it is told comes after whatever the first could have been told meanwhile.
        await other.write(CONVERSE.encode_call(query(50)))
        await wait_until(lambda: core.inside[-1][0] == query(50).request, "a call of another stream")
        assert len(core.inside) == 4
        core.answer(0, APPLIED)
        await wait_until(lambda: len(core.inside) == 5, "the fourth")


async def test_a_client_that_reads_nothing_is_not_read_either() -> None:
    """Answers that nobody takes hold their places, so that they do not pile up in the replica."""
    big = ApplyResponse(error=ErrorCode.NONE, outcomes=(bytes(1 << 20),))
    applied = 0

    async def call(request: Request) -> Response:
        nonlocal applied
        if isinstance(request, QueryRequest):
            return ANSWERED
        applied += 1
        return big

    async with serving(call, stream_calls_max=8) as (channel, _, _):
        stream, other = converse(channel), converse(channel)
        writing = asyncio.create_task(write_all(stream, 200))
        await wait_until(lambda: applied >= 8, "as many as there are places")
        for number in range(200):  # Time enough for a replica that reads on to have read all.
            await other.write(CONVERSE.encode_call(query(number)))
            assert (await read(other)).id == number
        assert applied < 100
        answers = [CONVERSE.decode_answer(encoded) async for encoded in stream]
        await writing
        assert len(answers) == applied == 200


async def write_all(stream: Stream, count: int) -> None:
    """Write as many calls, and say that these were all."""
    for number in range(count):
        await stream.write(CONVERSE.encode_call(apply(number)))
    await stream.done_writing()


@pytest.mark.parametrize("garbage", [b"\xff", b"", group_pb2.ConverseRequest(id=4).SerializeToString()])
async def test_a_malformed_call_ends_the_stream(garbage: bytes) -> None:
    """The client learns why; what it had under way may be done or not, and is not said to be undone."""
    core = Core()
    async with serving(core.call) as (channel, _, _):
        stream = converse(channel)
        await stream.write(CONVERSE.encode_call(apply(1)))
        await wait_until(lambda: len(core.inside) == 1, "the call")
        with capture_logs() as lines:
            await stream.write(garbage)
            code, details, marked = await status_of(stream)
        assert (code, marked) == (grpc.StatusCode.INVALID_ARGUMENT, False)
        assert details.startswith("malformed Converse: ")
        assert [(line["event"], line["rpc"], line["error"]) for line in lines] == [
            ("request_refused", "Converse", "INVALID_ARGUMENT")
        ]
        assert core.given_up == 1


@pytest.mark.parametrize("not_applied", [True, False])
async def test_a_replica_that_stops_leaves_every_call_unknown(not_applied: bool) -> None:
    """The stream ends as unavailable, and never says that nothing was done: others on it may have been."""
    core = Core()
    async with serving(core.call) as (channel, _, _):
        stream = converse(channel)
        for number in range(3):
            await stream.write(CONVERSE.encode_call(apply(number)))
        await wait_until(lambda: len(core.inside) == 3, "the calls")
        for at in range(3):
            core.answer(at, ReplicaStoppedError("the replica is stopping", not_applied=not_applied))
        assert await status_of(stream) == (grpc.StatusCode.UNAVAILABLE, "the replica is stopping", False)


async def test_a_client_that_leaves_takes_its_calls_with_it() -> None:
    """What the core has begun goes on without it; nothing waits any more, nothing is logged, and there is room."""
    core = Core()
    async with serving(core.call, client_calls_max=1) as (channel, _, _):
        with capture_logs() as lines:
            stream = converse(channel)
            for number in range(3):
                await stream.write(CONVERSE.encode_call(apply(number)))
            await wait_until(lambda: len(core.inside) == 3, "the calls")
            stream.cancel()
            await wait_until(lambda: core.given_up == 3, "all calls given up")
        assert lines == []
        again = converse(channel)
        await again.write(CONVERSE.encode_call(query(1)))
        await wait_until(lambda: len(core.inside) == 4, "a call of the next stream")


async def test_a_stream_counts_as_a_call_of_a_client() -> None:
    """Where there are too many calls a stream is refused at the door, marked as not done; so is a call beside it."""
    core = Core()
    async with serving(core.call, client_calls_max=1) as (channel, address, _):
        first = converse(channel)
        await first.write(CONVERSE.encode_call(apply(1)))
        await wait_until(lambda: len(core.inside) == 1, "the first call")
        second = converse(channel)
        code, details, marked = await status_of(second)
        assert (code, marked) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert "1 calls are being served" in details
        transport = GrpcTransport(lambda _: address)
        with pytest.raises(NotAppliedError, match="RESOURCE_EXHAUSTED"):
            await transport.call(ReplicaId(1), ListOffsetsRequest(topic_partition=LOG, latest=True), 5000)
        await transport.close()


async def test_a_call_that_is_refused_by_the_core_is_an_answer_like_any() -> None:
    """It gets its log line, and the stream goes on."""
    core = Core()
    async with serving(core.call) as (channel, _, _):
        stream = converse(channel)
        await stream.write(CONVERSE.encode_call(apply(1)))
        await wait_until(lambda: len(core.inside) == 1, "the call")
        refused = ApplyResponse(error=ErrorCode.INVALID_REQUEST, not_appended=True)
        with capture_logs() as lines:
            core.answer(0, refused)
            assert await read(stream) == GroupAnswer(id=1, response=refused)
        assert [(line["event"], line["rpc"], line["error"]) for line in lines] == [
            ("request_refused", "Converse", "INVALID_REQUEST")
        ]
        await stream.write(CONVERSE.encode_call(query(2)))
        await wait_until(lambda: len(core.inside) == 2, "the next call")


async def test_a_server_that_stops_ends_open_streams() -> None:
    """After its grace no stream holds a replica up."""
    core = Core()
    async with serving(core.call) as (channel, _, server):
        stream = converse(channel)
        await stream.write(CONVERSE.encode_call(apply(1)))
        await wait_until(lambda: len(core.inside) == 1, "the call")
        await server.stop(0.05)
        assert (await status_of(stream))[0] is not grpc.StatusCode.OK
