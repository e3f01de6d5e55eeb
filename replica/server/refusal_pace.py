"""How fast the calls of one connection are refused that are over a budget: one after the other.

Owns each connection's next turn. A refusal costs the event loop as much as a small answer, and who is refused tries
again. As a call counts for its connection until it is answered (``CONNECTION_CALLS_MAX``), a refusal that waits for its
turn holds back the calls behind it, in the connection that has too many, and nobody else's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PAUSE_S = 0.02
"""Between two refusals of one connection."""

_CONNECTIONS_MAX = 1000
"""How many turns are remembered before those that have passed are forgotten."""


class RefusalPace:
    """The turns of all connections, by gRPC's name for the peer; ``seconds`` is a clock that never goes back."""

    def __init__(
        self,
        *,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._seconds = seconds
        self._sleep = sleep
        self._turns: dict[str, float] = {}

    async def wait_turn(self, connection: str) -> None:
        """Wait until this connection may be refused something: at once if nothing else was a moment ago."""
        now = self._seconds()
        if len(self._turns) >= _CONNECTIONS_MAX:
            self._turns = {other: turn for other, turn in self._turns.items() if turn > now}
        turn = max(now, self._turns.get(connection, now))
        self._turns[connection] = turn + PAUSE_S
        if turn > now:
            await self._sleep(turn - now)
