"""No address keeps the event loop from others, and no connection has more requests on their way in than it may."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
import structlog

from benchmarks.attacks import MIB, Http2
from replica.core.messages import FetchRequest, FetchResponse, ListOffsetsRequest, Request, Response
from replica.ids import ReplicaId
from replica.rpc.codec import PRODUCE
from replica.server.service import ReplicaService
from replica.server.turns import BESIDE_S, COMING_MAX, LET_IN_PER_TURN, NEWCOMERS_FIRST_MAX, Turns
from tests.server.driver_fakes import LOG
from tests.server.served import called, served

ONE, OTHER = "ipv4:10.0.0.1", "ipv4:10.0.0.2"


class Rig:
    """Turns by a clock that is set, and the calls that have asked to be let in."""

    def __init__(self, *, beside: bool = True) -> None:
        self.now_s = 0.0
        self.turns = Turns(seconds=lambda: self.now_s)
        if beside:
            self.turns.take(OTHER)

    def ask(self, calls: int, address: str = ONE) -> list[asyncio.Future[None] | None]:
        """Have so many calls come at once; what each waits for."""
        return [self.turns.take(address) for _ in range(calls)]


def let_in(asked: list[asyncio.Future[None] | None]) -> int:
    """How many need not wait, or no more; they are the first ones."""
    are_in = [each is None or each.done() for each in asked]
    assert are_in == sorted(are_in, reverse=True), are_in
    return sum(are_in)


async def test_an_address_that_calls_alone_never_waits() -> None:
    """However many calls it has: there is nobody to be fair to."""
    assert let_in(Rig(beside=False).ask(1000)) == 1000


async def test_beside_others_a_few_of_each_address_are_let_in_at_each_turn() -> None:
    """The line of one address is as long as it likes, and that of another moves on as fast."""
    rig = Rig()
    many, few = rig.ask(100), rig.ask(LET_IN_PER_TURN + 1, OTHER)
    for turn in range(1, 4):
        assert let_in(many) == LET_IN_PER_TURN * turn
        await asyncio.sleep(0)
    assert let_in(few) == len(few)


async def test_an_address_that_others_have_left_calls_alone_again() -> None:
    """Whoever waits is let in turn by turn, and whoever comes after a while, without anybody else, at once."""
    rig = Rig()
    assert let_in(rig.ask(10)) == LET_IN_PER_TURN
    rig.now_s = BESIDE_S
    while rig.turns._lines:
        await asyncio.sleep(0)
    assert let_in(rig.ask(100)) == 100


async def test_who_has_given_up_takes_no_turn() -> None:
    """A call that was cancelled in the line is passed over, and the one behind it is let in."""
    rig = Rig()
    asked = rig.ask(LET_IN_PER_TURN * 3)[LET_IN_PER_TURN:]
    for each in asked[:LET_IN_PER_TURN]:
        assert each is not None
        each.cancel()
    await asyncio.sleep(0)
    assert let_in(asked) == 2 * LET_IN_PER_TURN


async def test_nobody_is_let_in_while_new_calls_are_accepted() -> None:
    """A turn at which a stream begins lets none in, up to a bound: whoever stands behind a flood is reached soon."""
    rig = Rig()
    asked = rig.ask(2 * LET_IN_PER_TURN)
    for number in range(NEWCOMERS_FIRST_MAX):
        await rig.turns.arrival(f"{ONE}:{number}")
        await asyncio.sleep(0)
        assert let_in(asked) == LET_IN_PER_TURN
    await rig.turns.arrival(f"{ONE}:1000")
    await asyncio.sleep(0)
    assert let_in(asked) == 2 * LET_IN_PER_TURN


async def test_a_connection_has_few_requests_on_their_way() -> None:
    """One more stream waits until one of them is in; those of another connection of the same address do not."""
    turns = Turns()
    coming = [await turns.arrival(f"{ONE}:1") for _ in range(COMING_MAX)]
    late = [asyncio.ensure_future(turns.arrival(f"{ONE}:1")) for _ in range(2)]
    await turns.arrival(f"{ONE}:2")
    assert [each.done() for each in late] == [False, False]
    coming[0].end()
    coming[0].end()
    await late[0]
    assert not late[1].done()
    with coming[1]:
        pass
    await late[1]


def service_of(call: Callable[[Request], Awaitable[Response]], turns: Turns | None = None) -> ReplicaService:
    return ReplicaService(call=call, addresses={}, logger=structlog.get_logger(), turns=turns)


class NobodysTurn(Turns):
    """The turn of no client comes."""

    def take(self, address: str) -> asyncio.Future[None]:
        """Wait for ever."""
        assert address == "ipv4:127.0.0.1"
        return asyncio.get_running_loop().create_future()


async def test_replicas_wait_for_no_turn() -> None:
    """What a replica asks is answered while calls of clients from the same address wait."""

    async def answer(_: Request) -> Response:
        return FetchResponse()

    async with called(service_of(answer, NobodysTurn())) as (transport, _):
        of_client = asyncio.ensure_future(
            transport.call(ReplicaId(1), ListOffsetsRequest(topic_partition=LOG, latest=True), 60_000)
        )
        for _ in range(2 * COMING_MAX):
            await transport.call(ReplicaId(1), FetchRequest(replica_id=ReplicaId(2), partitions=()), 60_000)
        assert not of_client.done()
        of_client.cancel()


@pytest.mark.slow
async def test_uploads_that_never_end_hold_little() -> None:
    """Of 180 requests of 4 MiB that lack a byte, a connection sends those on their way, and of the others a window."""
    body = bytes(4 * MIB - 100)
    bound = COMING_MAX * 4 * MIB + 180 * (64 << 10) + 8 * MIB
    """The last is what sockets and frames hold between the two."""
    sent = list[int]()

    def upload(address: str) -> None:
        give_up_s = time.monotonic() + 60
        with Http2(address, give_up_s) as hostile:
            for _ in range(180):
                hostile.open(PRODUCE.full_name, body, claims_bytes=len(body) + 1)
            pauses = 0
            while pauses < 100 and time.monotonic() < give_up_s:
                pauses = 0 if hostile.pump() else pauses + 1
                sent.append(180 * len(body) - sum(len(left) for left, _ in hostile._left.values()))
                time.sleep(0.01 if pauses else 0)

    async def never(_: Request) -> Response:
        raise AssertionError

    async with served(service_of(never)) as address:
        uploading = threading.Thread(target=upload, args=(address,))
        uploading.start()
        await asyncio.to_thread(uploading.join)
    assert COMING_MAX * len(body) <= sent[-1] <= bound
