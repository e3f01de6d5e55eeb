"""Time as clients need it: a clock to read, a pause, and a wait that ends.

Owns the only calls of the operating system's clocks in the newer clients, so that a test drives them on virtual time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What tells time and lets it pass."""

    def now_ms(self) -> int:
        """Milliseconds that never go back, from an arbitrary start."""

    def since_1970_ms(self) -> int:
        """The time of day, for timestamps of records."""

    async def sleep(self, milliseconds: int) -> None:
        """Let so much time pass."""

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> bool:
        """Wait until ``event`` is set, at most so long; absent for ever. Returns whether it is set."""


class SystemClock:
    """The real clock."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def since_1970_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> bool:
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await event.wait()
        except TimeoutError:
            return event.is_set()
        return True


async def wait_task(clock: Clock, task: asyncio.Task[None], timeout_ms: int | None) -> None:
    """Wait until a task has ended, well or not, at most so long."""
    ended = asyncio.Event()
    task.add_done_callback(lambda _: ended.set())
    await clock.wait(ended, timeout_ms)


class Deadline:
    """How much time a call has left, in whole milliseconds of at least 1, so that it always suits a timeout."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._end_ms = clock.now_ms() + timeout_ms

    def left_ms(self, at_most_ms: int | None = None) -> int:
        """How long an attempt may take."""
        left_ms = max(1, self._end_ms - self._clock.now_ms())
        return left_ms if at_most_ms is None else min(left_ms, at_most_ms)

    def spent_ms(self) -> int:
        """How much of the time has passed."""
        return self.timeout_ms - (self._end_ms - self._clock.now_ms())

    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._clock.now_ms() >= self._end_ms

    async def pause(self, milliseconds: int) -> None:
        """Sleep, but not beyond the end."""
        await self._clock.sleep(self.left_ms(milliseconds))


class Backoff:
    """Pauses that double from ``first_ms`` up to ``max_ms``."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._next_ms = first_ms
        self._max_ms = max_ms

    def next_ms(self) -> int:
        """The pause before the next attempt."""
        pause_ms, self._next_ms = self._next_ms, min(self._next_ms * 2, self._max_ms)
        return pause_ms
