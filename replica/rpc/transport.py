"""Outgoing calls: one channel per replica, dialled through the address table, and an honest account of each failure.

Owns the channels, and the one thing that gRPC does not tell by itself: whether a failed request may have reached the
other side. A request is handed to gRPC only on a connection that is ready; what fails before that was never sent, and
what fails after it is unknown, unless the server says that it refused at the door. Knows nothing of retries.

To gRPC every call is a stream, a unary one a stream of one message each way. Most of what it costs is its beginning and
its end, so a stream that was answered is kept for the next call of its method: one call after the other goes by it, and
what is given up ends it. Measured beside a call with a stream of its own: a quarter of the processor time at the server
with one call under way, a ninth with 256.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import grpc
import grpc.aio

from replica.core.messages import ProduceRequest, ProduceRequests, ProduceResponses, Request, Response
from replica.ids import ReplicaId
from replica.rpc.addresses import InvalidAddressError
from replica.rpc.channels import CHANNEL_CALLS_MAX, PING_MS, channel_options
from replica.rpc.codec import MalformedMessageError, method_of
from replica.rpc.failures import (
    DeniedError,
    MalformedRequestError,
    NotAppliedError,
    RefusedError,
    TransportError,
    UnknownRequestError,
)
from replica.rpc.gathering import Gathering
from replica.rpc.tls import TlsError, TlsFiles, Token

__all__ = [
    "NOT_APPLIED_KEY",
    "REDIAL_S",
    "DeniedError",
    "GrpcTransport",
    "LostConnection",
    "MalformedRequestError",
    "NotAppliedError",
    "RefusedError",
    "TransportError",
    "UnknownRequestError",
]

NOT_APPLIED_KEY = "highwater-not-applied"
"""Trailing metadata by which a server marks a status that it gave before it looked at the request any further."""

_WAITING = frozenset({grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING})


REDIAL_S = 0.1
"""How long after a dial in vain the next one may come. gRPC itself waits longer and longer, up to a second."""

KEPT_STREAM_BYTES_MAX = 64 << 10
"""A larger request has a stream of its own: in bulk, records of 1 KB came to 21 to 29 MB/s on kept streams, and to 84
so. Why is not known, for a bare echo of such messages is quicker on a kept one."""

_IN_VAIN: Mapping[grpc.StatusCode, type[NotAppliedError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: MalformedRequestError,
    grpc.StatusCode.PERMISSION_DENIED: DeniedError,
    grpc.StatusCode.UNAUTHENTICATED: DeniedError,
}
"""What a refusal at the door says that another attempt would only hear again."""

_UNKNOWN = "Method not found!"
"""What gRPC itself says of a method that the other side does not have."""

_TOO_LARGE = "SERVER: Received message larger than max"
"""What gRPC itself says of a request that it has not even collected. There is no mark with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostConnection:
    """A connection to an address that is no more; it ``was_ready``, or was never there."""

    address: str
    was_ready: bool


_Stream = grpc.aio.StreamStreamCall[bytes, bytes]


