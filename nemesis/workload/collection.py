"""The workload ``set``: sets that only grow, each element a key of its own, and reads of the whole.

Owns the mix. Elements are never added twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

from nemesis.cluster.store import Answer, Verb
from nemesis.history.events import READ
from nemesis.linearizability.models.grow_set import GrowSet
from nemesis.workload.encoding import WRITES_VALUE, Detail, Encoding, pairs_of
from nemesis.workload.objects import ObjectWorkload, Process
from nemesis.workload.workload import Setup

ADD = "add"

READ_SHARE = 0.4


class SetWorkload(ObjectWorkload):
    """Adds, and reads all: pairs of element and the revision at which it came to be."""

    name = "set"
    an_object = "the keys below a prefix"
    operations = "add of an element, read of all at one revision"
    verbs = frozenset({Verb.GET_ALL, Verb.PUT})
    model = GrowSet()
    encodings: ClassVar[Mapping[str, Encoding]] = {
        ADD: WRITES_VALUE,
        READ: Encoding(result=lambda _, told: tuple(element for element, _ in pairs_of(told.get("elements", ())))),
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._elements = itertools.count(1)

    async def act(self, process: Process, name: str) -> None:
        """Do what the dice say."""
        if self.setup.random.random() < READ_SHARE:
            await self.read(process, name)
        else:
            element = next(self._elements)
            await process.do(ADD, name, process.client.put(f"{name}/{element}", element), value=element)

    async def read(self, process: Process, name: str) -> Answer | None:
        """Read all elements at one revision."""
        return await process.do(READ, name, process.client.get_all(f"{name}/"), told=_elements)

    @staticmethod
    def seen(value: int | None, detail: Detail) -> Mapping[int, int]:
        """Those of all elements, where they are told."""
        del value
        return {element: at for element, at in detail.get("elements", ()) if at is not None}


def _elements(answer: Answer) -> Mapping[str, Any]:
    return {"elements": sorted([found.value, found.changed_at] for found in answer.found.values())}
