"""Back-pressure by quotas: a call whose identity has taken more than its limits is answered later, or refused.

Owns when: what is owed delays the answer, by at most ``DELAY_MS_MAX``; who owed more than that before is refused later
still, and nothing was done. The answer tells as ``throttle_time_ms`` what is left to pay then. What is written counts
when it comes, what is read once that is known. Calls of replicas never come here. Source: KIP-219, Kafka's
``ClientQuotaManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replica.bounds import INT32_MAX
from replica.core.messages import FetchResponse, ProduceRequests, ProduceResponses, Response
from replica.core.refusals import refusal
from replica.errors import ErrorCode
from replica.server.callers import ANONYMOUS, Caller
from replica.server.quotas import Identity, Quota, Quotas
from replica.server.request_metrics import RequestCounts

DELAY_MS_MAX = 1000
"""An answer waits no longer: clients give up after a while, and what they do not hear of they do again."""

REFUSAL_DELAY_MS = 5000
"""How long a refusal waits: it costs as much as an answer, and who ignores it has ever more calls that wait, up to what
a connection may have at once."""

_BYTES: Mapping[str, Quota] = MappingProxyType(
    {
        "Produce": Quota.PRODUCER_BYTES,
        "Apply": Quota.PRODUCER_BYTES,
        "Fetch": Quota.CONSUMER_BYTES,
        "Query": Quota.CONSUMER_BYTES,
        "DumpLog": Quota.CONSUMER_BYTES,
    }
)
"""What the bytes of an RPC count for: those of the request where it writes, those of the answer where it reads."""


class ThrottledCall(Struct, frozen=True, kw_only=True):
    """A call of an identity that may have limits; ``refused_by`` is the quota of which it owed too much before."""

    identity: Identity
    bytes_quota: Quota | None
    calls: int = 1
    refused_by: Quota | None = None

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """What the call takes of."""
        return (Quota.REQUESTS,) if self.bytes_quota is None else (Quota.REQUESTS, self.bytes_quota)


class Throttle:
    """Delays and refuses by ``quotas``; ``now_ms`` and ``sleep`` are the time that it goes by."""

    def __init__(
        self,
        quotas: Quotas,
        *,
        counts: RequestCounts,
        now_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._quotas = quotas
        self._counts = counts
        self._now_ms = now_ms
        self._sleep = sleep

    @property
    def is_on(self) -> bool:
        """Whether anybody has a limit."""
        return self._quotas.are_set

    def begin(self, rpc: str, caller: Caller, *, request_bytes: int, calls: int = 1) -> ThrottledCall:
        """A client's request has come, which counts for so many ``calls``: count it, unless it is refused."""
        now_ms, identity, bytes_quota = self._now_ms(), identity_of(caller), _BYTES.get(rpc)
        call = ThrottledCall(identity=identity, bytes_quota=bytes_quota, calls=calls)
        owed_ms, quota = self._quotas.owed_ms(identity, call.quotas, now_ms)
        if owed_ms > DELAY_MS_MAX:
            return replace(call, refused_by=quota)
        self._quotas.take(identity, Quota.REQUESTS, calls, now_ms)
        if bytes_quota is Quota.PRODUCER_BYTES:
            self._quotas.take(identity, bytes_quota, request_bytes, now_ms)
        return call

    async def end(self, call: ThrottledCall, answer_bytes: int) -> int:
        """Count the answer of a call, and wait as long as it is delayed. Returns what its client is to wait besides."""
        now_ms = self._now_ms()
        if call.bytes_quota is Quota.CONSUMER_BYTES and call.refused_by is None:
            self._quotas.take(call.identity, call.bytes_quota, answer_bytes, now_ms)
        owed_ms, quota = self._quotas.owed_ms(call.identity, call.quotas, now_ms)
        if quota is None:
            return 0
        outcome, delay_ms = "delayed", min(owed_ms, DELAY_MS_MAX)
        if call.refused_by is not None:
            outcome, delay_ms = "refused", REFUSAL_DELAY_MS
        self._counts.on_throttled(quota, outcome, delay_ms)
        await self._sleep(delay_ms / 1000)
        return min(max(0, owed_ms - delay_ms), INT32_MAX)


def identity_of(caller: Caller) -> Identity:
    """Whose limits a call takes of. Who says no name is limited address by address, so that strangers share nothing."""
    if caller.principal == ANONYMOUS:
        return Identity(ANONYMOUS, caller.address.rpartition(":")[0])
    return Identity(caller.principal)


def refusal_of(request: Any, call: ThrottledCall) -> Any:
    """The answer to a call that a quota does not allow, with a sentence where it has room for one."""
    if isinstance(request, ProduceRequests):
        return ProduceResponses(responses=tuple(refusal_of(each, call) for each in request.requests))
    response: Any = refusal(request, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    if "message" not in response.__struct_fields__:
        return response
    sentence = f"{call.identity} has used up {call.refused_by} for more than {DELAY_MS_MAX} ms; ask again later"
    return replace(response, message=sentence)


def with_throttle_time(response: Response | ProduceResponses, throttle_time_ms: int) -> Response | ProduceResponses:
    """The answer that tells how long its client is to ask nothing more, where it has room for that."""
    if isinstance(response, ProduceResponses):
        told = (replace(each, throttle_time_ms=throttle_time_ms) for each in response.responses)
        return ProduceResponses(responses=tuple(told))
    if isinstance(response, FetchResponse):
        return replace(response, throttle_time_ms=throttle_time_ms)
    return response
