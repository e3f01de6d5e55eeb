"""How late the event loop is: what holds it up holds up everybody whom this replica serves.

Owns a ticker, which counts by how much later than it was due each of its ticks has come, and one line for what is worth
an operator's eye. Knows nothing of what else the loop does. The models are Node's ``monitorEventLoopDelay`` and Kafka's
``RequestHandlerAvgIdlePercent``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

TICK_S = 0.02
"""How often it looks; of what holds the loop up, it may miss as much."""

STALL_S = 0.1
"""A delay above this is a line."""


class LoopDelay:
    """Watches the event loop that runs it. ``observe`` gets each tick's delay in seconds."""

    def __init__(self, *, observe: Callable[[float], None], logger: FilteringBoundLogger) -> None:
        self._observe = observe
        self._logger = logger

    async def run(self) -> None:
        """Watch until cancelled.

        A line tells how much time the loop's thread has computed meanwhile: with little of it, the loop has waited for
        the machine (a disk, another process, a pause), and not for what it does itself.
        """
        while True:
            began_s, computed_s = time.monotonic(), time.thread_time()
            await asyncio.sleep(TICK_S)
            delay_s = max(0.0, time.monotonic() - began_s - TICK_S)
            self._observe(delay_s)
            if delay_s > STALL_S:
                computed_ms = round((time.thread_time() - computed_s) * 1000)
                self._logger.warning("event_loop_stalled", delay_ms=round(delay_s * 1000), computed_ms=computed_ms)
