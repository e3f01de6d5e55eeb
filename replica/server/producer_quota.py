"""How many producers one address may be: a quota, so that one caller's ids cannot fill what all share.

Owns the count, per address and hour, of ids that are asked for and of ids that batches are written with. A partition
remembers a bounded number of producers for a day, and takes no new ones while it is full; whoever comes with many ids
would keep the others out. Knows no protocol and no clock: time is handed in. Source: KIP-936, which throttles likewise.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count

from replica.core.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from replica.errors import ErrorCode
from replica.records import NO_PRODUCER_ID, claimed_producer_id

HOUR_MS = 3_600_000
ADDRESSES_MAX = 1000
"""Of how many addresses ids are counted at once; beyond it the one that came first is counted anew."""


class ProducerQuota:
    """At most ``ids_max`` producers of one address in an hour, which begins with the first of them."""

    def __init__(self, *, ids_max: int) -> None:
        self._ids_max = ids_max
        self._hours: OrderedDict[str, tuple[int, set[int]]] = OrderedDict()
        """When an address' hour began, and the ids that it has come with since."""
        self._given = count(NO_PRODUCER_ID, -1)
        """Stand for ids that were asked for, which nobody knows yet: no producer has one of these."""

    def admits(self, request: Request, peer: str, now_ms: int) -> bool:
        """Count what a client asks; whether it may. ``peer`` is an address with a port, which does not matter."""
        match request:
            case InitProducerIdRequest():
                return self._admits(next(self._given), peer, now_ms)
            case ProduceRequest(records=records) if (producer_id := claimed_producer_id(records)) > NO_PRODUCER_ID:
                return self._admits(producer_id, peer, now_ms)
            case _:
                return True

    def refusal(self, request: Request) -> Response:
        """The answer to a request that may not be; nothing was done for it, and it may be in an hour."""
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        assert isinstance(request, ProduceRequest), request
        message = f"{self._ids_max} producers of this address have written within an hour, the most there may be"
        return ProduceResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED, message=message, not_appended=True)

    def _admits(self, producer_id: int, peer: str, now_ms: int) -> bool:
        address = peer.rpartition(":")[0]
        began_ms, ids = self._hours.get(address, (now_ms, set()))
        if now_ms - began_ms >= HOUR_MS:
            began_ms, ids = now_ms, set()
        self._hours[address] = began_ms, ids
        if len(self._hours) > ADDRESSES_MAX:
            self._hours.popitem(last=False)
        if producer_id in ids:
            return True
        if len(ids) >= self._ids_max:
            return False
        ids.add(producer_id)
        return True
