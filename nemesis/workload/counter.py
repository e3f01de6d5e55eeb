"""The workload ``counter``: numbers that are added to, up and down, and read.

Owns the mix. An increment tells the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from nemesis.cluster.store import Answer, Verb
from nemesis.history.events import READ
from nemesis.linearizability.models.counter import Counter
from nemesis.workload.encoding import READS_VALUE, Encoding
from nemesis.workload.objects import ObjectWorkload, Process

INCREMENT = "increment"

READ_SHARE = 0.4
AMOUNT_MAX = 5


class CounterWorkload(ObjectWorkload):
    """Adds an amount that is not 0, and reads."""

    name = "counter"
    an_object = "a key"
    operations = "increment by an amount of either sign, which tells the sum; read"
    verbs = frozenset({Verb.GET, Verb.INCREMENT})
    model = Counter()
    encodings: ClassVar[Mapping[str, Encoding]] = {
        INCREMENT: READS_VALUE,
        READ: Encoding(result=lambda value, _: value or 0),
    }

    async def act(self, process: Process, name: str) -> None:
        """Do what the dice say."""
        if self.setup.random.random() < READ_SHARE:
            await self.read(process, name)
        else:
            amount = self.setup.random.choice([*range(-AMOUNT_MAX, 0), *range(1, AMOUNT_MAX + 1)])
            await process.do(INCREMENT, name, process.client.increment(name, amount), told=_sum(name), value=amount)

    async def read(self, process: Process, name: str) -> Answer | None:
        return await process.do(READ, name, process.client.get(name), told=_sum(name))


def _sum(name: str) -> Callable[[Answer], Mapping[str, Any]]:
    def told(answer: Answer) -> Mapping[str, Any]:
        found = answer.found.get(name)
        return {} if found is None else {"value": found.value}

    return told
