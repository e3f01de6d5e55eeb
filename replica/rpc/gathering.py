"""Writes to one replica that are handed over in the same turn of the event loop travel in one call.

Owns who travels with whom, and that each learns what became of its own write. A call costs both sides the
same whatever it carries, and a producer of many partitions has a batch for each. Source: Kafka's ``Sender``,
which sends what is ready for a broker in one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from replica.bounds import PRODUCED_AT_ONCE_MAX
from replica.core.messages import ProduceRequest, ProduceRequests, ProduceResponse, ProduceResponses
from replica.rpc.failures import MalformedRequestError, TransportError

GATHERED_BYTES_MAX = 1 << 20
"""Records that travel together, but for a batch that is larger by itself."""

Call = Callable[[ProduceRequests, int], Awaitable[ProduceResponses]]
"""Sends one request, and returns its answer within so many milliseconds. Raises TransportError."""


class _Passenger(Struct, frozen=True, kw_only=True):
    """One write, and who waits for its answer."""

    request: ProduceRequest
    timeout_ms: int
    answer: asyncio.Future[ProduceResponse]


class Gathering:
    """The writes to one replica. To cancel a call takes nothing back, and leaves the others alone."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._group: list[_Passenger] = []
        """Those that travel next."""
        self._group_bytes = 0
        self._journeys: set[asyncio.Task[None]] = set()

    async def call(self, request: ProduceRequest, timeout_ms: int) -> ProduceResponse:
        """Send one write with all others of this turn. Raises NotAppliedError or TransportError as each call does."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ProduceResponse] = loop.create_future()
        size = len(request.records)
        is_full = self._group_bytes + size > GATHERED_BYTES_MAX or len(self._group) == PRODUCED_AT_ONCE_MAX
        if is_full or not self._group:
            self._group, self._group_bytes = [], 0
            task = loop.create_task(self._travel(self._group))
            self._journeys.add(task)
            task.add_done_callback(self._journeys.discard)
        self._group.append(_Passenger(request=request, timeout_ms=timeout_ms, answer=answer))
        self._group_bytes += size
        return await answer

    async def _travel(self, group: list[_Passenger]) -> None:
        """Send the writes of a group: a task begins when all others of its turn have joined."""
        if group is self._group:
            self._group = []
        requests = tuple(passenger.request for passenger in group)
        timeout_ms = min(passenger.timeout_ms for passenger in group)
        try:
            responses = (await self._call(ProduceRequests(requests=requests), timeout_ms)).responses
            if len(responses) != len(group):
                raise TransportError(f"{len(responses)} answers came for {len(group)} writes")
        except MalformedRequestError as error:
            if len(group) == 1:
                _fail(group, error)
                return
            for passenger in group:  # One of them is to blame, and the others are not to suffer for it.
                await self._travel([passenger])
        except TransportError as error:
            _fail(group, error)
        except BaseException:
            for passenger in group:
                passenger.answer.cancel()
            raise
        else:
            for passenger, response in zip(group, responses, strict=True):
                if not passenger.answer.done():  # Who waited may have given up.
                    passenger.answer.set_result(response)


def _fail(group: list[_Passenger], error: TransportError) -> None:
    for passenger in group:
        if not passenger.answer.done():
            passenger.answer.set_exception(type(error)(*error.args))
