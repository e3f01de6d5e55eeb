"""The driver over real storage, on a disk that does not come back from an fsync of one log: all others go on."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replica.core import effects as fx
from replica.core.events import Flushed, Ticked
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId, TopicId, TopicPartition
from replica.server.driver import Driver
from replica.storage import LogTable, OsFiles, format_directory, open_directory
from replica.storage.files import Handle, OpenMode
from replica.voters import VoterSet
from tests.server.driver_fakes import (
    PATIENCE_SECONDS,
    FakeTransport,
    FakeWatch,
    NotingObserver,
    ScriptedCore,
    knowing_nobody,
    wait_until,
)
from tests.server.driver_rig import batch, on

METADATA = TopicPartition("metadata", 0)
SLOW, QUICK, NEW = (TopicPartition(topic, 0) for topic in ("slow", "quick", "new"))
EPOCHS = (EpochEntry(Epoch(1), Offset(0)),)


class StuckFiles(OsFiles):
    """Real files; below one folder no fsync comes back before it may."""

    def __init__(self) -> None:
        self.stuck_below: Path | None = None
        self.may_go_on = threading.Event()
        self.waits = threading.Event()
        self.gave_up = False
        """Whether an fsync has ended by itself, because nobody went on meanwhile."""
        self._paths: dict[Handle, Path] = {}

    def open(self, path: Path, mode: OpenMode) -> Handle:
        handle = super().open(path, mode)
        self._paths[handle] = path
        return handle

    def fsync(self, handle: Handle) -> None:
        self._wait(self._paths[handle])
        super().fsync(handle)

    def fsync_directory(self, path: Path) -> None:
        self._wait(path)
        super().fsync_directory(path)

    def _wait(self, path: Path) -> None:
        if self.stuck_below is not None and path.is_relative_to(self.stuck_below):
            self.waits.set()
            self.gave_up |= not self.may_go_on.wait(PATIENCE_SECONDS)


class Machine:
    """A driver over a data directory with three logs of four records, one of a quorum."""

    def __init__(self, folder: Path) -> None:
        self.files = StuckFiles()
        format_directory(folder, cluster_id="test", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
        self.table = LogTable.open(open_directory(folder, files=self.files), (METADATA,))
        self.core = ScriptedCore(lambda _: ())
        self.driver = Driver(
            core=self.core,
            storage=self.table,
            transport=FakeTransport(),
            observer=NotingObserver(),
            watch=FakeWatch(),
            leaders=knowing_nobody(),
        )
        self.driver.turn_ms = sys.maxsize  # What this machine has to do beside is not to decide what a step does.

    async def fill(self) -> None:
        """Give every log four flushed records."""
        for number, log in enumerate((SLOW, QUICK)):
            self.step(fx.CreateLog(topic_partition=log, topic_id=TopicId(number + 1)))
        for log in (METADATA, SLOW, QUICK):
            append = fx.Append(topic_partition=log, batches=tuple(batch(offset) for offset in range(4)))
            self.step(fx.StoreEpochs(topic_partition=log, entries=EPOCHS), append, flush(log, 4))
        await wait_until(lambda: len(self.core.seen(Flushed)) == 3, "the records")

    def step(self, *effects: fx.Effect) -> None:
        """Let the core ask for these effects."""
        self.core.script = on(Ticked, lambda _: effects)
        self.driver.submit(Ticked())
        self.core.script = lambda _: ()


def flush(log: TopicPartition, end_offset: int) -> fx.Flush:
    return fx.Flush(topic_partition=log, end_offset=Offset(end_offset))


def flushed(log: TopicPartition, end_offset: int) -> Flushed:
    return Flushed(topic_partition=log, end_offset=Offset(end_offset))


@asynccontextmanager
async def stuck_at(folder: Path, log: TopicPartition) -> AsyncIterator[Machine]:
    """Run a machine whose disk, from now on, does not come back from an fsync of this log."""
    machine = Machine(folder)
    machine.driver.start()
    await machine.fill()
    machine.files.stuck_below = folder / str(log)
    try:
        yield machine
        assert not machine.files.gave_up
    finally:
        machine.files.may_go_on.set()
        await machine.driver.stop()
        machine.table.abandon()


@pytest.mark.parametrize(
    ("log", "effect"),
    [
        (METADATA, fx.StoreQuorumState(topic_partition=METADATA, state=fx.QuorumState(leader_epoch=Epoch(2)))),
        (SLOW, fx.StoreEpochs(topic_partition=SLOW, entries=EPOCHS)),
        (SLOW, fx.Truncate(topic_partition=SLOW, end_offset=Offset(2))),
        (SLOW, fx.StartLogAt(topic_partition=SLOW, start_offset=Offset(9))),
        (SLOW, flush(SLOW, 5)),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_other_logs_go_on_while_the_disk_is_stuck(log: TopicPartition, effect: fx.Effect, tmp_path: Path) -> None:
    """Another log is appended to, flushed and cut, and a third is made, while one waits for its disk."""
    async with stuck_at(tmp_path / "data", log) as machine:
        machine.step(fx.Append(topic_partition=log, batches=(batch(4),)), effect)
        await wait_until(machine.files.waits.is_set, "the fsync that does not come back")
        machine.step(fx.Append(topic_partition=QUICK, batches=(batch(4),)), flush(QUICK, 5))
        await wait_until(lambda: machine.core.events[-1] == flushed(QUICK, 5), "it")
        machine.step(
            fx.Truncate(topic_partition=QUICK, end_offset=Offset(3)),
            fx.StoreEpochs(topic_partition=QUICK, entries=EPOCHS),
            fx.RaiseLogStart(topic_partition=QUICK, log_start_offset=Offset(1)),
            fx.Append(topic_partition=QUICK, batches=(batch(3),)),
            fx.CreateLog(topic_partition=NEW, topic_id=TopicId(7)),
            fx.Append(topic_partition=NEW, batches=(batch(0),)),
            flush(NEW, 1),
            flush(QUICK, 4),
        )
        expected = {
            Flushed(topic_partition=QUICK, end_offset=Offset(4)),
            Flushed(topic_partition=NEW, end_offset=Offset(1)),
        }
        await wait_until(lambda: expected <= set(machine.core.seen(Flushed)), "the flushes")
        assert Flushed(topic_partition=log, end_offset=Offset(5)) not in machine.core.seen(Flushed)


@pytest.mark.parametrize(
    "effect",
    [fx.DeleteLog(topic_partition=SLOW), fx.ReplaceLog(topic_partition=SLOW, topic_id=TopicId(8))],
    ids=lambda value: type(value).__name__,
)
async def test_a_log_that_is_deleted_waits_for_its_own_flush_only(effect: fx.Effect, tmp_path: Path) -> None:
    """Its name is used again when its disk has come back, and its flush is never reported."""
    async with stuck_at(tmp_path / "data", SLOW) as machine:
        machine.step(fx.Append(topic_partition=SLOW, batches=(batch(4),)), flush(SLOW, 5))
        await wait_until(machine.files.waits.is_set, "the fsync that does not come back")
        again = () if isinstance(effect, fx.ReplaceLog) else (fx.CreateLog(topic_partition=SLOW, topic_id=TopicId(8)),)
        machine.step(effect, *again, fx.Append(topic_partition=SLOW, batches=(batch(0),)), flush(SLOW, 1))
        machine.step(fx.Append(topic_partition=QUICK, batches=(batch(4),)), flush(QUICK, 5))
        await wait_until(lambda: machine.core.events[-1] == flushed(QUICK, 5), "it")
        machine.files.may_go_on.set()
        await wait_until(lambda: flushed(SLOW, 1) in machine.core.events, "the new log")
        assert flushed(SLOW, 5) not in machine.core.events
        assert machine.table.stores[SLOW].log_end_offset == 1
