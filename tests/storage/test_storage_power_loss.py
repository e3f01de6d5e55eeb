"""Power loss at any moment of any history: the log that comes back is a prefix that keeps every promise."""

from __future__ import annotations

import random

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core.effects import QuorumState
from replica.core.log.recovered import RecoveredLog
from replica.ids import Epoch, Offset
from replica.storage import DataDirectory, LogConfig, LogStore
from tests.depth import seeds
from tests.storage.disks import append, batch, close, formatted, held, open_log, reopen_log, write
from tests.storage.power import PoweredLife

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes_max=2000)


class History(PoweredLife):
    """Drives one log at random and remembers what it was told: the model that the disk is compared with.

    ``written`` is the log as encoded batches of one record each; ``durable_end`` what a flush, a truncation or a
    recovery has promised; ``epoch`` grows at every truncation, so that no two batches are alike.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.written: list[bytes] = []
        self.durable_end = 0
        self.epoch = 1
        self.quorum_epochs = {1}
        self.check(self.start())

    def opened(self) -> tuple[DataDirectory, LogStore, RecoveredLog]:
        return open_log(self.files, CONFIG)

    def act(self) -> None:
        match self.chance.choice(("append", "append", "append", "flush", "truncate", "checkpoint", "vote", "restart")):
            case "append":
                self.append()
            case "flush":
                self.durable_end = self.log.flush()
            case "truncate":
                self.truncate()
            case "checkpoint":
                self.log.note_recovery_point()
                self.directory.store_checkpoints()
            case "vote":
                self.vote()
            case _:
                close(self.directory, self.log)
                self.durable_end = len(self.written)
                self.directory, self.log, recovered = open_log(self.files, CONFIG)
                assert recovered.log_end_offset == len(self.written)

    def append(self) -> None:
        end = len(self.written)
        batches = [batch(end + at, epoch=self.epoch) for at in range(self.chance.randint(1, 8))]
        # Before the call: a power loss in the middle may leave any part of it.
        self.written += [found.data for found in batches]
        write(self.log, batches)

    def truncate(self) -> None:
        end_offset = self.chance.randint(0, len(self.written))
        # From here on, what lies above may be gone, and what lies below is promised as before.
        self.durable_end = min(self.durable_end, end_offset)
        self.log.truncate(Offset(end_offset))
        if end_offset < len(self.written):
            del self.written[end_offset:]
            self.durable_end = end_offset
            self.epoch += 1

    def vote(self) -> None:
        epoch = max(self.quorum_epochs) + 1
        self.quorum_epochs.add(epoch)
        self.log.store_quorum_state(QuorumState(leader_epoch=Epoch(epoch)))
        self.quorum_epochs = {epoch}

    def check(self, recovered: RecoveredLog) -> None:
        """What came back is a prefix of what was written, as long as promised; and it is promised from now on."""
        if recovered.quorum_state is not None:
            assert recovered.quorum_state.leader_epoch in self.quorum_epochs
            self.quorum_epochs = {recovered.quorum_state.leader_epoch}
        found = [batch.data for batch in held(self.log)]
        assert found == self.written[: len(found)]
        assert len(found) >= self.durable_end
        assert self.log.flushed_end_offset == len(found)
        self.written = found
        self.durable_end = len(found)
        self.epoch += 1


@pytest.mark.parametrize("seed", seeds(30))
def test_power_loss_keeps_every_promise(seed: int) -> None:
    """After any crash the log opens, is a prefix of what was written, and holds all that was promised durable."""
    history = History(seed)
    for _ in range(12):
        history.run(steps=40)


@pytest.mark.parametrize("before", range(1, 12))
def test_a_flush_holds_what_has_begun_a_new_segment(before: int) -> None:
    """What is flushed after so many flushed batches is there after a power loss, if it stands in a new file as well."""
    files = formatted()
    _, log, _ = open_log(files, CONFIG)
    append(log, count=before)
    log.flush()
    append(log, count=1)
    log.flush()
    files.crash(None)
    _, recovered = reopen_log(files, CONFIG)
    assert recovered.log_end_offset == before + 1


def truncate_interrupted(step: int, chance: random.Random | None) -> tuple[SimulatedFiles, bool]:
    """Lose the power before the given operation of a truncation to 3 of 12 flushed batches; tell if it returned."""
    files = formatted()
    directory, log, _ = open_log(files, CONFIG)
    append(log, count=12)
    log.flush()
    log.note_recovery_point()
    directory.store_checkpoints()
    files.power_fails_before = files.operations + step
    try:
        log.truncate(Offset(3))
    except PowerLossError:
        files.crash(chance)
        return files, False
    files.crash(chance)
    return files, True


@pytest.mark.parametrize("seed", [None, *range(10)])
def test_truncate_then_crash_never_trips_the_recovery_point_check(seed: int | None) -> None:
    """A power loss at any step of a truncation leaves a log that opens, between the old end and the new one."""
    for step in range(100):
        files, returned = truncate_interrupted(step, None if seed is None else random.Random(seed))
        log, recovered = reopen_log(files, CONFIG)
        assert 3 <= recovered.log_end_offset <= (3 if returned else 12)
        assert [found.base_offset for found in held(log)] == list(range(recovered.log_end_offset))
        if returned:
            return
    pytest.fail("the truncation never came to its end")


def test_truncate_then_crash_never_resurrects_the_old_suffix() -> None:
    """After a truncation and other batches in its place, no crash brings the old ones back."""
    for seed in range(30):
        files = formatted()
        _, log, _ = open_log(files, CONFIG)
        append(log, count=12)
        log.flush()
        log.truncate(Offset(3))
        append(log, count=6, epoch=2)
        files.crash(random.Random(seed))
        log, _ = reopen_log(files, CONFIG)
        assert [found.leader_epoch for found in held(log)][3:] == [2] * (log.log_end_offset - 3)


def test_creating_a_log_survives_power_loss_at_every_step() -> None:
    """A log whose creation was cut short opens as an empty one."""
    for step in range(100):
        for seed in range(5):
            files = formatted()
            files.power_fails_before = files.operations + step
            try:
                open_log(files, CONFIG)
            except PowerLossError:
                files.crash(random.Random(seed))
                assert reopen_log(files, CONFIG)[1].log_end_offset == 0
            else:
                return
    pytest.fail("the creation never came to its end")


def test_a_clean_close_is_clean_or_not_at_every_step() -> None:
    """A power loss at any step of a clean close loses nothing that was flushed, whichever way the log is opened."""
    for step in range(100):
        for seed in range(5):
            files = formatted()
            directory, log, _ = open_log(files, CONFIG)
            append(log, count=7)
            log.flush()
            append(log, count=5)
            files.power_fails_before = files.operations + step
            try:
                close(directory, log)
            except PowerLossError:
                files.crash(random.Random(seed))
                assert 7 <= reopen_log(files, CONFIG)[1].log_end_offset <= 12
            else:
                files.crash()
                assert reopen_log(files, CONFIG)[1].log_end_offset == 12
                return
    pytest.fail("the close never came to its end")
