"""When the next operation is due: a steady rate, whatever the operations take.

Owns the schedule of slots, one each ``1 / rate`` seconds, which all processes draw from, each when it is due: what is
due next is decided by the load of the moment, however many processes wait in line for it. A cluster that answers slowly
does not slow the clients down until all of them wait. Slots that nobody took for a while are given up, so that an
outage is not followed by a flood.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nemesis.faults.load import Load

BEHIND_S_MAX = 0.5
NOTICED_S_MAX = 0.1
"""How long whoever waits goes on as if the load were what it was."""


class Pace:
    """Hands out slots.

    ``rate`` is operations a second, all processes together, ``load`` how many times as many it is to be at the moment.
    ``begin_s`` is the loop's time of the first slot; absent = now.
    """

    def __init__(self, rate: float, *, load: Load | None = None, begin_s: float | None = None) -> None:
        if rate <= 0:
            raise ValueError(f"rate is {rate}: give more than 0 operations a second")
        self._interval_s = 1 / rate
        self._load = load or Load()
        self._line = asyncio.Lock()
        self._last_s = (asyncio.get_running_loop().time() if begin_s is None else begin_s) - self._interval_s

    async def wait_turn(self, stop: asyncio.Event) -> bool:
        """Wait for the next slot, in line; False when ``stop`` was set first."""
        loop = asyncio.get_running_loop()
        async with self._line:
            while not stop.is_set() and (wait_s := self._due_s() - loop.time()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait_s, NOTICED_S_MAX)):
                        await stop.wait()
            self._last_s = max(self._due_s(), loop.time() - BEHIND_S_MAX)
        # Who is behind never waits above, and what is asked may answer at once: then nobody else would have a turn.
        await asyncio.sleep(0)
        return not stop.is_set()

    def _due_s(self) -> float:
        return self._last_s + self._interval_s / self._load.factor