class _Peer:
    """The connection to where a replica is, and the streams on it: of each method those that no call uses now."""

    def __init__(self, address: str, ping_ms: int, tls: TlsFiles | None) -> None:
        self.address = address
        options = channel_options(ping_ms=ping_ms, with_tls=tls is not None)
        if tls is None:
            self.channel = grpc.aio.insecure_channel(address, options=options)
        else:
            self.channel = grpc.aio.secure_channel(address, tls.channel_credentials(), options=options)
        self.redial_at_s = asyncio.get_running_loop().time() + REDIAL_S
        self._begins: dict[str, grpc.aio.StreamStreamMultiCallable[bytes, bytes]] = {}
        self._idle: defaultdict[str, list[_Stream]] = defaultdict(list)
        self._in_use = 0
        self._token = None if tls is None or tls.token_file is None else Token(tls.token_file)
        self._said: tuple[tuple[str, str], ...] = ()
        """What the streams have said of who calls."""

    def _say(self) -> None:
        """Say on streams to come who calls; those that have said otherwise are used no more."""
        if self._token is None or (said := self._token.metadata()) == self._said:
            return
        self._said = said
        for idle in self._idle.values():
            while idle:
                idle.pop().cancel()

    async def call(self, method: str, encoded: bytes) -> bytes:
        """Send one message and return the one that answers it; raises AioRpcError. A stream that failed is ended."""
        if self._token is not None:
            self._say()
        if len(encoded) > KEPT_STREAM_BYTES_MAX:
            once: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
            return await once(encoded, metadata=self._said, wait_for_ready=False)
        idle = self._idle[method]
        while idle and idle[-1].done():  # It ended while nobody used it.
            idle.pop()
        stream = idle.pop() if idle else self._begin(method)
        self._in_use += 1
        try:
            try:
                await stream.write(encoded)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.INTERNAL:
                    raise
                # All that gRPC says of a stream that the other side has ended meanwhile; its status is lost then.
                raise TransportError(f"{self.address} ended {method} before the request was sent whole") from error
            answer = await stream.read()
        except BaseException:
            stream.cancel()
            raise
        finally:
            self._in_use -= 1
        if not isinstance(answer, bytes):
            raise TransportError(f"{self.address} ended {method} without an answer")
        idle.append(stream)
        return answer

    def _begin(self, method: str) -> _Stream:
        """Begin a stream, in the place of an idle one where there are as many as there may be."""
        if self._in_use + sum(map(len, self._idle.values())) >= CHANNEL_CALLS_MAX:
            next(filter(None, self._idle.values())).pop().cancel()
        begin = self._begins.get(method)
        if begin is None:
            begin = self._begins[method] = self.channel.stream_stream(method)
        return begin(metadata=self._said, wait_for_ready=False)

    @property
    def is_ready(self) -> bool:
        """Whether a request would be sent at once; otherwise a connection is begun."""
        return self.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY


