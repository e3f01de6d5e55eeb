"""Questions that travel together: how many requests they take, and that each has an outcome of its own."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from replica.client.failures import ReadFailedError
from replica.client.groups.client import GroupClient
from replica.client.groups.config import GroupConfig
from replica.client.groups.queries import Node
from replica.core import messages as m
from replica.core.messages import Consistency
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from tests.client.group_fakes import ADDRESSES, GROUP, VIEW, FakeGroup

ONE, TWO, THREE = ADDRESSES
CONFIG = GroupConfig(requests_in_flight_max=1, batch_entries_max=10)
TOO_LARGE = m.QueryResponse(error=ErrorCode.MESSAGE_TOO_LARGE)


def asker(group: FakeGroup, config: GroupConfig = CONFIG) -> GroupClient:
    """A client with one request of questions on its way at a time."""
    return GroupClient(
        "r1:1", GROUP.topic, config, view_config=VIEW, connections=group, clock=group.clock, random=Random(0)
    )


def sizes(group: FakeGroup) -> list[int]:
    """How many questions each request had."""
    return [len(request.requests) for _, request in group.calls if isinstance(request, m.QueryRequest)]


async def all_replies(client: GroupClient, count: int) -> list[bytes]:
    """So many questions, put at the same time."""
    return [answer.reply for answer in await asyncio.gather(*(client.query(b"") for _ in range(count)))]


async def test_what_waits_goes_together(group: FakeGroup) -> None:
    """What is asked in one moment goes in as few requests as hold it, and every question has its answer."""
    async with asker(group) as client:
        await client.apply(b"7")
        await client.query(b"")  # So that the leader is known.
        assert await all_replies(client, 25) == [b"7"] * 25
    assert sizes(group) == [1, 10, 10, 5]


async def test_a_question_waits_for_none_that_is_on_its_way(group: FakeGroup) -> None:
    """Where another request may be on its way, a question is sent at once."""
    group.latency_ms = 10
    async with asker(group, GroupConfig(requests_in_flight_max=2)) as client:
        await client.query(b"")
        first = asyncio.create_task(client.query(b""))
        await group.clock.sleep(5)
        await client.query(b"")
        await first
    assert (sizes(group), group.in_flight_most) == ([1, 1, 1], 2)


async def test_each_kind_travels_for_itself(group: FakeGroup) -> None:
    """Of other replicas, or for another consistency, others are asked; what waits for news waits alone."""
    async with asker(group) as client:
        await client.apply(b"1")
        await client.query(b"")
        await asyncio.gather(
            client.query(b""),
            client.query(b""),
            client.query(b"", consistency=Consistency.STALE),
            client.query(b"", node=TWO),
            client.query(b"", after_offset=Offset(0), wait_ms=10),
        )
    assert sorted(sizes(group)) == [1, 1, 1, 1, 2]


async def test_what_is_too_large_together_travels_alone(group: FakeGroup) -> None:
    """An answer with which all of them would not fit is asked for in parts."""
    async with asker(group) as client:
        await client.query(b"")
        group.refusals.append(TOO_LARGE)
        assert await all_replies(client, 3) == [b"0"] * 3
        assert sizes(group) == [1, 3, 1, 1, 1]


async def test_an_answer_to_fewer_questions_is_none(group: FakeGroup) -> None:
    """A replica that does not answer each of them is asked again."""
    async with asker(group) as client:
        await client.query(b"")
        group.refusals.append(m.QueryResponse(error=ErrorCode.NONE, outcomes=(b"",), applied_offset=Offset(0)))
        assert await all_replies(client, 2) == [b"0"] * 2
        assert sizes(group) == [1, 2, 2]


async def test_who_has_less_time_does_not_wait_longer(group: FakeGroup) -> None:
    """A request is open as long as the most patient wants; the others end in their time."""
    async with asker(group) as client:
        await client.query(b"")
        group.silent |= set(ADDRESSES)
        begun_ms = group.clock.now_ms()
        patient = asyncio.create_task(client.query(b"", timeout_ms=5_000))
        with pytest.raises(ReadFailedError):
            await client.query(b"", timeout_ms=50)
        assert group.clock.now_ms() - begun_ms < 1_000
        group.silent.clear()
        assert (await patient).reply == b"0"


async def test_who_was_cancelled_is_not_asked_for(group: FakeGroup) -> None:
    """A question that nobody waits for any more stays out of the next request."""
    group.latency_ms = 10
    async with asker(group) as client:
        await client.query(b"", node=Node.LEADER)
        first, second, third = (asyncio.create_task(client.query(b"")) for _ in range(3))
        await group.clock.sleep(1)
        fourth, fifth = (asyncio.create_task(client.query(b"")) for _ in range(2))
        await group.clock.sleep(1)
        fourth.cancel()
        await asyncio.gather(first, second, third, fifth)
    assert sizes(group) == [1, 3, 1]


async def test_a_replica_that_is_down_fails_all_of_them_once(group: FakeGroup) -> None:
    """All learn of it from one request, and go to who leads now."""
    async with asker(group) as client:
        await client.query(b"")
        group.down.add(ReplicaId(1))
        group.lead(2)
        assert await all_replies(client, 5) == [b"0"] * 5
    assert [endpoint.broker_id for endpoint, request in group.calls if isinstance(request, m.QueryRequest)] == [1, 1, 2]
