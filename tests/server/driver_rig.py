"""A driver over fakes, and what scripts of its core are made of."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from replica.core.effects import Effect, Flush
from replica.core.events import Event
from replica.core.messages import ListOffsetsRequest
from replica.ids import Offset, TopicPartition
from replica.records import RecordBatch, encode_batch
from replica.server.clocks import MachineClocks
from replica.server.driver import Driver
from replica.server.leader_addresses import LeaderAddresses
from tests.server.driver_fakes import (
    LOG,
    FakeStorage,
    FakeTransport,
    FakeWatch,
    NotingObserver,
    Script,
    ScriptedCore,
    knowing_nobody,
)

ASK = ListOffsetsRequest(topic_partition=LOG, latest=True)
NOW_MS = 1_700_000_000_000


class FixedDate(MachineClocks):
    """Time goes on, and the date does not."""

    def unix_ms(self) -> int:
        return NOW_MS


class Rig:
    """A driver over fakes."""

    def __init__(
        self, script: Script, clocks: MachineClocks | None = None, leaders: LeaderAddresses | None = None
    ) -> None:
        self.core = ScriptedCore(script)
        self.storage = FakeStorage()
        self.log = self.storage.logs[LOG]
        self.transport = FakeTransport()
        self.observer = NotingObserver()
        self.watch = FakeWatch()
        self.driver = Driver(
            core=self.core,
            storage=self.storage,
            transport=self.transport,
            observer=self.observer,
            watch=self.watch,
            leaders=leaders or knowing_nobody(),
            clocks=clocks or FixedDate(),
        )
        if clocks is None:
            self.driver.turn_ms = sys.maxsize  # The load of the machine is not to decide what a test sees.


@asynccontextmanager
async def running(
    script: Script, clocks: MachineClocks | None = None, leaders: LeaderAddresses | None = None
) -> AsyncIterator[Rig]:
    """Run a driver whose core follows ``script``, and stop it in the end."""
    rig = Rig(script, clocks, leaders)
    rig.driver.start()
    try:
        yield rig
    finally:
        rig.log.flush_may_end.set()
        rig.log.store_may_end.set()
        await rig.driver.stop()


def on(kind: type[Event], effects: Callable[[Event], tuple[Effect, ...]]) -> Script:
    """Answer events of one kind, and all others with nothing."""
    return lambda event: effects(event) if isinstance(event, kind) else ()


def batch(base_offset: int) -> RecordBatch:
    """A batch of one record."""
    return encode_batch([b"v"], base_offset=base_offset, leader_epoch=1)


def flush(end_offset: int, log: TopicPartition = LOG) -> Flush:
    """Ask for a flush of a log, of the first if none is named."""
    return Flush(topic_partition=log, end_offset=Offset(end_offset))
