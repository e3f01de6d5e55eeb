"""The workload ``register``: many registers that are read, written, and compared and set.

Owns the mix. Every value is written once at most in all of a run, so that a read names its write. What a
compare-and-set expects is what was seen last of the register by anybody, so that many of them succeed; one that does
not tells what the register holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

from nemesis.cluster.store import Answer, Verb
from nemesis.history.events import READ
from nemesis.linearizability.models.register import CasRegister
from nemesis.workload.encoding import READS_VALUE, WRITES_VALUE, Encoding
from nemesis.workload.objects import ObjectWorkload, Process, one_key
from nemesis.workload.workload import Setup

WRITE, CAS = "write", "cas"

READ_SHARE, WRITE_SHARE = 0.5, 0.25
"""The others compare and set."""


class RegisterWorkload(ObjectWorkload):
    """Reads, writes, and compares and sets."""

    name = "register"
    an_object = "a key"
    operations = "read, write, cas (of what was seen last, to a new value)"
    verbs = frozenset({Verb.GET, Verb.PUT, Verb.COMPARE_AND_SET})
    model = CasRegister()
    encodings: ClassVar[Mapping[str, Encoding]] = {
        READ: READS_VALUE,
        WRITE: WRITES_VALUE,
        CAS: Encoding(argument=lambda value, asked: (asked["expected"], value), writes=lambda pair: pair[1]),
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._values = itertools.count(1)
        self._seen: dict[str, int | None] = {}

    async def act(self, process: Process, name: str) -> None:
        """Do what the dice say."""
        dice = self.setup.random.random()
        if dice < READ_SHARE:
            await self.read(process, name)
        elif dice < READ_SHARE + WRITE_SHARE:
            value = next(self._values)
            if await process.do(WRITE, name, process.client.put(name, value), value=value):
                self._seen[name] = value
        else:
            await self._compare_and_set(process, name)

    async def read(self, process: Process, name: str) -> Answer | None:
        answer = await process.do(READ, name, process.client.get(name), told=one_key(name))
        self._note(name, answer)
        return answer

    async def _compare_and_set(self, process: Process, name: str) -> None:
        expected, value = self._seen.get(name), next(self._values)
        call = process.client.compare_and_set(name, expected, value)
        answer = await process.do(CAS, name, call, told=one_key(name), value=value, expected=expected)
        if answer is not None and answer.done:
            self._seen[name] = value
        else:
            self._note(name, answer)

    def _note(self, name: str, answer: Answer | None) -> None:
        if answer is not None:
            found = answer.found.get(name)
            self._seen[name] = None if found is None else found.value
