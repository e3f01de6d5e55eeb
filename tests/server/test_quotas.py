"""Quotas: what may be taken at once, what is owed then, and how calls are delayed or refused for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import structlog
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.limits import UNLIMITED, Limits, LimitTable
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from replica.rpc.codec import FETCH
from replica.rpc.transport import GrpcTransport
from replica.server.quotas import BUCKETS_MAX, Identity, Quota, Quotas, TokenBucket
from replica.server.request_metrics import RequestCounts
from replica.server.service import ReplicaService
from replica.server.throttle import DELAY_MS_MAX, REFUSAL_DELAY_MS, Throttle
from tests.server.driver_fakes import LOG
from tests.server.served import called
from tests.server.test_refused_call_memory import AbortedError, KeptContext
from tests.server.test_request_metrics import shown

ONE = ReplicaId(1)
ANN = Identity("User:ann")
WRITE = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=100, records=bytes(10_000))
READ = m.FetchRequest(partitions=(m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(0)),))
LIST = m.ListOffsetsRequest(topic_partition=LOG, latest=True)


@pytest.mark.parametrize(
    ("rate", "taken", "owed_ms"),
    [
        pytest.param(100, [(0, 100)], 0, id="a second's worth at once"),
        pytest.param(100, [(0, 101)], 10, id="what is beyond is owed"),
        pytest.param(100, [(0, 100), (500, 50)], 0, id="time fills it"),
        pytest.param(100, [(0, 100), (500, 51)], 10, id="and no faster than the rate"),
        pytest.param(
            100, [(0, 0), (9000, 100), (9000, 100)], 1000, id="it holds a second's worth however long it waits"
        ),
        pytest.param(100, [(0, 1100), (1000, 0)], 9000, id="a debt is paid at the rate"),
        pytest.param(3, [(0, 4)], 334, id="nothing is owed after that, not a moment sooner"),
        pytest.param(1, [(0, 1 << 40)], ((1 << 40) - 1) * 1000, id="a debt of years"),
    ],
)
def test_a_bucket_owes_what_was_taken_beyond_its_rate(rate: int, taken: list[tuple[int, int]], owed_ms: int) -> None:
    """Whatever is taken, at whatever times: what is owed is what a second's worth and the rate since do not cover."""
    bucket = TokenBucket(rate, 0)
    for now_ms, amount in taken:
        bucket = bucket.filled(rate, now_ms).taken(amount)
    assert bucket.owed_ms(rate) == owed_ms


@pytest.mark.parametrize(
    ("by_principal", "principal", "limits"),
    [
        ({}, "User:ann", Limits(request_rate=5)),
        ({"User:bob": Limits(request_rate=7)}, "User:ann", Limits(request_rate=5)),
        ({"User:ann": Limits(request_rate=7)}, "User:ann", Limits(request_rate=7)),
        ({"User:ann": Limits(producer_byte_rate=7)}, "User:ann", Limits(request_rate=5, producer_byte_rate=7)),
    ],
)
def test_ones_own_limits_count_for_more(by_principal: dict[str, Limits], principal: str, limits: Limits) -> None:
    """A principal has its own limits, and where they say nothing those of everybody."""
    table = LimitTable(default=Limits(request_rate=5), by_principal=by_principal)
    assert table.limits_of(principal) == limits
    assert not table.is_empty
    assert LimitTable().is_empty
    assert not LimitTable(by_principal={"User:ann": UNLIMITED}).is_empty


def test_new_limits_hold_at_once() -> None:
    """A debt is what was taken, so that a higher rate pays it sooner, and without a limit nothing is owed."""
    table = LimitTable(default=Limits(request_rate=10))
    quotas = Quotas(lambda: table)
    quotas.take(ANN, Quota.REQUESTS, 20, 0)
    assert quotas.owed_ms(ANN, Quota, 0) == (1000, Quota.REQUESTS)
    table = LimitTable(default=Limits(request_rate=100))
    assert quotas.owed_ms(ANN, Quota, 0) == (100, Quota.REQUESTS)
    table = LimitTable()
    assert quotas.owed_ms(ANN, Quota, 0) == (0, None)


def test_each_identity_owes_for_itself() -> None:
    """Neither another principal, nor another address of those without a name, nor another quota has less for it."""
    quotas = Quotas(lambda: LimitTable(default=Limits(request_rate=10, producer_byte_rate=10)))
    nobody = Identity("User:ANONYMOUS", "ipv4:10.0.0.1")
    quotas.take(nobody, Quota.REQUESTS, 20, 0)
    for other in (ANN, nobody._replace(address="ipv4:10.0.0.2")):
        assert quotas.owed_ms(other, Quota, 0) == (0, None)
    assert quotas.owed_ms(nobody, [Quota.PRODUCER_BYTES], 0) == (0, None)


def test_there_are_so_many_buckets_and_no_more() -> None:
    """Who comes from ever more addresses makes the replica forget the first of them, not grow."""
    quotas = Quotas(lambda: LimitTable(default=Limits(request_rate=10)))
    for number in range(BUCKETS_MAX + 5):
        quotas.take(Identity("User:ANONYMOUS", str(number)), Quota.REQUESTS, 20, 0)
    assert len(quotas._buckets) == BUCKETS_MAX
    assert quotas.owed_ms(Identity("User:ANONYMOUS", "4"), Quota, 0) == (0, None)


