"""The incoming side: every RPC is one table entry, decoded, handed to the core, and its reply encoded.

Owns what happens at the door: a malformed request, a call too many and, with an authorizer, one that its caller may not
make are refused there, before the core has seen anything, and marked so that the caller knows that nothing was done.
Owns no protocol rule: what can be expressed as an error code in a response is the core's or the authorizer's to say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import grpc
import grpc.aio
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from replica.core.messages import (
    AlterPartitionResponse,
    BrokerRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ProduceRequests,
    ProduceResponse,
    ProduceResponses,
    QuorumPeerRequest,
    ReadIndexRequest,
    Request,
    Response,
)
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.rpc.codec import METHODS, SERVICES, MalformedMessageError, Method
from replica.rpc.transport import NOT_APPLIED_KEY
from replica.server.authorizer import Authorizer
from replica.server.budgets import AnswerBudget, OverBudgetError, Place
from replica.server.callers import Caller, by_certificate
from replica.server.clocks import monotonic_ms
from replica.server.driver import ReplicaStoppedError
from replica.server.histogram import Histogram
from replica.server.leader_addresses import LeaderAddresses
from replica.server.memory_limit import BUDGET as MEMORY
from replica.server.memory_limit import to_end
from replica.server.producer_quota import ProducerQuota
from replica.server.refusal_lines import RefusalLines
from replica.server.refusal_pace import RefusalPace
from replica.server.request_metrics import RequestCounts
from replica.server.throttle import Throttle, ThrottledCall, refusal_of, with_throttle_time
from replica.server.tokens import TokenError
from replica.server.turns import Arrival, Turns

BAD_INPUT = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.VOTER_NOT_FOUND,
    }
)
"""Answers that say that the asker did something wrong: they get a log line, unlike those of an ordinary election."""

_OF_REPLICAS = QuorumPeerRequest | BrokerRequest | ReadIndexRequest
"""What only replicas ask."""

_OF_BOTH = FetchRequest | ListOffsetsRequest | FetchSnapshotRequest
"""What clients ask as well: without a replica id."""

_OF_RECORDS = FetchRequest | DumpLogRequest | FetchSnapshotRequest
"""What says how much it wants: no more is read than its answer may hold."""

_PACED = frozenset(
    {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
)
"""Refusals that a caller may earn again and again: one after the other."""

_CLIENTS_CONTEXT = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """``client_calls_max``: how many calls of clients may be inside at once; one with several writes is as many, and is
    let in as long as the limit is not reached. Calls of replicas are never counted, because the calls that wait inside
    end only when replicas fetch. ``producer_ids_per_hour`` is how many producers one address may be. The others are in
    ``budgets``: what answers may hold, of one connection and of all."""

    client_calls_max: int = 4096
    producer_ids_per_hour: int = 4000
    connection_answer_bytes_max: int = 32 << 20
    answer_bytes_max: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """A call that ends with a status instead of a response; ``not_applied`` if certainly nothing was done for it.

    One that is refused for what is in it counts like a ``call`` of its identity that was served.
    """

    code: grpc.StatusCode
    reason: str
    not_applied: bool
    call: ThrottledCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Late:
    """The answer to a call that a quota has refused: it goes out later, and nothing of the request is kept for that."""

    response: Response | ProduceResponses
    call: ThrottledCall


_OVER_MEMORY = _Refusal(
    code=grpc.StatusCode.RESOURCE_EXHAUSTED,
    reason=f"{MEMORY}: this replica has no memory for requests that are not complete; send them again later",
    not_applied=True,
)


class ReplicaService:
    """Serves every method of the table by ``call``, which hands a request to the core and awaits its response.

    What other replicas ask goes by ``call_of_replica`` where there is one, and they are told by ``leaders`` where those
    are. Without an ``authorizer`` everybody may do everything, and without a ``throttle`` as fast as he likes.
    """

    def __init__(  # noqa: PLR0913 - what stands around the core has a name each
        self,
        *,
        call: Callable[[Request], Awaitable[Response]],
        call_of_replica: Callable[[Request], Awaitable[Response]] | None = None,
        leaders: LeaderAddresses | None = None,
        addresses: Mapping[ReplicaId, str],
        logger: FilteringBoundLogger,
        limits: ServiceLimits = ServiceLimits(),
        now_ms: Callable[[], int] = monotonic_ms,
        counts: RequestCounts | None = None,
        pace: RefusalPace | None = None,
        authorizer: Authorizer | None = None,
        throttle: Throttle | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._call = call
        self._call_of_replica = call_of_replica or call
        self._leaders = leaders
        self._addresses = addresses
        self._lines = RefusalLines(logger)
        self.limits = limits
        self._producers = ProducerQuota(ids_max=limits.producer_ids_per_hour)
        self._now_ms = now_ms
        self._answers = AnswerBudget(
            connection_bytes_max=limits.connection_answer_bytes_max, all_bytes_max=limits.answer_bytes_max
        )
        self._counts = counts or RequestCounts()
        self._pace = pace or RefusalPace()
        self._authorizer = authorizer
        self._throttle = throttle
        self._turns = turns or Turns()
        self._client_calls = 0
        self._idle_streams: dict[asyncio.Task[Any], str] = {}
        """Those that wait for a request, and by which connection."""
        self._over_memory: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    def configure(self, limits: ServiceLimits) -> None:
        """Go by other limits from now on; who is inside stays."""
        self.limits = limits
        self._producers.ids_max = limits.producer_ids_per_hour
        self._answers.connection_bytes_max = limits.connection_answer_bytes_max
        self._answers.all_bytes_max = limits.answer_bytes_max

    @property
    def answer_bytes(self) -> int:
        """What is set aside for answers, or made and not taken yet."""
        return self._answers.held_bytes

    def handlers(self, *, with_peers: bool = True) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return what a gRPC server needs to route to this service. Bytes in, bytes out: we decode by ourselves.

        Without ``with_peers`` it is for clients alone: what only replicas ask is not offered, or refused.
        """
        handlers: dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]] = {service: {} for service in SERVICES}
        for method in METHODS.values():
            if with_peers or not issubclass(method.request_type, _OF_REPLICAS):
                handle = partial(self._handle, method, with_peers=with_peers)
                handlers[method.service][method.rpc] = grpc.stream_stream_rpc_method_handler(handle)
        return tuple(grpc.method_handlers_generic_handler(*service) for service in handlers.items())

    async def _handle(
        self, method: Method[Any, Any], _requests: object, context: _CLIENTS_CONTEXT, *, with_peers: bool = True
    ) -> None:
        """Serve a stream: one call, and each further one that the caller makes on it. A refusal ends the stream."""
        stream = asyncio.current_task()
        assert stream is not None, "gRPC serves each stream in a task"
        caller: Caller | None = None
        refusal: _Refusal | _Late | None
        with await self._turns.arrival(context.peer()) as arrival:
            while (request := await self._next_request(stream, context)) is not None:
                try:
                    if self._authorizer is not None:
                        caller = self._authorizer.believed(caller, context, method.rpc)
                    elif caller is None and self._throttle is not None and self._throttle.is_on:
                        caller = by_certificate(context)
                    refusal = await self._serve(method, request, context, arrival, caller, with_peers=with_peers)
                except TokenError as error:
                    refusal = _Refusal(code=grpc.StatusCode.UNAUTHENTICATED, reason=str(error), not_applied=True)
                # gRPC keeps an aborted call, with the frame that aborted it, until the garbage collector comes by.
                # Requests can be large, so that frame must not hold one.
                del request
                if isinstance(refusal, _Late):
                    encoded = method.response.encode(refusal.response)
                    await context.write(await self._delayed(method, refusal.response, encoded, refusal.call))
                elif refusal is not None:
                    if refusal.call is not None and self._throttle is not None:
                        await self._throttle.end(refusal.call, 0)
                    if refusal.code in _PACED:
                        await self._pace.wait_turn(context.peer())
                    await _abort(refusal, context)

    async def _next_request(self, stream: asyncio.Task[Any], context: _CLIENTS_CONTEXT) -> bytes | None:
        """Wait for the next message of a stream, or its end.

        Where this side ends it the status is OK: a caller that makes one call a stream may have had its answer, and
        takes it for good only with that status. One that has just made another call does not know what became of it.
        """
        self._idle_streams[stream] = context.peer()
        try:
            message = None if self._is_ending else await context.read()
        except asyncio.CancelledError:
            if stream in self._over_memory:
                self._over_memory.discard(stream)
                await _abort(_OVER_MEMORY, context)
            if not self._is_ending:
                raise
            return None
        finally:
            del self._idle_streams[stream]
        return message if isinstance(message, bytes) else None

    def end_waiting_streams(self) -> None:
        """End streams that wait for a request, for want of memory: what has come of it is given up."""
        ended = to_end(Counter(self._idle_streams.values()))
        streams = [stream for stream, connection in self._idle_streams.items() if connection in ended]
        self._counts.over_budget[MEMORY] += len(streams)
        self._lines.warn(error=MEMORY, connections=", ".join(sorted(ended)[:10]))
        for stream in streams:
            self._over_memory.add(stream)
            stream.cancel()

    def end_idle_streams(self) -> None:
        """Serve what is inside to its end, and nothing after that: the server is about to stop."""
        self._is_ending = True
        for stream in tuple(self._idle_streams):
            stream.cancel()

    async def _serve(
        self,
        method: Method[Any, Any],
        encoded: bytes,
        context: _CLIENTS_CONTEXT,
        arrival: Arrival,
        caller: Caller | None = None,
        *,
        with_peers: bool,
    ) -> _Refusal | _Late | None:
        """Decode a request, let the core answer it, and send the answer."""
        try:
            request = method.request.decode(encoded)
        except MalformedMessageError as error:
            call, reason = self._counted(method.rpc, caller, encoded), f"malformed {method.rpc}: {error}"
            return self._refused(method.rpc, context, grpc.StatusCode.INVALID_ARGUMENT, reason, call)
        if is_from_replica(request):
            if not with_peers:
                call = self._counted(method.rpc, caller, encoded)
                reason = f"{method.rpc} of a replica is served at its --peer-listen"
                return self._refused(method.rpc, context, grpc.StatusCode.UNIMPLEMENTED, reason, call)
            why_not = None if self._authorizer is None else self._authorizer.why_not_replica(request, caller)
            if why_not is not None:
                return _Refusal(code=grpc.StatusCode.PERMISSION_DENIED, reason=why_not, not_applied=True)
            arrival.end()
            if self._leaders is not None:
                self._leaders.heard.on_request(request)
            took = self._counts.of_replicas[method.rpc]
            return await self._answer(method, context, self._call_of_replica(request), took, is_to_replica=True)
        if (turn := arrival.take_turn()) is not None:
            await turn
        arrival.end()
        refusal = self._full(method.rpc, context)
        if refusal is not None:
            return refusal
        calls = len(request.requests) if isinstance(request, ProduceRequests) else 1
        throttled = self._counted(method.rpc, caller, encoded, calls)
        if throttled is not None and throttled.refused_by is not None:
            response = self._completed(method.rpc, refusal_of(request, throttled), context)
            return _Late(response=response, call=throttled)
        self._client_calls += calls
        took = self._counts.of_clients[method.rpc]
        try:
            if isinstance(request, ProduceRequests):  # Its answer is small, and reads do not keep writes out.
                produced = self._produced(request, context, caller)
                return await self._answer(method, context, produced, took, throttled=throttled)
            with self._placed(request, context) as (place, bounded):
                answered = self._answered(method.rpc, bounded, context, caller)
                return await self._answer(method, context, answered, took, place=place, throttled=throttled)
        except OverBudgetError as error:
            return self._over_budget(method.rpc, context, error)
        finally:
            self._client_calls -= calls

    def _counted(self, rpc: str, caller: Caller | None, encoded: bytes, calls: int = 1) -> ThrottledCall | None:
        """Count a call of a client for its quotas, where anybody has some."""
        if caller is None or self._throttle is None or not self._throttle.is_on:
            return None
        return self._throttle.begin(rpc, caller, request_bytes=len(encoded), calls=calls)

    async def _answer(
        self,
        method: Method[Any, Any],
        context: _CLIENTS_CONTEXT,
        answering: Awaitable[Response | ProduceResponses],
        took: Histogram,
        *,
        place: Place | None = None,
        throttled: ThrottledCall | None = None,
        is_to_replica: bool = False,
    ) -> _Refusal | None:
        """Wait for the core's answer, and send it: until it has gone out, it takes its place."""
        began_s = self._counts.seconds()
        try:
            response = await answering
        except ReplicaStoppedError as error:
            self._counts.on_errors(method.rpc, (grpc.StatusCode.UNAVAILABLE.name,))
            return _Refusal(code=grpc.StatusCode.UNAVAILABLE, reason=str(error), not_applied=error.not_applied)
        response = self._completed(method.rpc, response, context)
        if is_to_replica and self._leaders is not None:
            response = self._leaders.answer(response)
        answer: bytes = method.response.encode(response)
        took.observe(self._counts.seconds() - began_s)
        if place is not None:
            self._answers.resize(place, len(answer))
        if throttled is not None:
            self._client_calls -= throttled.calls  # While it is delayed, it takes nobody's turn.
            try:
                answer = await self._delayed(method, response, answer, throttled)
            finally:
                self._client_calls += throttled.calls
        del response  # Whoever reads slowly has the answer kept for long, and these are its records once more.
        await context.write(answer)
        return None

    async def _delayed(
        self, method: Method[Any, Any], response: Response | ProduceResponses, answer: bytes, call: ThrottledCall
    ) -> bytes:
        """An answer, once its quota lets it go; it tells how long its client is to wait besides."""
        assert self._throttle is not None, call
        left_ms = await self._throttle.end(call, len(answer))
        delayed: bytes = method.response.encode(with_throttle_time(response, left_ms)) if left_ms else answer
        return delayed

    @contextmanager
    def _placed(self, request: Request, context: _CLIENTS_CONTEXT) -> Iterator[tuple[Place, Request]]:
        """Set aside what an answer may have until the connection has all of it, and ask for no more than that.

        Raises OverBudgetError.
        """
        wants_bytes = request.max_bytes if isinstance(request, _OF_RECORDS) else 0
        place = self._answers.admit(context.peer(), wants_bytes=wants_bytes)
        if isinstance(request, _OF_RECORDS) and wants_bytes > 0:
            request = replace(request, max_bytes=min(wants_bytes, place.size_bytes))
        try:
            yield place, request
        finally:
            self._answers.give_back(place)

    async def _answered(
        self, rpc: str, request: Request, context: _CLIENTS_CONTEXT, caller: Caller | None = None
    ) -> Response:
        """Have a client's request answered, after the authorizer has let its caller pass."""
        if caller is not None and self._authorizer is not None:
            return await self._authorizer.answer(request, caller, partial(self._answered, rpc, context=context))
        return self._quota_refusal(rpc, request, context) or await self._call(request)

    async def _produced(
        self, request: ProduceRequests, context: _CLIENTS_CONTEXT, caller: Caller | None
    ) -> ProduceResponses:
        """Hand each write to the core for itself, in order, and wait until all have their answers."""
        writes = [self._answered("Produce", write, context, caller) for write in request.requests]
        answers = [await writes[0]] if len(writes) == 1 else await asyncio.gather(*writes, return_exceptions=True)
        responses = tuple(answer for answer in answers if isinstance(answer, ProduceResponse))
        if len(responses) == len(answers):
            return ProduceResponses(responses=responses)
        (failure, *_) = (answer for answer in answers if isinstance(answer, BaseException))
        if isinstance(failure, ReplicaStoppedError):
            not_applied = all(isinstance(answer, ReplicaStoppedError) and answer.not_applied for answer in answers)
            raise ReplicaStoppedError(str(failure), not_applied=not_applied)
        raise failure

    def _quota_refusal(self, rpc: str, request: Request, context: _CLIENTS_CONTEXT) -> Response | None:
        """Refuse one more producer of an address that has too many."""
        if self._producers.admits(request, context.peer(), self._now_ms()):
            return None
        self._lines.warn(rpc=rpc, peer=context.peer(), error="producer_ids_per_hour")
        return self._producers.refusal(request)

    def _completed(
        self, rpc: str, response: Response | ProduceResponses, context: _CLIENTS_CONTEXT
    ) -> Response | ProduceResponses:
        """Note what the core has answered, log that the asker was wrong, and add what the core cannot know."""
        errors = _errors_of(response)
        self._counts.on_errors(rpc, errors)
        for refused in sorted(BAD_INPUT.intersection(errors)):
            self._lines.warn(rpc=rpc, peer=context.peer(), error=refused.value)
        if isinstance(response, InitProducerIdResponse):
            self._producers.on_answer(response, context.peer(), self._now_ms())
        if isinstance(response, DescribeReplicaResponse):
            return replace(response, addresses=self._addresses)
        return response

    def _full(self, rpc: str, context: _CLIENTS_CONTEXT) -> _Refusal | None:
        """Refuse one more call of a client where there are too many."""
        if self._client_calls < self.limits.client_calls_max:
            return None
        reason = f"{self._client_calls} calls are being served, the most this replica takes; try again later"
        return self._refused(rpc, context, grpc.StatusCode.RESOURCE_EXHAUSTED, reason)

    def _over_budget(self, rpc: str, context: _CLIENTS_CONTEXT, error: OverBudgetError) -> _Refusal:
        """Refuse, and count by which budget."""
        self._counts.over_budget[error.budget] += 1
        return self._refused(rpc, context, grpc.StatusCode.RESOURCE_EXHAUSTED, f"{error.budget}: {error}")

    def _refused(
        self,
        rpc: str,
        context: _CLIENTS_CONTEXT,
        code: grpc.StatusCode,
        reason: str,
        call: ThrottledCall | None = None,
    ) -> _Refusal:
        """Log and count that a call ends with a status at the door, before anything was done for it."""
        self._counts.on_errors(rpc, (code.name,))
        self._lines.warn(rpc=rpc, peer=context.peer(), error=code.name, reason=reason)
        return _Refusal(code=code, reason=reason, not_applied=True, call=call)


async def _abort(refusal: _Refusal, context: _CLIENTS_CONTEXT) -> NoReturn:
    await context.abort(refusal.code, refusal.reason, ((NOT_APPLIED_KEY, "1"),) if refusal.not_applied else ())


def is_from_replica(request: Request | ProduceRequests) -> bool:
    """Tell whether another replica asks; fetches and their like say so by ``replica_id``."""
    if isinstance(request, _OF_BOTH):
        return request.replica_id is not None
    return isinstance(request, _OF_REPLICAS)


def _errors_of(response: Response | ProduceResponses) -> list[ErrorCode]:
    """What a response complains of: of any log that it is about, and of each of several writes."""
    if isinstance(response, ProduceResponses):
        errors = [each.error for each in response.responses]
    elif isinstance(response, FetchResponse | AlterPartitionResponse):
        errors = [response.error, *(part.error for part in response.partitions)]
    else:
        errors = [response.error]
    return [error for error in errors if error is not ErrorCode.NONE]
