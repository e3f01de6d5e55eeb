"""With too much memory, requests that are not complete are given up, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import grpc
import grpc.aio
import pytest
import structlog

from replica.core.messages import ListOffsetsRequest, ListOffsetsResponse, Request, Response
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.rpc.codec import LIST_OFFSETS
from replica.rpc.transport import NOT_APPLIED_KEY
from replica.server.memory_limit import BUDGET, MemoryLimit, to_end
from replica.server.request_metrics import RequestCounts
from replica.server.service import ReplicaService
from tests.server.driver_fakes import LOG
from tests.server.served import served


@pytest.mark.parametrize(
    ("waiting", "ended"),
    [
        ({}, set()),
        ({"a": 1}, {"a"}),
        ({"honest": 3, "hostile": 100}, {"hostile"}),
        ({"honest": 3, "one": 100, "two": 90}, {"one"}),
        ({"honest": 3, "one": 60, "two": 59, "three": 58}, {"one", "two"}),
    ],
)
def test_who_has_most_calls_that_wait_loses_them(waiting: Mapping[str, int], ended: set[str]) -> None:
    """Half of all that wait end at once, and they are those of the connections that have most."""
    assert to_end(waiting) == ended


class EndOfTestError(Exception):
    """Nothing is left to look at."""


@pytest.mark.parametrize(
    ("resident", "done"),
    [
        pytest.param([100], [], id="at the bound"),
        pytest.param([101, 90], ["give back"], id="some was free"),
        pytest.param([101, 101, 90], ["give back", "end"], id="none was"),
        pytest.param([101, 101, 101, 101], ["give back", "end"] * 2, id="until it is enough"),
    ],
)
async def test_calls_are_ended_for_what_is_not_free(resident: list[int], done: list[str]) -> None:
    """Above the bound, free memory is given back first, and calls are ended only if that was not enough."""
    seen: list[str] = []
    readings: Iterator[int] = iter(resident)

    def read() -> int:
        found = next(readings, None)
        if found is None:
            raise EndOfTestError
        return found

    limit = MemoryLimit(
        bytes_max=100, end_waiting=lambda: seen.append("end"), resident=read, give_back=lambda: seen.append("give back")
    )
    with pytest.raises(EndOfTestError):
        await limit.run(sleep=lambda _: asyncio.sleep(0))
    assert seen == done


async def test_calls_that_are_inside_go_on() -> None:
    """A call that waits for its request ends as not applied; one of the same connection that is served is answered."""
    release, inside, counts = asyncio.Event(), asyncio.Event(), RequestCounts()

    async def answer(_: Request) -> Response:
        inside.set()
        await release.wait()
        return ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(3))

    service = ReplicaService(call=answer, addresses={}, logger=structlog.get_logger(), counts=counts)
    async with served(service) as address, grpc.aio.insecure_channel(address) as channel:
        begin: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(LIST_OFFSETS.full_name)
        answered, waits = begin(), begin()
        await answered.write(LIST_OFFSETS.request.encode(ListOffsetsRequest(topic_partition=LOG, latest=True)))
        await inside.wait()
        while len(service._idle_streams) < 1:
            await asyncio.sleep(0.01)
        service.end_waiting_streams()
        assert await waits.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await waits.details() or "").startswith(f"{BUDGET}: ")
        assert any(key == NOT_APPLIED_KEY for key, _ in await waits.trailing_metadata() or ())
        release.set()
        encoded = await answered.read()
        assert isinstance(encoded, bytes)
        assert LIST_OFFSETS.response.decode(encoded).offset == 3
    assert counts.over_budget == {BUDGET: 1}
    assert (service._idle_streams, service._over_memory) == ({}, set())