class Pauses:
    """Time that stands still until somebody sleeps, and how long each has slept."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.slept_ms: list[int] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_ms.append(round(seconds * 1000))
        await asyncio.sleep(0)


@asynccontextmanager
async def serving(
    limits: Limits, pauses: Pauses, counts: RequestCounts
) -> AsyncIterator[tuple[GrpcTransport, list[m.Request]]]:
    """A service with these limits for everybody; yields a client of it, and what has got in."""
    asked: list[m.Request] = []

    async def call(request: m.Request) -> m.Response:
        asked.append(request)
        match request:
            case m.ProduceRequest():
                return m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(0))
            case m.FetchRequest():
                part = m.FetchedPartition(topic_partition=LOG, error=ErrorCode.NONE, records=bytes(10_000))
                return m.FetchResponse(partitions=(part,))
            case _:
                return m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(0))

    table = LimitTable(default=limits)
    throttle = Throttle(Quotas(lambda: table), counts=counts, now_ms=lambda: pauses.now_ms, sleep=pauses.sleep)
    service = ReplicaService(call=call, addresses={}, logger=structlog.get_logger(), counts=counts, throttle=throttle)
    async with called(service) as (transport, _):
        yield transport, asked
    assert service._client_calls == 0


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        (Limits(producer_byte_rate=11_000), WRITE),
        (Limits(consumer_byte_rate=11_000), READ),
        (Limits(request_rate=1), LIST),
    ],
)
async def test_who_takes_more_is_delayed_and_then_refused(limits: Limits, request_: m.Request) -> None:
    """The first calls pass, the next wait for a second at most, and then nothing is done and the client is told so.

    Once time has paid for it, calls pass again.
    """
    pauses, counts = Pauses(), RequestCounts()
    (quota,) = (name for name in Quota if getattr(limits, name) is not None)
    async with serving(limits, pauses, counts) as (transport, asked):
        answers = [await transport.call(ONE, request_, 5000) for _ in range(4)]
        assert len(asked) == 3
        assert pauses.slept_ms[-1] == REFUSAL_DELAY_MS
        assert [errors(answer) for answer in answers] == [{ErrorCode.NONE}] * 3 + [
            {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        ]
        assert max(pauses.slept_ms[:-1]) == DELAY_MS_MAX
        if isinstance(answers[2], m.ProduceResponse | m.FetchResponse):
            assert answers[2].throttle_time_ms in range(700, 800)  # What one second did not pay.
        if isinstance(answers[3], m.ProduceResponse):
            assert answers[3].not_appended
            assert "User:ANONYMOUS at ipv4:127.0.0.1 has used up producer_byte_rate" in answers[3].message
        pauses.now_ms = 10_000
        before = len(pauses.slept_ms)
        assert errors(await transport.call(ONE, request_, 5000)) == {ErrorCode.NONE}
        assert all(slept_ms < 100 for slept_ms in pauses.slept_ms[before:])
    assert shown(counts, "replica_throttled_requests_total", quota=quota, outcome="refused") == 1
    assert (shown(counts, "replica_throttle_seconds_total", quota=quota) or 0) > 6


def errors(answer: m.Response) -> set[ErrorCode]:
    parts = answer.partitions if isinstance(answer, m.FetchResponse) else ()
    return {part.error for part in parts} or {answer.error}


async def test_replicas_are_never_throttled() -> None:
    """A follower fetches as fast as it can: else a quota of clients would take partitions out of sync."""
    pauses = Pauses()
    async with serving(Limits(request_rate=1, consumer_byte_rate=1), pauses, RequestCounts()) as (transport, asked):
        for _ in range(5):
            await transport.call(ONE, replace(READ, replica_id=ReplicaId(2)), 5000)
        assert (len(asked), pauses.slept_ms) == (5, [])


async def test_without_limits_nothing_is_counted() -> None:
    """Nobody is delayed, and there is no account of anybody."""
    pauses = Pauses()
    async with serving(UNLIMITED, pauses, RequestCounts()) as (transport, asked):
        for _ in range(5):
            await transport.call(ONE, WRITE, 5000)
        assert (len(asked), pauses.slept_ms) == (5, [])


async def test_what_cannot_be_read_counts_too() -> None:
    """A flood of malformed requests is delayed like one of right ones, and so is one in the name of a replica."""
    pauses = Pauses()
    table = LimitTable(default=Limits(request_rate=1))
    throttle = Throttle(Quotas(lambda: table), counts=RequestCounts(), now_ms=lambda: pauses.now_ms, sleep=pauses.sleep)
    service = ReplicaService(call=refuse_all, addresses={}, logger=structlog.get_logger(), throttle=throttle)
    forged = FETCH.request.encode(replace(READ, replica_id=ReplicaId(2)))
    slept_ms = []
    for encoded in (b"\xff", b"\xff", forged, b"\xff"):
        with pytest.raises(AbortedError):
            await service._handle(FETCH, None, cast(Any, NamelessContext(encoded)), with_peers=False)
        slept_ms.append(list(pauses.slept_ms))
        pauses.slept_ms.clear()
    assert slept_ms == [[], [1000], [1000], [REFUSAL_DELAY_MS]]


async def refuse_all(_: m.Request) -> m.Response:
    raise AssertionError("nothing of this must get here")


class NamelessContext(KeptContext):
    """The context of a call without a certificate."""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}
