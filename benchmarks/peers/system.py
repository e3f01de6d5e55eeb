"""What every system of the comparison can be asked for: three nodes on loopback, and one Python client.

Owns the words: how durable an acknowledged write is, what a system is able to do, and what became of writes in flight.
A system answers for its own settings: each is the best that its documents name for the work, and in ``settings``.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

NODES = 3
MIN_IN_SYNC = 2
KEYS = tuple(b"key%03d" % number for number in range(1000))
"""Those that values are put to and got from, one after the other."""
VALUE = b"v" * 100


class Durability(StrEnum):
    """Where a majority of the nodes, or all in sync, have a write when it is acknowledged."""

    FSYNC = "fsync"
    PAGE_CACHE = "page cache"


class Ability(StrEnum):
    """What a row needs of a system."""

    RECORDS = "append many records, and read them"
    ARROW = "read records as Arrow"
    WRITES = "make single writes durable"
    VALUES = "put and get values by key"
    RECORDS_FAIL_OVER = "lose the leader of a log of records"
    VALUES_FAIL_OVER = "lose the leader of the keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """How long each call took that was answered, and how long all of them together, in seconds."""

    took_s: Sequence[float]
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.took_s) / self.elapsed_s


async def closed_loop(call: Callable[[int], Awaitable[object]], in_flight: int, seconds: float) -> Answered:
    """Keep so many calls in flight for so long, and make so many at least; each is told its number."""
    took_s: list[float] = []
    number = 0
    begun_s = time.perf_counter()

    async def one_after_the_other() -> None:
        nonlocal number
        now_s, is_over = time.perf_counter(), False
        while not is_over:
            number += 1
            await call(number)
            sent_s, now_s = now_s, time.perf_counter()
            took_s.append(now_s - sent_s)
            is_over = now_s >= begun_s + seconds

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    return Answered(took_s=took_s, elapsed_s=time.perf_counter() - begun_s)


def key_of(number: int) -> bytes:
    """The key of the call of that number."""
    return KEYS[number % len(KEYS)]


class System(ABC):
    """One system, with its nodes' files in ``folder``. ``start`` it before use, ``stop`` it whatever happens.

    What is not among its ``abilities`` raises NotImplementedError, and no row asks for it. All that it writes is
    acknowledged when a call returns.
    """

    name: ClassVar[str]
    abilities: ClassVar[frozenset[Ability]]
    durabilities: ClassVar[tuple[Durability, ...]]
    """What it can be told to do; its default comes first."""
    settings: ClassVar[Mapping[str, str]]
    """What is not its default, in words, by what it is for."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        self.folder = folder
        self.durability = durability

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """What must be installed to measure it here; absent if nothing."""

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """The versions of the server and of its client."""

    @abstractmethod
    async def start(self) -> None:
        """Start three nodes, and wait until they are of use together."""

    @abstractmethod
    async def stop(self) -> None:
        """End all nodes, and close all clients."""

    async def create(self, topic: str) -> None:
        """Make a log of records: one partition, three replicas, of which two must have a write."""
        raise NotImplementedError

    async def produce(self, topic: str, value: bytes, count: int) -> None:
        """Append so many records, in the fastest way there is; one outcome for all of them is enough."""
        raise NotImplementedError

    async def produce_each(self, topic: str, value: bytes, count: int) -> None:
        """Append so many records, each with an outcome of its own."""
        raise NotImplementedError

    async def consume(self, topic: str, count: int) -> None:
        """Read so many records from the beginning on, with a new client, each as an object or value of its own."""
        raise NotImplementedError

    async def consume_arrow(self, topic: str, count: int) -> None:
        """The same as Arrow batches."""
        raise NotImplementedError

    async def write(self, topic: str, in_flight: int, seconds: float) -> Answered:
        """Keep so many writes of 100 bytes in flight."""
        raise NotImplementedError

    async def put(self, in_flight: int, seconds: float) -> Answered:
        """Keep so many puts of 100 bytes in flight."""
        raise NotImplementedError

    async def get(self, in_flight: int, seconds: float) -> Answered:
        """Keep so many linearizable gets in flight."""
        raise NotImplementedError

    async def attempt(self, topic: str | None) -> None:
        """Make one write, to the keys where there is no topic; raise whatever went wrong with it."""
        raise NotImplementedError

    async def kill_leader(self, topic: str | None) -> float:
        """SIGKILL the node that leads the topic, or the keys; when that was, by ``time.perf_counter``."""
        raise NotImplementedError

    async def recover(self, topic: str | None) -> None:
        """Start whoever was killed, and wait until all three are in sync again."""
        raise NotImplementedError
