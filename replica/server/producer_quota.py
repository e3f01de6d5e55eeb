"""How many producers one address may be: a quota, so that one caller's ids cannot fill what all share.

Owns the count, per address and hour, of ids that are asked for and of ids that batches are written with. A partition
remembers a bounded number of producers for a day, and takes no new ones while it is full; whoever comes with many ids
would keep the others out. Knows no protocol and no clock: time is handed in. Source: KIP-936, which throttles likewise.
"""

from __future__ import annotations

from collections import OrderedDict

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
        self.ids_max = ids_max
        self._hours: OrderedDict[str, tuple[int, set[int]]] = OrderedDict()
        """When an address' hour began, and the ids that it has come with since."""

    def admits(self, request: Request, peer: str, now_ms: int) -> bool:
        """Whether a client may ask this; a new producer that writes counts, one that asks for its id once it has that.

        ``peer`` is an address with a port, which does not matter.
        """
        match request:
            case InitProducerIdRequest():
                return len(self._ids_of(peer, now_ms)) < self.ids_max
            case ProduceRequest(records=records) if (producer_id := claimed_producer_id(records)) > NO_PRODUCER_ID:
                return self._admits(producer_id, peer, now_ms)
            case _:
                return True

    def on_answer(self, response: Response, peer: str, now_ms: int) -> None:
        """Count an id that was given to a client; what nobody was given, for want of a controller, counts nothing."""
        if isinstance(response, InitProducerIdResponse) and response.producer_id is not None:
            self._ids_of(peer, now_ms).add(response.producer_id)

    def refusal(self, request: Request) -> Response:
        """The answer to a request that may not be; nothing was done for it, and it may be in an hour."""
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        assert isinstance(request, ProduceRequest), request
        message = f"{self.ids_max} producers of this address have written within an hour, the most there may be"
        return ProduceResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED, message=message, not_appended=True)

    def _admits(self, producer_id: int, peer: str, now_ms: int) -> bool:
        ids = self._ids_of(peer, now_ms)
        if producer_id not in ids and len(ids) >= self.ids_max:
            return False
        ids.add(producer_id)
        return True

    def _ids_of(self, peer: str, now_ms: int) -> set[int]:
        address = peer.rpartition(":")[0]
        began_ms, ids = self._hours.get(address, (now_ms, set()))
        if now_ms - began_ms >= HOUR_MS:
            began_ms, ids = now_ms, set()
        self._hours[address] = began_ms, ids
        if len(self._hours) > ADDRESSES_MAX:
            self._hours.popitem(last=False)
        return ids
