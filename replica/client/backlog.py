"""What was handed over for a topic that is not known yet: it waits, in order, and is placed once the topic is.

Owns the order in which things wait, and how long. Knows neither batches nor partitions: whoever hands something over
says how it is placed, and who is told if that is in vain.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from replica.client.clock import Deadline
from replica.client.failures import NotWrittenError, WriteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """One thing that waits. ``place`` is called when its turn has come; ``fail`` if it comes to nothing before."""

    deadline: Deadline
    place: Callable[[], Awaitable[None]]
    fail: Callable[[WriteError], None]


class Backlog:
    """All that waits for one topic. ``learn`` waits for the topic, and raises NotWrittenError after its deadline."""

    def __init__(self, learn: Callable[[Deadline], Awaitable[object]], on_empty: Callable[[], object]) -> None:
        self._learn = learn
        self._on_empty = on_empty
        self._parked: deque[Parked] = deque()
        self.task = asyncio.create_task(self._run())
        """Ends when nothing waits any more."""

    def put(self, parked: Parked) -> None:
        """Let something wait behind what waits already."""
        self._parked.append(parked)

    async def give_up(self, error: NotWrittenError) -> None:
        """Let nothing wait any longer: whoever handed it over is told ``error``, but for what is placed already."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._fail_all(error)

    async def _run(self) -> None:
        try:
            while self._parked:
                await self._settle(self._parked[0])
                self._parked.popleft()
        except Exception as error:  # Our own mistake: nobody is to wait in vain.
            self._fail_all(NotWrittenError(f"the producer has failed: {error!r}"))
            raise
        finally:
            self._on_empty()

    async def _settle(self, parked: Parked) -> None:
        try:
            await self._learn(parked.deadline)
            await parked.place()
        except WriteError as error:
            parked.fail(error)

    def _fail_all(self, error: NotWrittenError) -> None:
        while self._parked:
            self._parked.popleft().fail(error)
