"""The workload ``set``: sets that only grow, each element a key of its own, and reads of the whole.

Owns the mix. Elements are never added twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from random import Random
from typing import Any

from nemesis.cluster.store import Answer
from nemesis.history import ADD, READ
from nemesis.workload.objects import Process

READ_SHARE = 0.4


class SetUse:
    """Adds, and reads all."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._elements = itertools.count(1)

    async def act(self, process: Process, name: str) -> None:
        """Do what the dice say."""
        if self._random.random() < READ_SHARE:
            await self.read(process, name)
        else:
            element = next(self._elements)
            await process.do(ADD, name, process.client.put(f"{name}/{element}", element), value=element)

    async def read(self, process: Process, name: str) -> Answer | None:
        """Read all elements at one revision."""
        return await process.do(READ, name, process.client.get_all(f"{name}/"), told=_elements)


def _elements(answer: Answer) -> Mapping[str, Any]:
    return {"elements": sorted([found.value, found.changed_at] for found in answer.found.values())}
