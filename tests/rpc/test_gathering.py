"""Writes of one turn travel together, and each learns what became of its own."""

from __future__ import annotations

import asyncio

import pytest

from replica.core.messages import ProduceRequest, ProduceRequests, ProduceResponse, ProduceResponses
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition
from replica.rpc.gathering import GATHERED_BYTES_MAX, Gathering
from replica.rpc.transport import MalformedRequestError, NotAppliedError, TransportError

BAD = 13
"""The partition of the write that nobody takes."""


def write(partition: int, size: int = 10) -> ProduceRequest:
    """A write of so many bytes."""
    return ProduceRequest(topic_partition=TopicPartition("t", partition), acks=-1, timeout_ms=5, records=bytes(size))


class Server:
    """Answers each write with its partition as the offset; a call that holds ``BAD`` ends with ``error``."""

    def __init__(self, error: TransportError | None = None) -> None:
        self.calls: list[tuple[list[int], int]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.answers_less = False
        self._error = error

    async def call(self, requests: ProduceRequests, timeout_ms: int) -> ProduceResponses:
        """Answer, once it may."""
        partitions = [request.topic_partition.partition for request in requests.requests]
        self.calls.append((partitions, timeout_ms))
        await self.may_answer.wait()
        if self._error is not None and BAD in partitions:
            raise self._error
        answers = [ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(partition)) for partition in partitions]
        return ProduceResponses(responses=tuple(answers[self.answers_less :]))


async def outcomes(server: Server, *requests: ProduceRequest) -> list[object]:
    """What becomes of writes that are handed over in one turn: their offsets, or errors."""
    writes = Gathering(server.call)
    calls = (writes.call(request, 100 + request.topic_partition.partition) for request in requests)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return [answer.base_offset if isinstance(answer, ProduceResponse) else answer for answer in answers]


async def test_writes_of_one_turn_travel_in_order_in_one_call() -> None:
    """They have the patience of the least patient, and each its own answer."""
    server = Server()

    assert await outcomes(server, write(3), write(1), write(2)) == [3, 1, 2]
    assert server.calls == [([3, 1, 2], 101)]


async def test_what_comes_later_waits_for_nobody() -> None:
    """A write that is handed over while others are under way has a call of its own at once."""
    server = Server()
    server.may_answer.clear()
    writes = Gathering(server.call)
    first = asyncio.create_task(writes.call(write(1), 100))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(writes.call(write(2), 100))
    await asyncio.sleep(0.01)

    assert [partitions for partitions, _ in server.calls] == [[1], [2]]
    server.may_answer.set()
    assert ((await first).base_offset, (await second).base_offset) == (1, 2)


async def test_no_call_is_larger_than_it_may_be() -> None:
    """Together they have a limit, which one that is larger by itself exceeds alone; so has their number."""
    server = Server()
    half = GATHERED_BYTES_MAX // 2
    await outcomes(server, write(1, half), write(2, half), write(3, 1), write(4, 3 * half), write(5))
    assert [partitions for partitions, _ in server.calls] == [[1, 2], [3], [4], [5]]

    server = Server()
    await outcomes(server, *(write(number, 0) for number in range(1001)))
    assert [len(partitions) for partitions, _ in server.calls] == [1000, 1]


@pytest.mark.parametrize("kind", [TransportError, NotAppliedError])
async def test_a_failed_call_is_a_failure_of_each(kind: type[TransportError]) -> None:
    """Whether it may have been applied is the same for all; each gets an error of its own."""
    found = await outcomes(Server(kind("lost")), write(1), write(BAD))

    assert [type(error) for error in found] == [kind, kind]
    assert found[0] is not found[1]


async def test_what_nobody_takes_does_not_take_others_with_it() -> None:
    """A call that is refused as malformed was not applied: its writes travel again, each alone, and only one fails."""
    server = Server(MalformedRequestError("too large"))
    found = await outcomes(server, write(1), write(BAD), write(2))

    assert (found[0], type(found[1]), found[2]) == (1, MalformedRequestError, 2)
    assert [partitions for partitions, _ in server.calls] == [[1, BAD, 2], [1], [BAD], [2]]


async def test_too_few_answers_leave_all_unknown() -> None:
    """Which write an answer is of cannot be told then."""
    server = Server()
    server.answers_less = True
    found = await outcomes(server, write(1), write(2))

    assert [type(error) for error in found] == [TransportError, TransportError]
    assert "1 answers came for 2 writes" in str(found[0])


async def test_who_gives_up_leaves_the_others_alone() -> None:
    """A caller that is cancelled takes nothing back, and the others get their answers."""
    server = Server()
    server.may_answer.clear()
    writes = Gathering(server.call)
    calls = [asyncio.create_task(writes.call(write(number), 100)) for number in (1, 2)]
    await asyncio.sleep(0.01)
    calls[0].cancel()
    server.may_answer.set()

    assert (await calls[1]).base_offset == 2
    assert calls[0].cancelled()
    assert server.calls == [([1, 2], 100)]
