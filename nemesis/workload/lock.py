"""The workload ``lock``: locks that are lent for a time, and given back by whoever holds them.

Owns the mix. Each acquisition has a number of its own, which is what the lock's key holds, attached to a lease; the
revision at which it was put there is the fencing number. A process holds one lock at a time, looks at it or gives it
back. One that ended, or lost touch, holds it until the lease is over.
"""

from __future__ import annotations

import itertools
from random import Random

from nemesis.cluster.store import Answer
from nemesis.history import ACQUIRE, READ, RELEASE
from nemesis.workload.objects import Process, one_key

TTL_MS_DEFAULT = 2000
RELEASE_SHARE = 0.5


class LockUse:
    """Acquires, releases, and asks who holds it."""

    def __init__(self, random: Random, ttl_ms: int = TTL_MS_DEFAULT) -> None:
        self._random = random
        self._ttl_ms = ttl_ms
        self._holders = itertools.count(1)
        self._held: dict[int, tuple[str, int]] = {}

    async def act(self, process: Process, name: str) -> None:
        """Release what this process holds, or hold it a little longer; acquire if it holds nothing."""
        held = self._held.get(process.number)
        if held is None:
            await self._acquire(process, name)
        elif self._random.random() < RELEASE_SHARE:
            await self._release(process, *held)
        else:
            await self.read(process, held[0])

    async def read(self, process: Process, name: str) -> Answer | None:
        """Ask who holds it."""
        return await process.do(READ, name, process.client.get(name), told=one_key(name))

    async def _acquire(self, process: Process, name: str) -> None:
        holder = next(self._holders)
        call = process.client.compare_and_set(name, None, holder, ttl_ms=self._ttl_ms)
        answer = await process.do(ACQUIRE, name, call, told=one_key(name), value=holder, ttl_ms=self._ttl_ms)
        if answer is not None and answer.done:
            self._held[process.number] = name, holder

    async def _release(self, process: Process, name: str, holder: int) -> None:
        call = process.client.delete_if(name, holder)
        answer = await process.do(RELEASE, name, call, told=one_key(name), value=holder)
        if answer is not None or not process.is_alive:
            del self._held[process.number]
