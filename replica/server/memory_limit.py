"""What all requests that are not complete may hold: while the process has too much memory, such calls are ended.

Owns when. gRPC collects a whole request before anybody sees it, and does not tell what it holds meanwhile: a call that
waits for its request may hold nothing, or all but a byte. So the process is looked at as a whole, and what is ended is
half of the calls that wait, those of the connections that have most: whoever holds much by requests that never end has
many, and a client whose stream is ended begins another. Source: Kafka's ``queued.max.request.bytes``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from replica.server.memory import give_back_free_memory, resident_bytes

BUDGET = "memory_bytes_max"
LOOK_S = 0.05


class MemoryLimit:
    """Ends calls by ``end_waiting`` while there is more memory than ``bytes_max`` even without what is free.

    ``resident`` tells how much there is; ``give_back`` frees what it may.
    """

    def __init__(
        self,
        *,
        bytes_max: int,
        end_waiting: Callable[[], object],
        resident: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = give_back_free_memory,
    ) -> None:
        self._bytes_max = bytes_max
        self._end_waiting = end_waiting
        self._resident = resident
        self._give_back = give_back

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look until cancelled."""
        while True:
            await sleep(LOOK_S)
            if self._resident() > self._bytes_max:
                await asyncio.to_thread(self._give_back)
                if self._resident() > self._bytes_max:
                    self._end_waiting()


def to_end(waiting: Mapping[str, int]) -> frozenset[str]:
    """The connections whose calls are ended, of how many wait on each: those with most, until it is half of all."""
    left, ended = sum(waiting.values()) / 2, set[str]()
    for connection in sorted(waiting, key=lambda name: waiting[name], reverse=True):
        if left <= 0:
            break
        ended.add(connection)
        left -= waiting[connection]
    return frozenset(ended)
