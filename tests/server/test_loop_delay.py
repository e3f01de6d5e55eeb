"""How late the event loop is: seen by whoever holds it up, and by what that was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from structlog import get_logger
from structlog.testing import capture_logs

from replica.server.loop_delay import STALL_S, LoopDelay

LONG_S = 3 * STALL_S


def compute() -> None:
    """Keep the processor busy for long, by the time of this thread."""
    until_s = time.thread_time() + LONG_S
    while time.thread_time() < until_s:
        pass


@pytest.mark.parametrize(
    ("hold_up", "computes"), [(compute, True), (lambda: time.sleep(LONG_S), False)], ids=["computing", "waiting"]
)
async def test_what_holds_the_loop_up_is_counted_and_told(hold_up: Callable[[], None], *, computes: bool) -> None:
    """A loop that is held up is late by that much, and a line says whether it has computed or waited."""
    delays: list[float] = []
    ticked = asyncio.Event()

    def observe(delay_s: float) -> None:
        delays.append(delay_s)
        ticked.set()

    with capture_logs() as lines:
        watching = asyncio.create_task(LoopDelay(observe=observe, logger=get_logger()).run())
        await ticked.wait()
        hold_up()
        ticked.clear()
        await ticked.wait()
        watching.cancel()
    assert max(delays) > STALL_S
    told = next(line for line in lines if line["event"] == "event_loop_stalled")
    assert told["delay_ms"] > 1000 * STALL_S
    assert (told["computed_ms"] > 1000 * STALL_S) == computes