class GrpcTransport:
    """Calls replicas by id. ``address_of`` is asked for each call: a broker may come back at another address.

    A replica that is silent for ``ping_ms`` milliseconds is pinged, and given up if it does not answer within a second.
    Writes to one replica travel together (``gathering``). Without ``tls`` anybody on the way can read and change them.
    """

    def __init__(
        self, address_of: Callable[[ReplicaId], str], *, ping_ms: int = PING_MS, tls: TlsFiles | None = None
    ) -> None:
        self._address_of = address_of
        self._ping_ms = ping_ms
        self._tls = tls
        self._peers: dict[ReplicaId, _Peer] = {}
        self._turns: defaultdict[ReplicaId, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(CHANNEL_CALLS_MAX)
        )
        self._closing: set[asyncio.Task[None]] = set()
        self._writes: dict[ReplicaId, Gathering] = {}

    @overload
    async def call(self, replica_id: ReplicaId, request: ProduceRequests, timeout_ms: int) -> ProduceResponses: ...

    @overload
    async def call(self, replica_id: ReplicaId, request: Request, timeout_ms: int) -> Response: ...

    async def call(self, replica_id: ReplicaId, request: Request | ProduceRequests, timeout_ms: int) -> Any:
        """Send one request and return its answer; raises NotAppliedError or TransportError within ``timeout_ms``.

        A write waits for the others of this turn of the event loop, and comes back here with them.
        """
        if isinstance(request, ProduceRequest):
            writes = self._writes.get(replica_id)
            if writes is None:
                writes = self._writes[replica_id] = Gathering(partial(self.call, replica_id))
            return await writes.call(request, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        turns = self._turns[replica_id]
        if turns.locked():
            await self._wait_turn(turns, replica_id, deadline, timeout_ms)
        else:
            await turns.acquire()  # At once.
        try:
            peer = self._peer(replica_id)
            if not peer.is_ready:
                if deadline - loop.time() > REDIAL_S:  # With less, a new dial would only hide what the last one met.
                    peer = self._dialled_anew(replica_id, peer)
                await self._wait_ready(peer, replica_id, deadline, timeout_ms)
            method = method_of(request)
            encoded = method.request.encode(request)
            async with asyncio.timeout_at(max(deadline, loop.time() + 0.001)):
                answer = await peer.call(method.full_name, encoded)
            response = method.response.decode(answer)
        except TimeoutError:
            raise TransportError(f"replica {replica_id} has not answered within {timeout_ms} ms") from None
        except grpc.aio.AioRpcError as error:
            raise _classified(error, replica_id) from None
        except MalformedMessageError as error:
            raise TransportError(f"replica {replica_id} answered what cannot be read: {error}") from error
        finally:
            turns.release()
        return response

    async def wait_lost(self, replica_id: ReplicaId) -> LostConnection:
        """Keep a connection to a replica, and return when it ends, or when none can be had.

        Raises NotAppliedError where no address is known.
        """
        peer = self._dialled_anew(replica_id, self._peer(replica_id))
        while (state := peer.channel.get_state(try_to_connect=True)) in (*_WAITING, grpc.ChannelConnectivity.READY):
            await peer.channel.wait_for_state_change(state)
            if state is grpc.ChannelConnectivity.READY:
                return LostConnection(address=peer.address, was_ready=True)
        return LostConnection(address=peer.address, was_ready=False)

    async def close(self) -> None:
        """Close every channel; calls in flight fail."""
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            await peer.channel.close()
        await asyncio.gather(*self._closing)

    def _peer(self, replica_id: ReplicaId) -> _Peer:
        """Ask where the replica is, once a call: a moment later nobody may know any more."""
        try:
            address = self._address_of(replica_id)
        except InvalidAddressError as error:
            raise NotAppliedError(str(error)) from error
        known = self._peers.get(replica_id)
        if known is not None and known.address == address:
            return known
        dialled = self._dialled(replica_id, address)
        if known is not None:
            self._close_later(known.channel)
        return dialled

    def _dialled(self, replica_id: ReplicaId, address: str) -> _Peer:
        try:
            dialled = self._peers[replica_id] = _Peer(address, self._ping_ms, self._tls)
        except TlsError as error:
            raise NotAppliedError(str(error)) from error
        return dialled

    def _dialled_anew(self, replica_id: ReplicaId, peer: _Peer) -> _Peer:
        """Dial again where the last dial was in vain: a replica may be back, and is needed now.

        1. B of A, B and C is restarted. Nothing of A's is for B, and gRPC's pauses between two dials have grown. 2. C,
        which leads, is killed. 3. A, with a pause left of a second, would not get the vote of B meanwhile.
        """
        now_s = asyncio.get_running_loop().time()
        if peer.channel.get_state() is not grpc.ChannelConnectivity.TRANSIENT_FAILURE or now_s < peer.redial_at_s:
            return peer
        dialled = self._dialled(replica_id, peer.address)
        self._close_later(peer.channel)
        return dialled

    def _close_later(self, channel: grpc.aio.Channel) -> None:
        """Close the channel to where a replica was; whatever is in flight there fails."""
        task = asyncio.get_running_loop().create_task(channel.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _wait_turn(
        self, turns: asyncio.Semaphore, replica_id: ReplicaId, deadline: float, timeout_ms: int
    ) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await turns.acquire()
        except TimeoutError:
            reason = f"{CHANNEL_CALLS_MAX} calls of replica {replica_id} were under way for {timeout_ms} ms"
            raise NotAppliedError(reason) from None

    async def _wait_ready(self, peer: _Peer, replica_id: ReplicaId, deadline: float, timeout_ms: int) -> None:
        """Wait for a connection. A refused or timed-out attempt fails at once: the caller knows where else to go."""
        try:
            async with asyncio.timeout_at(deadline):
                while (state := peer.channel.get_state(try_to_connect=True)) in _WAITING:
                    await peer.channel.wait_for_state_change(state)
        except TimeoutError:
            raise NotAppliedError(f"replica {replica_id} could not be reached within {timeout_ms} ms") from None
        if state is not grpc.ChannelConnectivity.READY:
            raise RefusedError(f"replica {replica_id} at {peer.address} refuses connections")


def _classified(error: grpc.aio.AioRpcError, replica_id: ReplicaId) -> TransportError:
    """Translate a gRPC status; only the server's own mark makes it certain that nothing was done."""
    message = f"replica {replica_id}: {error.code().name}: {error.details()}"
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in (error.details() or ""):
        return MalformedRequestError(message)
    if error.code() is grpc.StatusCode.UNIMPLEMENTED and error.details() == _UNKNOWN:
        return UnknownRequestError(
            f"replica {replica_id} offers no such request there: it runs an older release, or others ask it elsewhere"
        )
    if not any(key == NOT_APPLIED_KEY for key, _ in error.trailing_metadata()):
        return TransportError(message)
    return _IN_VAIN.get(error.code(), NotAppliedError)(message)
