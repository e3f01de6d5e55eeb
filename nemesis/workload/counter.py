"""The workload ``counter``: numbers that are added to, up and down, and read.

Owns the mix. An increment tells the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from nemesis.cluster.store import Answer
from nemesis.history import INCREMENT, READ
from nemesis.workload.objects import Process

READ_SHARE = 0.4
AMOUNT_MAX = 5


class CounterUse:
    """Adds an amount that is not 0, and reads."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def act(self, process: Process, name: str) -> None:
        """Do what the dice say."""
        if self._random.random() < READ_SHARE:
            await self.read(process, name)
        else:
            amount = self._random.choice([*range(-AMOUNT_MAX, 0), *range(1, AMOUNT_MAX + 1)])
            await process.do(INCREMENT, name, process.client.increment(name, amount), told=_sum(name), value=amount)

    async def read(self, process: Process, name: str) -> Answer | None:
        """Read the sum."""
        return await process.do(READ, name, process.client.get(name), told=_sum(name))


def _sum(name: str) -> Callable[[Answer], Mapping[str, Any]]:
    def told(answer: Answer) -> Mapping[str, Any]:
        found = answer.found.get(name)
        return {} if found is None else {"value": found.value}

    return told
