"""The transport: what was never sent is told from what may have arrived."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import grpc
import pytest

from replica.core.messages import ListOffsetsRequest
from replica.ids import ReplicaId
from replica.rpc.addresses import AddressTable
from replica.rpc.transport import REDIAL_S, GrpcTransport, NotAppliedError, UnknownRequestError
from tests.server.driver_fakes import LOG

ONE = ReplicaId(1)
LIST = ListOffsetsRequest(topic_partition=LOG, latest=True)


@asynccontextmanager
async def transport_to(address: str) -> AsyncIterator[GrpcTransport]:
    """A transport whose replica 1 is at ``address``."""
    transport = GrpcTransport(lambda _: address)
    try:
        yield transport
    finally:
        await transport.close()


@pytest.fixture
def bound_address() -> Iterator[str]:
    """An address whose port is taken but where nobody listens: connections are refused."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address that accepts connections and never says a word, like a replica behind a black hole."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_refused_connection_is_not_applied_and_fails_at_once(bound_address: str) -> None:
    """Nothing is sent to a port that refuses, and the caller need not wait for its deadline to know."""
    async with transport_to(bound_address) as transport:
        began = time.monotonic()
        with pytest.raises(NotAppliedError, match="replica 1"):
            await transport.call(ONE, LIST, 20_000)
        assert time.monotonic() - began < 5


async def test_a_replica_that_is_back_is_dialled_at_once() -> None:
    """However long it was away, and however seldom gRPC tries by then: it may be needed now."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        async with transport_to(f"127.0.0.1:{port.getsockname()[1]}") as transport:
            away_until = time.monotonic() + 1.5
            while time.monotonic() < away_until:
                with pytest.raises(NotAppliedError, match="refuses connections"):
                    await transport.call(ONE, LIST, 20_000)
                await asyncio.sleep(0.02)
            await asyncio.sleep(REDIAL_S)
            port.listen(1)
            with pytest.raises(NotAppliedError, match="could not be reached within 300 ms"):
                await transport.call(ONE, LIST, 300)


async def test_a_replica_that_moves_is_dialled_where_it_is_now(bound_address: str) -> None:
    """The address is asked for with each call, so that nobody goes on knocking at the old door."""
    addresses = {ONE: bound_address}
    transport = GrpcTransport(addresses.__getitem__)
    with pytest.raises(NotAppliedError, match=bound_address):
        await transport.call(ONE, LIST, 20_000)
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.1", 0))
        elsewhere.listen(1)
        elsewhere.setblocking(False)
        addresses[ONE] = f"127.0.0.1:{elsewhere.getsockname()[1]}"
        with pytest.raises(NotAppliedError, match="could not be reached within 500 ms"):
            await transport.call(ONE, LIST, 500)
        caller, _ = elsewhere.accept()
        caller.close()
    await transport.close()


async def test_a_request_of_a_newer_release_is_not_applied_and_not_repeated() -> None:
    """An older one says that it has no such method, and the caller what that means."""
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with transport_to(f"127.0.0.1:{port}") as transport:
        with pytest.raises(UnknownRequestError, match="replica 1 offers no such request there: it runs an older"):
            await transport.call(ONE, LIST, 20_000)
    await server.stop(None)


async def test_a_replica_without_an_address_is_not_applied() -> None:
    """A leader that the table does not name, as others may tell of one, cannot be asked: that is an answer like any."""
    transport = GrpcTransport(AddressTable(advertised={ONE: "127.0.0.1:1"}, overrides={}).address_of)
    with pytest.raises(NotAppliedError, match="no address is known for replica 2"):
        await transport.call(ReplicaId(2), LIST, 20_000)


async def test_a_replica_whose_address_is_lost_while_it_is_dialled_is_not_applied(bound_address: str) -> None:
    """A voter that is removed in the middle of a call has no address any more: the call still has its outcome."""
    voters = {ONE: bound_address}
    transport = GrpcTransport(AddressTable(advertised={}, overrides={}, learned=(lambda: voters,)).address_of)
    call = asyncio.ensure_future(transport.call(ONE, LIST, 20_000))
    await asyncio.sleep(0)
    del voters[ONE]
    with pytest.raises(NotAppliedError, match=f"at {bound_address} refuses"):
        await call
    await transport.close()


async def test_a_silent_peer_is_not_applied(silent_address: str) -> None:
    """A peer that never completes the handshake has been sent no request, which shows well before the deadline."""
    async with transport_to(silent_address) as transport:
        with pytest.raises(NotAppliedError):
            await transport.call(ONE, LIST, 200)
        began = time.monotonic()
        with pytest.raises(NotAppliedError):
            await transport.call(ONE, LIST, 20_000)
        assert time.monotonic() - began < 5


async def test_a_call_that_is_cancelled_while_connecting_leaves_the_transport_usable(silent_address: str) -> None:
    """Giving up on a connection does not disturb a later call to the same replica."""
    async with transport_to(silent_address) as transport:
        call = asyncio.ensure_future(transport.call(ONE, LIST, 5000))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(NotAppliedError):
            await transport.call(ONE, LIST, 100)
