"""A workload as one value: what its clients do, and all that anybody may want to know of that.

Owns what every workload says of itself: its name, its words in the help and in the documentation, what it needs of a
system's clients, which options are about it, and which faults mean nothing to it. Each is declared once, by its class,
which also does it; ``catalogue`` lists them, and all tables follow from that. Owns the life of slots, too: each has one
process after the other, and all of them draw from one pace. Source: Jepsen's processes.

When the next operation is due: a steady rate, whatever the operations take.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol

from nemesis.cluster.closing import side_by_side
from nemesis.cluster.store import StoreClient, Verb
from nemesis.cluster.system import LogClient
from nemesis.faults.load import Load
from nemesis.faults.needs import Need
from nemesis.history.recorder import Recorder

KEYS_DEFAULT = 10


class HasClients(Protocol):
    """What of a system its clients see."""

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """The names of the logs that clients write to."""

    def client(self) -> LogClient:
        """A new client of logs."""

    def store(self) -> StoreClient:
        """A new client of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a run gives to its workload.

    ``concurrency`` processes are there at a time, ``load`` says how many times the rate is wanted, and all choices are
    ``random``'s. ``keys`` objects are in use at a time; ``acks`` is what appends ask for where that is less than all.
    """

    system: HasClients
    recorder: Recorder
    random: Random
    concurrency: int
    load: Load = field(default_factory=Load)
    keys: int = KEYS_DEFAULT
    acks: int | None = None


class Workload(ABC):
    """What the clients of a run do. The class says what that is, and an instance does it."""

    name: ClassVar[str]
    """Its word: of ``--workload``, in ``test.json``, and of the folder of its runs."""
    an_object: ClassVar[str]
    """What each of the things is that are judged by themselves."""
    operations: ClassVar[str]
    """What is done with them, in words."""
    verbs: ClassVar[frozenset[Verb]]
    """What it needs of a system's clients: whoever has all of it can be put to the test by it."""
    options: ClassVar[tuple[str, ...]]
    """The options of the command line that mean something to such workloads alone."""
    refuses: ClassVar[Mapping[Need, str]]
    """The faults that mean nothing to it, by what they need, and why."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._next_process = 0

    @classmethod
    @abstractmethod
    def judged_as(cls) -> str:
        """What it is judged by, for the documentation."""

    @abstractmethod
    async def run_slot(self, pace: Pace, stop: asyncio.Event) -> None:
        """One process after the other, until ``stop`` is set."""

    @abstractmethod
    async def read_everything(self, *, at_most_s: float, claim_end: bool) -> None:
        """Read all that there is when all has healed, and record it.

        ``at_most_s`` bounds what the workload bounds; without ``claim_end`` replicas do not agree, and nobody may say
        that he saw the end of a log.
        """

    async def run(self, *, rate: float, stop: asyncio.Event) -> None:
        """Do ``rate`` operations a second until ``stop`` is set; operations that have begun are waited for."""
        pace = Pace(rate, load=self.setup.load)
        async with side_by_side() as slots:
            for _ in range(self.setup.concurrency):
                slots.create_task(self.run_slot(pace, stop))

    def new_number(self) -> int:
        """The number of a process, which none had before."""
        number, self._next_process = self._next_process, self._next_process + 1
        return number


BEHIND_S_MAX = 0.5
NOTICED_S_MAX = 0.1
"""How long whoever waits goes on as if the load were what it was."""


class Pace:
    """Hands out slots.

    ``rate`` is operations a second, all processes together, ``load`` how many times as many it is to be at the moment.
    ``begin_s`` is the loop's time of the first slot; absent = now.
    """

    def __init__(self, rate: float, *, load: Load | None = None, begin_s: float | None = None) -> None:
        if rate <= 0:
            raise ValueError(f"rate is {rate}: give more than 0 operations a second")
        self._interval_s = 1 / rate
        self._load = load or Load()
        self._line = asyncio.Lock()
        self._last_s = (asyncio.get_running_loop().time() if begin_s is None else begin_s) - self._interval_s

    async def wait_turn(self, stop: asyncio.Event) -> bool:
        """Wait for the next slot, in line; False when ``stop`` was set first."""
        loop = asyncio.get_running_loop()
        async with self._line:
            while not stop.is_set() and (wait_s := self._due_s() - loop.time()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait_s, NOTICED_S_MAX)):
                        await stop.wait()
            self._last_s = max(self._due_s(), loop.time() - BEHIND_S_MAX)
        # Who is behind never waits above, and what is asked may answer at once: then nobody else would have a turn.
        await asyncio.sleep(0)
        return not stop.is_set()

    def _due_s(self) -> float:
        return self._last_s + self._interval_s / self._load.factor
