"""Random lives of a quorum log with snapshots and power losses: nothing that was reported is ever missing."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from nemesis.disks.simulated_files import PowerLossError
from replica.ids import Epoch, Offset, SnapshotId
from tests.depth import seeds
from tests.storage.disks import SMALL, close, formatted, held, open_log, write
from tests.storage.disks import batch as batch_of
from tests.storage.snapshots import check_consistent, store

ACTIONS = 60


class Life:
    """One log, and what it has promised: which record of which epoch is flushed, and which snapshots are durable."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.files = formatted()
        self.directory, self.log, self.recovered = open_log(self.files, SMALL)
        self.epochs: list[int] = []
        """Of every record that was ever there, by offset; -1 for those that only a snapshot knows."""
        self.epoch = 1
        self.flushed = 0
        self.snapshots: list[SnapshotId] = []
        """Those that were reported, oldest first, without the dropped ones."""
        self.installing: SnapshotId | None = None

    def act(self) -> None:
        """Do one thing, or lose the power on the way."""
        if self.dice.random() < 0.3:
            self.files.power_fails_before = self.files.operations + self.dice.randrange(12)
        actions = [self.append, self.append, self.flush, self.snapshot, self.install, self.truncate, self.stop]
        with suppress(PowerLossError):
            self.dice.choice(actions)()
            if self.files.power_fails_before is None:
                return
        self.crash()

    def append(self) -> None:
        """Write some records, perhaps of a new epoch."""
        self.epoch += self.dice.random() < 0.2
        for _ in range(self.dice.randint(1, 4)):
            record = batch_of(len(self.epochs), epoch=self.epoch)
            self.epochs.append(self.epoch)
            write(self.log, [record])

    def flush(self) -> None:
        """Bring them to the platter."""
        self.flushed = int(self.log.flush())

    def snapshot(self) -> None:
        """Store a snapshot, of what is flushed or not, and drop what is not needed with it."""
        oldest = self.snapshots[-1].end_offset + 1 if self.snapshots else 1
        if oldest > len(self.epochs):
            return
        end_offset = self.dice.randint(oldest, len(self.epochs))
        taken = SnapshotId(Offset(end_offset), Epoch(self.epochs[end_offset - 1]))
        store(self.log, taken)
        self.snapshots.append(taken)
        if len(self.snapshots) > 1:
            start = self.snapshots[-2].end_offset
            self.log.raise_log_start(start)
            self.log.store_epochs(self.log.epochs)
            self.log.drop_snapshots(start)
            self.snapshots = self.snapshots[-2:]

    def install(self) -> None:
        """Take a snapshot of other records, of which the log has at most the beginning."""
        oldest = self.snapshots[-1].end_offset + 1 if self.snapshots else 1
        self.epoch += 1
        end_offset = self.dice.randint(oldest, len(self.epochs) + 9)
        loaded = self.installing = SnapshotId(Offset(end_offset), Epoch(self.epoch))
        self.log.install_snapshot(loaded, f"all below {end_offset}, ".encode() * 20)
        self.has_installed(loaded)

    def has_installed(self, loaded: SnapshotId) -> None:
        """From here on there is only this."""
        self.installing, self.snapshots = None, [loaded]
        self.epochs = [-1] * (loaded.end_offset - 1) + [loaded.epoch]
        self.flushed = loaded.end_offset

    def truncate(self) -> None:
        """Cut what is not in a snapshot; of what is in one, nothing is ever cut."""
        lowest = self.snapshots[-1].end_offset if self.snapshots else 0
        end_offset = self.dice.randint(lowest, len(self.epochs))
        self.flushed = min(self.flushed, end_offset)
        self.log.truncate(Offset(end_offset))
        del self.epochs[end_offset:]

    def stop(self) -> None:
        """Stop cleanly, and start again."""
        close(self.directory, self.log)
        self.flushed = len(self.epochs)
        self.open()
        assert self.recovered.log_end_offset == len(self.epochs)

    def crash(self) -> None:
        """Lose the power, perhaps once more while opening."""
        chance = self.dice if self.dice.random() < 0.7 else None
        self.files.crash(chance)
        for _ in range(self.dice.randint(0, 2)):
            self.files.power_fails_before = self.files.operations + self.dice.randrange(15)
            with suppress(PowerLossError):
                open_log(self.files, SMALL)
            self.files.crash(chance)
        self.open()

    def open(self) -> None:
        """Open the log, and hold it to its promises."""
        self.directory, self.log, self.recovered = open_log(self.files, SMALL)
        check_consistent(self.files, self.log, self.recovered)
        found = [snapshot.id for snapshot in self.recovered.snapshots]
        if self.installing is not None and found[-1:] == [self.installing]:
            self.has_installed(self.installing)
        self.installing = None
        newest = found[-1].end_offset if found else 0
        assert newest >= (self.snapshots[-1].end_offset if self.snapshots else 0)
        assert self.recovered.log_end_offset >= max(self.flushed, newest)
        for record in held(self.log):
            assert record.leader_epoch == self.epochs[record.base_offset]
        self.snapshots, self.flushed = found, int(self.recovered.log_end_offset)
        del self.epochs[self.flushed :]


@pytest.mark.parametrize("seed", seeds(30))
def test_nothing_that_was_reported_is_ever_missing(seed: int) -> None:
    """Flushed records and durable snapshots survive whatever comes, and the log begins where a snapshot ends."""
    life = Life(seed)
    for _ in range(ACTIONS):
        life.act()
    life.crash()
